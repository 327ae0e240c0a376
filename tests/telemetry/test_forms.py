"""CSV, JSON lines and the summary say the same about the same run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from moestream import EngineConfig, Session, SpeculationConfig, StreamingConfig
from moestream.engine.events import GenerationSummary
from moestream.telemetry.csv_sink import CsvSink
from moestream.telemetry.json_lines import JsonLinesSink
from moestream.telemetry.preamble import SessionInfo
from moestream.telemetry.recorder import Recorder, Sink
from moestream.telemetry.schema import DONE_KEYS, PREAMBLE_KEYS, TOKEN_COLUMNS
from moestream.telemetry.summary import summary_lines

PROMPT = "Tom looked at the old house, and then Tom looked at the old house"
N = 24

CASES = {
    "plain": EngineConfig(),
    "small-cache": EngineConfig(streaming=StreamingConfig(cache_mb=2, overlap=False)),
    "resident": EngineConfig(streaming=StreamingConfig(moe_stream=False)),
    "mtp": EngineConfig(speculation=SpeculationConfig(source="mtp")),
    "ngram": EngineConfig(speculation=SpeculationConfig(source="ngram", ngram_min_match=1)),
    "synthetic": EngineConfig(
        speculation=SpeculationConfig(source="mtp", draft=2, synthetic_acceptance=0.5)
    ),
}


class Run:
    """What each form said of two turns."""

    def __init__(self, config: EngineConfig, path: Path) -> None:
        self.lines: list[str] = []
        self.summaries: list[GenerationSummary] = []
        with Session(config) as session:
            info = SessionInfo(
                report=session.load_report,
                config=session.config,
                version="1",
                llama_cpp_python=None,
                started="",
            )
            sinks: list[Sink] = [CsvSink(path), JsonLinesSink(self.lines.append)]
            log = Recorder(info, sinks, warn=pytest.fail)
            for prompt in (PROMPT, PROMPT + " and"):
                log.begin_turn(N)
                for event in session.generate(prompt, max_tokens=N):
                    log.observe(event)
                assert session.last_summary is not None
                self.summaries.append(session.last_summary)
                log.end_turn(session.last_summary)
            log.close()
            self.human = summary_lines(self.summaries[-1], session.load_report)
        text = path.read_text(encoding="utf-8").splitlines()
        self.rows = list(csv.DictReader(line for line in text if not line.startswith("#")))
        header = next(i for i, line in enumerate(text) if line.startswith("step,"))
        self.preamble = dict(line[2:].split("=", 1) for line in text[:header])
        self.turns = [_pairs(line) for line in text if line.startswith("# turn ")]
        (self.trailer,) = (_pairs(line) for line in text if line.startswith("# summary "))

    def json(self, word: str) -> list[dict[str, Any]]:
        return [json.loads(line.split(" ", 1)[1]) for line in self.lines if line.startswith(word)]

    def decoded(self, turn: int) -> list[dict[str, Any]]:
        return [
            row
            for row in self.json("BMOE_PROGRESS")
            if row["turn"] == turn and row["phase"] == "decode"
        ]


def _pairs(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split()[2:])


def _same(text: str, value: object) -> bool:
    if value is None:
        return text == ""
    if isinstance(value, bool):
        return text == str(int(value))
    if isinstance(value, list):
        return text == ":".join(map(str, value))
    return text == value if isinstance(value, str) else float(text) == value


@pytest.fixture(scope="module", params=CASES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(CASES[request.param], tmp_path_factory.mktemp("forms") / "run.csv")


def test_rows_are_progress_lines(run: Run) -> None:
    progress = run.json("BMOE_PROGRESS")
    assert len(run.rows) == len(progress) == sum(s.generated_tokens for s in run.summaries)
    for row, line in zip(run.rows, progress, strict=True):
        for column in TOKEN_COLUMNS:
            assert _same(row[column.name], line[column.json_name]), column.name


def test_the_preamble_is_the_load_line(run: Run) -> None:
    (load,) = run.json("BMOE_LOAD")
    for column in PREAMBLE_KEYS:
        assert _same(run.preamble[column.name], load[column.json_name]), column.name


def test_turn_comments_are_done_lines(run: Run) -> None:
    for turn, done in zip(run.turns, run.json("BMOE_DONE"), strict=True):
        for column in DONE_KEYS:
            assert _same(turn[column.name], done[column.json_name]), column.name


def test_rows_add_up_to_the_summary(run: Run) -> None:
    streamed = run.json("BMOE_LOAD")[0]["moe_stream"]
    for turn, summary in enumerate(run.summaries):
        rows, done = run.decoded(turn), run.json("BMOE_DONE")[turn]

        def total(name: str, rows: list[dict[str, Any]] = rows) -> Any:
            return sum(row[name] for row in rows)

        n = summary.decoded_tokens
        assert total("mtp_batch") == len(rows) == n == done["decoded_tokens"]
        assert sum(row["mtp_batch"] > 0 for row in rows) == summary.decodes == done["mtp_decodes"]
        for name, seconds in (
            ("wall", summary.wall_s),
            ("loop_overhead", summary.loop_overhead_s),
            ("cpu", summary.cpu_s),
        ):
            assert total(f"{name}_ms") / 1e3 == pytest.approx(seconds, abs=1e-6 * n)
            assert done[f"{name}_s_tok"] * n == pytest.approx(seconds, abs=1e-6 * n)
        assert total("majflt") == summary.majflt
        if streamed:
            for name in ("read_bytes", "hits", "misses", "evictions", "rereads"):
                assert total(name) == getattr(summary, name) == done[name]
            assert done["cache_hit_pct"] == pytest.approx(summary.hit_pct, abs=1e-3)
            for name, seconds in (("stall", summary.stall_s), ("io", summary.io_s)):
                assert total(f"{name}_ms") / 1e3 == pytest.approx(seconds, abs=1e-6 * n)
            assert total("mgmt_ms") / 1e3 == pytest.approx(done["mgmt_s_tok"] * n, abs=1e-6 * n)
        else:
            assert done["read_bytes"] is None
            assert all(row["read_bytes"] is None for row in rows)
        first = next(row for row in run.json("BMOE_PROGRESS") if row["turn"] == turn)
        assert first["phase"] == "prefill"
        assert done["prefill_read_bytes"] == first["read_bytes"]
        assert done["tok_s"] == pytest.approx(summary.tok_s, abs=1e-3)


def test_drafting_adds_up(run: Run) -> None:
    for turn, summary in enumerate(run.summaries):
        rows, done = run.decoded(turn), run.json("BMOE_DONE")[turn]
        drafted = sum(row["drafted"] for row in rows)
        accepted = sum(row["accepted"] for row in rows)
        steps = sum(row["drafted"] > 0 for row in rows)
        assert (done["mtp_drafted"], done["mtp_accepted"]) == (drafted, accepted)
        assert done["drafted_steps"] == steps
        assert accepted + summary.decodes == summary.decoded_tokens
        seconds = sum(row["mtp_draft_ms"] for row in rows) / 1e3
        n = summary.decoded_tokens
        assert done["mtp_draft_s_tok"] * n == pytest.approx(seconds, abs=1e-6 * n)
        if summary.speculation is None:
            assert drafted == 0
            assert done["mtp_offered_at"] is None
        else:
            assert done["mtp_offered_at"] == list(summary.speculation.offered_at)
            assert sum(done["mtp_accepted_at"]) == accepted
            assert done["mtp_draft_read_bytes"] == summary.speculation.draft_read_bytes
        for row in rows:
            if row["mtp_batch"] == 0:
                assert row["wall_ms"] == row["read_bytes"] == row["loop_overhead_ms"] == 0


def test_the_trailer_covers_both_turns(run: Run) -> None:
    done = run.json("BMOE_DONE")
    assert run.trailer["turns"] == "2"
    for name in ("generated_tokens", "mtp_drafted", "mtp_accepted", "mtp_decodes", "routed"):
        values = [line[name] for line in done]
        expected = "" if None in values else str(sum(values))
        assert run.trailer[name] == expected


def test_people_read_the_same(run: Run) -> None:
    done, text = run.json("BMOE_DONE")[-1], "\n".join(run.human)
    assert f"{run.summaries[-1].tok_s:.2f} tok/s" in text
    if run.summaries[-1].speculation is None:
        return
    if done["mtp_drafted"]:
        assert f"{done['mtp_accepted']}/{done['mtp_drafted']} drafts accepted" in text
        assert f"{done['mtp_tok_verify']:.2f} tokens per verify decode" in text
    assert f"{done['mtp_decodes']} decodes for {done['decoded_tokens']} tokens" in text


def test_forced_acceptance_is_labelled_everywhere(run: Run) -> None:
    forced = run.preamble["synthetic_acceptance"] != ""
    (load,) = run.json("BMOE_LOAD")
    assert (load["synthetic_acceptance"] is not None) == forced
    assert all(done["synthetic"] is forced for done in run.json("BMOE_DONE"))
    assert run.trailer["synthetic"] == str(int(forced))
    assert ("the text is not the model's" in run.human[0]) == forced
