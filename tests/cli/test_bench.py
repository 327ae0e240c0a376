"""``moestream bench``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from moestream.bench import runner
from moestream.bench.process import Outcome
from moestream.bench.settings import config_from_json
from tests.bench.simulated import result, rounds
from tests.cli.conftest import Cli
from tests.conftest import ModelMaker

Job = Mapping[str, Any]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Runs that are made up; the jobs that were asked for."""
    jobs: list[Job] = []

    def run(job: Job, **_more: object) -> Outcome:
        jobs.append(job)
        if job["kind"] == "command":
            return Outcome(value=None, failure=None, output="5.5 tok/s", peak_bytes=None)
        metrics = {"tok_s": 10.0 + 0.01 * len(jobs), "compute_ms": 100.0}
        value = {"metrics": metrics, "load": {"threads": 2}}
        return Outcome(value=value, failure=None, output="", peak_bytes=None)

    monkeypatch.setattr(runner, "run_job", run)
    monkeypatch.setattr(runner, "drop_caches", lambda: False)
    return jobs


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("the a of")
    return path


def test_a_campaign_for_real(cli: Cli, tiny: ModelMaker, tmp_path: Path, words: Path) -> None:
    out = tmp_path / "out"
    done = cli(
        "bench", tiny("qwen3moe"), "--cells", "plain", "-w", words, "--rounds", 1, "--tokens", 3,
        "-t", 1, "-c", 64, "-o", out, "--warm",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "not enough rounds" in done.out
    assert done.out == (out / "report.md").read_text()
    assert (out / "results.json").exists()
    assert "[1/3] round 1, words, off" in done.err
    assert "left" in done.err
    assert len(list((out / "raw").iterdir())) == 3
    again = cli("bench", "--resume", out, "--json")
    assert again.code == 0
    assert again.json == json.loads((out / "results.json").read_text())


def start(model: Path, words: Path, out: Path) -> subprocess.Popen[str]:
    """A campaign in a program of its own, which has made its first run."""
    process = subprocess.Popen(
        [sys.executable, "-m", "moestream", "bench", str(model), "--cells", "same", "-w",
         str(words), "--rounds", "1", "--tokens", "3", "-t", "1", "-c", "64", "-o", str(out),
         "--warm"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    runs = out / "runs.jsonl"
    while not (runs.exists() and runs.read_text().endswith("\n")):
        assert process.poll() is None
        sleep(0.02)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ended_and_resumed(
    cli: Cli, tiny: ModelMaker, tmp_path: Path, words: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    process = start(tiny("qwen3moe"), words, out)
    process.send_signal(number)
    _, said = process.communicate()
    before = (out / "runs.jsonl").read_text().splitlines()
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert f"go on with: moestream bench --resume {out}" in said
        assert (out / "report.md").exists()
    done = cli("bench", "--resume", out)
    assert done.code == 0, done.err
    after = (out / "runs.jsonl").read_text().splitlines()
    assert after[: len(before)] == before
    made = json.loads((out / "results.json").read_text())["runs"]
    assert [run["order"] for run in made] == list(range(len(made)))
    assert {run["failure"] for run in made} == {None}


def test_resume_takes_nothing_else(
    cli: Cli, tiny: ModelMaker, tmp_path: Path, fake: list[Job]
) -> None:
    out = tmp_path / "out"
    model = tiny("qwen3moe")
    assert cli("bench", model, "--cells", "same", "--rounds", 1, "-t", 1, "-o", out).code == 0
    for extra in ([model], ["--cells", "plain"], ["--tokens", 5], ["-t", 2], ["--settle", 1],
                  ["--ram-ratio", 2], ["-o", tmp_path / "x"], ["-w", "prose"]):  # fmt: skip
        refused = cli("bench", "--resume", out, *extra)
        assert refused.code == 2
        assert "--resume goes on" in refused.error
    count = len(fake)
    assert cli("bench", "--resume", out, "--rounds", 2).code == 0
    assert len(fake) == 2 * count
    assert cli("bench", model, "--cells", "same", "-o", out).code == 2


def test_options_reach_the_runs(
    cli: Cli, tiny: ModelMaker, tmp_path: Path, fake: list[Job]
) -> None:
    done = cli(
        "bench", tiny("qwen3moe"), "--cells", "cache=7,mtp:2", "--cell-cmd", "x=echo {tokens}",
        "--cell-cmd-regex", "([0-9.]+) tok/s", "--rounds", 1, "--tokens", 9, "-o", tmp_path / "out",
        "--io-threads", 3, "--no-overlap", "--ctx", 99, "-t", 2, "--workloads", "copy",
        "--run-timeout", 77,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert {job["tokens"] for job in fake if "tokens" in job} == {9}
    configs = [config_from_json(job["config"]) for job in fake if job["kind"] == "engine"]
    assert {config.streaming.io_threads for config in configs} == {3}
    assert {config.streaming.overlap for config in configs} == {False}
    assert {config.n_ctx for config in configs} == {99}
    assert {config.streaming.cache_mb for config in configs} == {"auto", 7}
    assert {
        config.speculation.draft for config in configs if config.speculation.source == "mtp"
    } == {2}
    assert {"kind": "command", "command": "echo 9"} in fake
    order = json.loads((tmp_path / "out/campaign.json").read_text())
    assert order["timeout_s"] == 77


def test_a_campaign_file(cli: Cli, tiny: ModelMaker, tmp_path: Path, fake: list[Job]) -> None:
    (tmp_path / "mine.txt").write_text("words")
    file = tmp_path / "campaign.toml"
    file.write_text(
        f"""
name = "from a file"
model = "{tiny("qwen3moe")}"
base = "threads=2@lanes=5"
cells = ["cache=3"]
workloads = ["mine.txt"]
rounds = 1
tokens = 4
"""
    )
    done = cli("bench", "--campaign", file, "-o", tmp_path / "a")
    assert done.code == 0, done.err
    assert done.out.startswith("# from a file")
    configs = [config_from_json(job["config"]) for job in fake]
    assert {(c.threads, c.streaming.io_threads) for c in configs} == {(2, 5)}
    fake.clear()
    done = cli("bench", "--campaign", file, "-o", tmp_path / "b", "--io-threads", 4, "--tokens", 6)
    assert done.code == 0, done.err
    configs = [config_from_json(job["config"]) for job in fake]
    assert {(c.threads, c.streaming.io_threads) for c in configs} == {(2, 4)}
    assert {job["tokens"] for job in fake} == {6}


def test_a_map(cli: Cli, tiny: ModelMaker, tmp_path: Path, fake: list[Job]) -> None:
    done = cli(
        "bench", "synthetic", tiny("qwen3moe"), "--acceptances", "0.2,0.8", "--widths", "1,3",
        "--caches", "3,auto", "-t", 1, "-o", tmp_path / "out", "--map-rounds", 3,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "## Map" in done.out
    assert "| break-even |" in done.out
    assert (tmp_path / "out/map.png").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["MODEL"], "nothing to compare"),
        (["--cells", "same"], "no model"),
        (["MODEL", "--cells", "of"], "did you mean 'off'"),
        (["MODEL", "--cells", "off", "-w", "nowhere.txt"], "nowhere.txt"),
        (["MODEL", "--cells", "off", "--rounds", "0"], "rounds"),
        (["MODEL", "--cells", "off", "--tokens", "1"], "2 tokens"),
        (["MODEL", "--cells", "off", "--ram-ratio", "2", "--memory-limit", "1G"], "exclude"),
        (["MODEL", "--cells", "off", "--memory-limit", "lots"], "6GiB"),
        (["MODEL", "--cells", "off", "--settle", "-1"], "settle"),
        (["MODEL", "--cells", "off", "--run-timeout", "0"], "--run-timeout"),
        (["MODEL", "--cells", "off", "--retry-failed"], "--resume"),
        (["MODEL", "--cells", "off", "--cell-cmd", "x=y"], "--cell-cmd-regex"),
        (["--resume", "nowhere"], "no campaign"),
        (["synthetic", "MODEL", "--widths", "9"], "draft"),
        (["synthetic", "MODEL", "--acceptances", "lots"], "--acceptances"),
        (["synthetic", "MODEL", "--draft-source", "me"], "--draft-source"),
        (["speed", "MODEL", "-p", "0", "-n", "0"], "nothing to test"),
        (["speed", "MODEL", "-p", "x"], "--n-prompt"),
        (["speed", "MODEL", "-r", "0"], "--repetitions"),
        (["speed", "MODEL", "-o", "xml"], "--format"),
        (["compare", "nowhere", "nowhere"], "nowhere"),
    ],
)
def test_wrong_usage(
    *,
    cli: Cli,
    tiny: ModelMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    word: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    model = str(tiny("qwen3moe"))
    done = cli("bench", *(model if part == "MODEL" else part for part in arguments))
    assert done.code == 2, done.err
    assert word in done.error
    assert done.out == ""
    assert list(tmp_path.glob("bench-*")) == []


def write(path: Path, *rates: float, **changes: Any) -> Path:
    runs = [*rounds("off", rates), *rounds("same", rates)]
    path.write_text(json.dumps(result("off,same", runs, **changes).to_json()))
    return path


def test_compare(cli: Cli, tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", 10.0, 10.1, 9.9, name="before")
    second = write(tmp_path / "b.json", 20.0, 20.1, 19.9, name="after")
    done = cli("bench", "compare", first, second)
    assert done.code == 0, done.err
    assert re.search(r"\| prose \| off \| 10 \| 20 \| 2\.0", done.out)
    assert cli("bench", "compare", first, second, "--json").json["first"] == "before"


def test_compare_different_models(cli: Cli, tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", 10.0, 10.1, 9.9)
    value = json.loads(write(tmp_path / "b.json", 10.0, 10.1, 9.9).read_text())
    value["model"]["size_bytes"] += 1
    second = tmp_path / "b.json"
    second.write_text(json.dumps(value))
    refused = cli("bench", "compare", first, second)
    assert refused.code == 2
    assert "--force" in refused.error
    assert cli("bench", "compare", first, second, "--force").code == 0


def test_speed(cli: Cli, tiny: ModelMaker) -> None:
    done = cli(
        "bench", "speed", tiny("qwen3moe"), "-p", "5", "-n", "3", "-r", 2, "-t", 1, "-o", "json",
        "--plain", "--warm",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert [(row["backends"], row["n_prompt"], row["n_gen"]) for row in done.json] == [
        ("moestream", 5, 0), ("moestream", 0, 3), ("llama.cpp", 5, 0), ("llama.cpp", 0, 3),
    ]  # fmt: skip
    assert all(len(row["samples_ts"]) == 2 for row in done.json)


def test_speed_of_a_file_that_is_no_model(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(os.urandom(100))
    assert cli("bench", "speed", path).code == 1
    assert cli("bench", path, "--cells", "off", "-o", tmp_path / "x").code == 1


def test_the_default_verb_need_not_be_named(cli: Cli) -> None:
    for arguments in (["bench", "--help"], ["bench"]):
        text = cli(*arguments).out
        assert all(name in text for name in ("run", "synthetic", "compare", "speed"))
    assert "moestream bench run" in cli("bench", "run", "--help").out
