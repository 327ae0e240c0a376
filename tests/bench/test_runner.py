"""Campaigns are run, interrupted, resumed, and survive whatever a run does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from moestream.bench import runner as runner_module
from moestream.bench.campaign import Campaign, PlannedRun
from moestream.bench.cell_grammar import parse_cells
from moestream.bench.cells import Cell, command_cells
from moestream.bench.eta import Eta, estimate
from moestream.bench.gates import Gates
from moestream.bench.process import Outcome, run_job
from moestream.bench.result import MachineFacts, ModelFacts, RunResult
from moestream.bench.runner import Runner
from moestream.bench.settings import config_from_json, config_to_json
from moestream.bench.store import CampaignStore, Order
from moestream.bench.workloads import Workload
from moestream.config import EngineConfig, SpeculationConfig, StreamingConfig
from moestream.errors import ConfigError
from moestream.gguf import read_model
from moestream.telemetry.reading import read_run
from tests.conftest import ModelMaker

TIMEOUT_S = 600


class Notes:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.begun: list[PlannedRun] = []
        self.etas: list[Eta | None] = []
        self.done: list[RunResult] = []
        self.said: list[str] = []

    def begin(self, run: PlannedRun, done: int, total: int, eta: Eta | None) -> None:
        assert done < total
        self.begun.append(run)
        self.etas.append(eta)

    def waiting(self, text: str) -> None:
        pass

    def end(self, run: RunResult, seconds: float) -> None:
        assert seconds >= 0
        self.done.append(run)

    def say(self, text: str) -> None:
        self.said.append(text)


def order(model: Path, cells: tuple[Cell, ...], **changes: Any) -> Order:
    read = read_model(model)
    campaign = Campaign(
        name="test",
        cells=cells,
        workloads=(Workload("words", "the a of"),),
        rounds=changes.pop("rounds", 1),
        tokens=changes.pop("tokens", 3),
    )
    values: dict[str, Any] = {
        "campaign": campaign,
        "config": EngineConfig(model=model, n_ctx=64, threads=1),
        "model": ModelFacts(
            path="tiny.gguf", size_bytes=sum(read.file_sizes), arch=read.architecture
        ),
        "version": "1",
        "command": ("moestream", "bench"),
        "timeout_s": TIMEOUT_S,
        "warm": True,
        "machine": MachineFacts(cpu="cpu", cores=2, kernel="Linux", ram_mib=1000),
        **changes,
    }
    return Order(**values)


Job = Mapping[str, Any]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Runs that are made up; the jobs that were asked for."""
    jobs: list[Job] = []

    def run(job: Job, **_more: object) -> Outcome:
        jobs.append(job)
        if job["kind"] == "probe":
            return Outcome(value={"load": {"threads": 7}}, failure=None, output="", peak_bytes=None)
        if job["kind"] == "command":
            return Outcome(value=None, failure=None, output="9.5 tok/s\n", peak_bytes=5)
        value = {"metrics": {"tok_s": 10.0 + len(jobs)}, "accepted_at": [1], "offered_at": [2]}
        return Outcome(value=value, failure=None, output="", peak_bytes=None)

    monkeypatch.setattr(runner_module, "run_job", run)
    monkeypatch.setattr(runner_module, "drop_caches", lambda: False)
    return jobs


def test_a_campaign_for_real(tiny: ModelMaker, tmp_path: Path) -> None:
    cells = parse_cells("plain,ngram:2") + command_cells(["says=echo {tokens}.5"], ["(.+)"])
    store = CampaignStore.create(tmp_path / "out", order(tiny("qwen3moe"), cells))
    Runner(store, Notes()).run()
    runs = {run.cell: run for run in store.runs}
    assert {run.failure for run in store.runs} == {None}
    plan = store.order.campaign.plan()
    assert [run.cell for run in store.runs] == [planned.cell for planned in plan]
    assert runs["says"].metrics == {"tok_s": 3.5}
    for name in ("off", "plain", "ngram:2"):
        run = runs[name]
        assert run.csv is not None
        recorded = read_run(store.directory / run.csv)
        assert recorded.trailer is not None
        generated = run.metric("generated_tokens")
        assert generated is not None
        assert 1 <= generated <= 3
        assert run.entry is not None
        parts = [run.metric(f"{part}_ms") for part in ("compute", "stall", "draft", "other")]
        rate = run.metric("tok_s")
        if rate is not None:
            assert sum(part or 0 for part in parts) == pytest.approx(1e3 / rate)
    assert runs["off"].metric("hit_pct") is not None
    assert runs["plain"].metric("hit_pct") is None
    store.close()
    again = CampaignStore.open(tmp_path / "out")
    assert again.runs == store.runs
    notes = Notes()
    Runner(again, notes).run()
    assert notes.begun == []
    again.close()


def test_a_run_that_cannot_be_is_a_row(tiny: ModelMaker, tmp_path: Path) -> None:
    cells = (Cell("narrow", {"n_ctx": 8}),)
    asked = order(tiny("qwen3moe"), cells)
    asked = replace(
        asked,
        campaign=replace(asked.campaign, workloads=(Workload("long", "the " * 40),)),
    )
    store = CampaignStore.create(tmp_path / "out", asked)
    Runner(store, Notes()).run()
    failed = [run for run in store.runs if run.failure is not None]
    assert [run.cell for run in failed] == ["narrow"]
    assert "tokens, and a context of" in str(failed[0].failure)
    store.close()


@pytest.mark.parametrize(
    ("command", "timeout_s", "word"),
    [
        ("echo last words; exit 3", 60.0, "exit code 3: last words"),
        ("exit 3", 60.0, "it said nothing"),
        ("kill -SEGV $$", 60.0, "SIGSEGV"),
        ("echo waiting; exec sleep 600", 0.5, "--run-timeout"),
    ],
)
def test_processes_that_fail(command: str, timeout_s: float, word: str) -> None:
    outcome = run_job({"kind": "command", "command": command}, timeout_s=timeout_s)
    assert word in str(outcome.failure)
    assert outcome.value is None


def state(stat: Path) -> str:
    """Of a process, by its file in /proc; ``X`` when it is gone."""
    try:
        return stat.read_text().split()[2]
    except OSError:
        return "X"


def test_what_a_process_started_ends_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = f"sleep 600 & echo $! > {pid}"
    assert run_job({"kind": "command", "command": command}, timeout_s=60).failure is None
    stat = Path(f"/proc/{pid.read_text().strip()}/stat")
    while state(stat) not in "XZ":  # the signal was sent; it arrives when it is scheduled
        sleep(0.05)


def test_a_child_without_its_parent_ends() -> None:
    job = json.dumps({"parent": 1, "entrance": None, "kind": "command", "command": "echo alive"})
    done = subprocess.run(
        [sys.executable, "-m", "moestream.bench.child"],
        input=job, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "alive" not in done.stdout


def test_interrupted_and_resumed_is_the_same_table(
    tiny: ModelMaker, tmp_path: Path, fake: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = order(tiny("qwen3moe"), parse_cells("mtp:1-2,plain"), rounds=2)
    straight = CampaignStore.create(tmp_path / "straight", asked)
    Runner(straight, Notes()).run()
    planned = [(run.order, run.cell) for run in straight.runs]
    straight.close()

    store = CampaignStore.create(tmp_path / "broken", asked)
    whole = runner_module.run_job

    def interrupted(job: Job, **more: Any) -> Outcome:
        if len(store.runs) == 4:
            raise KeyboardInterrupt
        return whole(job, **more)

    monkeypatch.setattr(runner_module, "run_job", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Runner(store, Notes()).run()
    store.close()
    # Killed while it wrote: half a line is no run.
    with (tmp_path / "broken/runs.jsonl").open("a") as file:
        file.write('{"run": {"cell": "of')
    monkeypatch.setattr(runner_module, "run_job", whole)
    again = CampaignStore.open(tmp_path / "broken")
    assert len(again.runs) == 4
    Runner(again, Notes()).run()
    assert [(run.order, run.cell) for run in again.runs] == planned
    again.close()
    assert len((tmp_path / "broken/runs.jsonl").read_text().splitlines()) == len(planned)


def test_jobs_are_what_was_asked_for(tiny: ModelMaker, tmp_path: Path, fake: list[Job]) -> None:
    model = tiny("qwen3moe")
    cells = parse_cells("plain,cache=5@lanes=3") + command_cells(
        ["other=run {model} '{prompt}' {prompt_file} {tokens} {threads} {else}"],
        ["([0-9.]+) tok/s"],
    )
    store = CampaignStore.create(tmp_path / "out", order(model, cells))
    Runner(store, Notes()).run()
    jobs = {run.cell: job for run, job in zip(store.runs, fake, strict=True)}
    assert [jobs[name]["kind"] for name in ("off", "plain", "other")] == [
        "engine", "plain", "command",
    ]  # fmt: skip
    config = config_from_json(jobs["cache=5@lanes=3"]["config"])
    assert (config.streaming.cache_mb, config.streaming.io_threads) == (5, 3)
    assert jobs["off"]["tokens"] == 3
    words = re.fullmatch(r"run (\S+) ''the a of'' (\S+) 3 1 {else}", jobs["other"]["command"])
    assert words is not None
    assert words[1] == str(model.absolute())
    assert Path(words[2]).read_text() == "the a of"
    assert {run.peak_bytes for run in store.runs if run.cell == "other"} == {5}
    names = [job["csv"] for job in fake if "csv" in job]
    assert len(set(names)) == len(names)
    store.close()


def test_threads_are_measured_once(tiny: ModelMaker, tmp_path: Path, fake: list[Job]) -> None:
    config = EngineConfig(model=tiny("qwen3moe"), n_ctx=64)
    cells = parse_cells("same,threads=2")
    store = CampaignStore.create(tmp_path / "out", order(tiny("qwen3moe"), cells, config=config))
    notes = Notes()
    Runner(store, notes).run()
    assert [job["kind"] for job in fake].count("probe") == 1
    threads = [config_from_json(job["config"]).threads for job in fake[1:]]
    assert set(threads) == {2, 7}
    assert threads.count(2) == 1
    assert any("7 in every run" in text for text in notes.said)
    store.close()
    again = CampaignStore.open(tmp_path / "out")
    assert again.order.config.threads == 7
    again.close()


def test_caches_that_may_not_be_dropped_are_noted(
    tiny: ModelMaker, tmp_path: Path, fake: list[Job]
) -> None:
    notes = Notes()
    store = CampaignStore.create(tmp_path / "a", order(tiny("qwen3moe"), (), warm=False))
    Runner(store, notes).run()
    assert any("needs root" in text for text in notes.said)
    store.close()
    notes = Notes()
    store = CampaignStore.create(tmp_path / "b", order(tiny("qwen3moe"), (), warm=True))
    Runner(store, notes).run()
    assert any("warm" in text for text in notes.said)
    store.close()


def test_output_that_does_not_match_is_a_failure(
    tiny: ModelMaker, tmp_path: Path, fake: list[Job]
) -> None:
    cells = command_cells(["other=x"], ["([0-9.]+) t/s"])
    store = CampaignStore.create(tmp_path / "out", order(tiny("qwen3moe"), cells))
    Runner(store, Notes()).run()
    failure = next(run.failure for run in store.runs if run.cell == "other")
    assert "does not match" in str(failure)
    assert "9.5 tok/s" in str(failure)
    assert sum(run.failure is not None for run in store.runs) == 1
    store.close()


def test_failed_runs_can_be_made_again(tiny: ModelMaker, tmp_path: Path, fake: list[Job]) -> None:
    cells = command_cells(["other=x"], ["([0-9.]+) t/s"])
    store = CampaignStore.create(tmp_path / "out", order(tiny("qwen3moe"), cells))
    Runner(store, Notes()).run()
    notes = Notes()
    Runner(store, notes).run(retry_failed=True)
    assert [run.cell for run in notes.begun] == ["other"]
    assert len({run.order for run in store.runs}) == len(store.runs)
    store.close()


def test_rounds_can_be_added_and_not_taken_away(
    tiny: ModelMaker, tmp_path: Path, fake: list[Job]
) -> None:
    store = CampaignStore.create(tmp_path / "out", order(tiny("qwen3moe"), parse_cells("same")))
    Runner(store, Notes()).run()
    store.extend(3)
    Runner(store, Notes()).run()
    assert {run.round for run in store.runs} == {0, 1, 2}
    with pytest.raises(ConfigError, match="only raise"):
        store.extend(2)
    store.close()


def refused(directory: Path, change: Callable[[dict[str, Any]], object]) -> str:
    path = directory / "campaign.json"
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    with pytest.raises(ConfigError) as caught:
        CampaignStore.open(directory)
    return str(caught.value)


def test_damaged_campaigns_are_refused_in_words(
    tiny: ModelMaker, tmp_path: Path, fake: list[Job]
) -> None:
    directory = tmp_path / "out"
    with pytest.raises(ConfigError, match="no campaign"):
        CampaignStore.open(directory)
    store = CampaignStore.create(directory, order(tiny("qwen3moe"), ()))
    with pytest.raises(ConfigError, match="another process"):
        CampaignStore.open(directory)
    Runner(store, Notes()).run()
    store.close()
    with pytest.raises(ConfigError, match="--resume"):
        CampaignStore.create(directory, store.order)
    runs = directory / "runs.jsonl"
    runs.write_text("nonsense\n" + runs.read_text())
    with pytest.raises(ConfigError, match="line 1 of"):
        CampaignStore.open(directory)
    assert "gates" in refused(directory, lambda value: value.pop("gates"))
    assert "schema" in refused(directory, lambda value: value.update(schema=99))


def test_another_model_of_the_same_name_is_refused(
    tiny: ModelMaker, tmp_path: Path, fake: list[Job]
) -> None:
    asked = order(tiny("qwen3moe"), ())
    asked = replace(asked, model=replace(asked.model, size_bytes=5))
    store = CampaignStore.create(tmp_path / "out", asked)
    with pytest.raises(ConfigError, match="begin another one"):
        Runner(store, Notes())
    store.close()


def test_cells_that_cannot_be_are_refused_before_anything_runs(
    tiny: ModelMaker, tmp_path: Path, fake: list[Job]
) -> None:
    cells = (Cell("bad", {"streaming.prefetch": 1, "streaming.cache_mb": 0}),)
    store = CampaignStore.create(tmp_path / "out", order(tiny("qwen3moe"), cells))
    with pytest.raises(ConfigError, match="bad"):
        Runner(store, Notes())
    assert fake == []
    store.close()


def test_gates_are_part_of_the_record(tiny: ModelMaker, tmp_path: Path, fake: list[Job]) -> None:
    gates = Gates(max_load=0.0, timeout_s=0.0)
    store = CampaignStore.create(tmp_path / "out", order(tiny("qwen3moe"), (), gates=gates))
    Runner(store, Notes()).run()
    entries = [run.entry for run in store.runs]
    assert all(entry is not None and entry.gate_expired for entry in entries if entry.load_1m)
    store.close()


def planned(*cells: str) -> list[PlannedRun]:
    return [PlannedRun(order=i, round=0, workload="w", cell=c) for i, c in enumerate(cells)]


def made(*cells: str) -> list[RunResult]:
    return [
        RunResult(
            cell=c, workload="w", round=0, order=i, failure=None, entry=None, metrics={},
            accepted_at=(), offered_at=(), csv=None, peak_bytes=None,
        )
        for i, c in enumerate(cells)
    ]  # fmt: skip


def test_the_eta_says_what_it_does_not_know() -> None:
    assert estimate(planned("off", "mtp:1"), [], []) is None
    eta = estimate(planned("mtp:1", "off", "new"), made("off", "mtp:1"), [10.0, 40.0])
    assert eta == Eta(40.0 + 10.0 + 25.0, 1, 3)
    assert str(eta) == "about 75 s left, guessing for 1 of 3"
    known = estimate(planned("off"), made("off", "off"), [4000.0, 6000.0])
    assert str(known) == "about 83 min left"
    assert estimate(planned("off"), made("off"), [None]) is None


def test_a_configuration_survives_the_way_to_a_child(tmp_path: Path) -> None:
    config = EngineConfig(
        model=tmp_path / "m.gguf",
        n_ctx=100,
        threads=3,
        chat_template=tmp_path / "t.jinja",
        streaming=StreamingConfig(cache_mb=5, overlap=False, drop_cold_experts=0.5),
        speculation=SpeculationConfig(source="mtp", draft=5, synthetic_acceptance=0.25),
    )
    there = config_from_json(json.loads(json.dumps(config_to_json(config))))
    assert there == replace(config, model=str(config.model))
    there.validate()
