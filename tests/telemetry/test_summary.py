"""The summary: honest about what was not measured, and complete as numbers."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from moestream.engine.events import GenerationSummary
from moestream.engine.report import LoadReport, ThreadTiming
from moestream.telemetry.summary import (
    load_line,
    load_numbers,
    summary_lines,
    summary_numbers,
)

MIB = 2**20

SUMMARY = GenerationSummary(
    finish_reason="length",
    prompt_tokens=20,
    reused_tokens=5,
    generated_tokens=11,
    prefill_s=0.5,
    decode_s=2.0,
    read_bytes=100 * MIB,
    prefill_read_bytes=7 * MIB,
    hits=900,
    misses=100,
    dropped=0,
    routed=1000,
    evictions=3,
    rereads=2,
    stall_s=0.5,
    io_s=0.8,
    loop_overhead_s=0.01,
    cpu_s=3.5,
    majflt=0,
    guard_loads=0,
)


def report(**changes: Any) -> LoadReport:
    values: dict[str, Any] = dict.fromkeys((f.name for f in fields(LoadReport)), 0)
    values.update(
        model="m",
        paths=(Path("m.gguf"),),
        arch="qwen35moe",
        description="",
        threads=2,
        thread_timings=(ThreadTiming(1, 9.0), ThreadTiming(2, 5.0)),
        streamed=True,
        overlap=True,
        mover="move",
        direct_io=True,
        io_threads=2,
        dense_weights="anon",
        repack=False,
        cache_bytes=300 * MIB,
        cache_retains=True,
        cache_auto=True,
        cache_limited_by="memory",
        cache_ceiling_bytes=None,
        available_bytes=None,
        dense_bytes=100 * MIB,
        expert_bytes=2**30,
        token_demand_bytes=50 * MIB,
        load_read_bytes=None,
        notes=(),
        warnings=(),
    )
    values.update(changes)
    return LoadReport(**values)


def text(summary: GenerationSummary = SUMMARY, **changes: Any) -> str:
    return "\n".join(summary_lines(summary, report(**changes)))


def test_everything_a_person_looks_for() -> None:
    said = text()
    for words in (
        "20 tokens, 5 of them reused; 30.0 tok/s",
        "11 tokens; 5.00 tok/s (ended by the limit)",
        "200.0 ms: compute 149.0, stall up to 50.0, other 1.00; reads took 80.0 over all lanes",
        "hit rate 90.0 %, 10.00 MiB/token read of 50.00 routed",
        "300.0 MiB of memory for 1.00 GiB of experts (auto, limited by memory)",
        "move, overlap, 2 lanes, direct I/O",
        "2 (measured 1: 9.0 ms, 2: 5.0 ms)",
    ):
        assert words in said


def test_what_was_not_measured_is_not_claimed() -> None:
    said = text(replace(SUMMARY, generated_tokens=1, decode_s=0.0, hits=0, misses=0, majflt=None))
    assert "per token" not in said
    assert "hit rate" not in said
    assert "MiB/token" not in said
    assert "faults" not in said


def test_a_resident_model_has_no_streaming_numbers() -> None:
    said = text(streamed=False)
    assert "all in memory" in said
    assert "stall" not in said
    assert "hit rate" not in said


def test_lossy_runs_say_so() -> None:
    said = text(replace(SUMMARY, dropped=140), drop_cold_experts=0.75)
    assert "14.0 % of routings dropped (lossy)" in said
    assert "below 0.75/top-k dropped (lossy)" in said


def test_serial_stall_is_exact_and_unusual_things_are_told() -> None:
    said = text(
        replace(SUMMARY, guard_loads=3, majflt=20),
        overlap=False,
        direct_io=False,
        io_threads=1,
        prefetch=2,
        repack=True,
        thread_timings=(),
        cache_auto=False,
        cache_retains=False,
    )
    for words in (
        "stall 50.0",
        "serial, 1 lane, page cache, prefetch 2 layers, dense weights anon, repacked",
        "2.0 major faults",
        "3 unqueued reads",
        "(no cache)",
    ):
        assert words in said


def test_numbers_are_json_and_complete() -> None:
    numbers = json.loads(json.dumps(summary_numbers(SUMMARY)))
    assert {field.name for field in fields(GenerationSummary)} <= set(numbers)
    assert numbers["tok_s"] == 5.0
    load = json.loads(json.dumps(load_numbers(report(warnings=("careful",)))))
    assert load["warnings"] == ["careful"]
    assert load["thread_timings_ms"] == {"1": 9.0, "2": 5.0}


def test_load_line() -> None:
    assert "experts 1.00 GiB on disk" in load_line(report())
    assert "all in memory" in load_line(report(streamed=False))
