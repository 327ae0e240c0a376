from __future__ import annotations

import json

import pytest

from moestream.telemetry.json_lines import DONE, LOAD, PROGRESS, JsonLinesSink
from moestream.telemetry.recorder import Recorder
from moestream.telemetry.schema import DONE_KEYS, PREAMBLE_KEYS, TOKEN_COLUMNS
from tests.telemetry.helpers import SUMMARY, event, session_info


def test_a_line_each_with_every_key() -> None:
    lines: list[str] = []
    log = Recorder(session_info(model="ä\n"), [JsonLinesSink(lines.append)], warn=pytest.fail)
    log.begin_turn(None)
    log.observe(event(0))
    log.observe(event(1, cpu_ms=None))
    log.end_turn(SUMMARY)
    log.close()
    assert all(line.endswith("\n") and line.count("\n") == 1 and line.isascii() for line in lines)
    words, values = zip(*(line.split(" ", 1) for line in lines), strict=True)
    load, first, second, done = (json.loads(text) for text in values)
    assert words == (LOAD, PROGRESS, PROGRESS, DONE)
    assert list(load) == [column.json_name for column in PREAMBLE_KEYS]
    assert list(first) == [column.json_name for column in TOKEN_COLUMNS]
    assert list(done) == [column.json_name for column in DONE_KEYS]
    assert load["model"] == "ä\n"
    assert load["moe_stream"] is True
    assert first["phase"] == "prefill"
    assert second["cpu_ms"] is None
    assert done["loop_overhead_s_tok"] == 0.001
    assert done["mtp_draft_s_tok"] == 0.0
    assert done["synthetic"] is False
