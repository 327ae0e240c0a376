"""The summary: honest about what was not measured, and complete as numbers."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

from moestream.engine.events import GenerationSummary, SpeculationSummary
from moestream.engine.report import LoadReport
from moestream.telemetry.summary import (
    load_line,
    load_numbers,
    summary_lines,
    summary_numbers,
)
from tests.telemetry.helpers import MIB, SUMMARY, drafting, report


def text(summary: GenerationSummary = SUMMARY, **changes: Any) -> str:
    return "\n".join(summary_lines(summary, report(**changes)))


def test_everything_a_person_looks_for() -> None:
    said = text()
    for words in (
        "20 tokens, 5 of them reused; 30.0 tok/s",
        "11 tokens; 5.00 tok/s (ended by the limit)",
        "200.0 ms: compute 149.0, stall up to 50.0, other 1.00; reads took 80.0 over all lanes",
        "over all lanes; CPU 350.0 ms",
        "hit rate 90.0 %, 10.00 MiB/token read of 50.00 routed (2.50 in the neediest layer)",
        "3 evictions, 2 re-reads",
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


def speculated(
    changes: dict[str, Any] | None = None, **facts: Any
) -> tuple[str, GenerationSummary]:
    summary = replace(
        SUMMARY, wall_s=1.25, decodes=5, speculation=drafting(**(changes or {})), **facts
    )
    memory = {
        "snapshot_bytes": 12 * MIB,
        "draft_kv_bytes": 2 * MIB,
        "draft_compute_bytes": 30 * MIB,
        "draft_dense_bytes": 4 * MIB,
        "compute_bytes": 70 * MIB,
    }
    return text(summary, **memory), summary


def test_a_speculated_run_says_what_drafting_brought_and_cost() -> None:
    said, _ = speculated()
    for words in (
        "mtp        5/10 drafts accepted (50.0 %), 2.25 tokens per verify decode, "
        "5 decodes for 10 tokens",
        "mtp        drafting 25.00 ms/token; effective 5.00 tok/s (8.00 in decodes alone)",
        "mtp        of 100.0 MiB streamed, 3.0 (3.0 %) while drafting, 97.0 by the decodes",
        "mtp        memory: snapshots 12.0 MiB, draft context 32.0 MiB (KV 2.0 MiB, compute "
        "30.0 MiB), the head's dense weights 4.0 MiB; compute buffers of the model 70.0 MiB",
    ):
        assert words in said


def test_the_headline_is_the_effective_rate() -> None:
    said, _ = speculated()
    for line in said.splitlines():
        assert "8.00" not in line or "effective 5.00" in line
    assert "generated  11 tokens; 5.00 tok/s" in said


def test_ngram_tells_its_coverage_and_has_no_head() -> None:
    said, _ = speculated({"source": "ngram", "steps": 8, "drafted_steps": 2})
    assert "ngram      drafted on 2 of 8 steps (25.0 %)" in said
    assert "ngram      memory: snapshots 12.0 MiB; compute" in said
    assert "MiB streamed" not in said
    assert "head" not in said


def test_a_run_that_drafted_nothing_claims_no_acceptance() -> None:
    said, _ = speculated(
        {"source": "ngram", "drafted": 0, "drafted_steps": 0, "accepted": 0, "steps": 10}
    )
    assert "nothing was drafted, 10 decodes for 10 tokens" in said
    assert "drafted on 0 of 10 steps (0.0 %)" in said
    assert "accepted" not in said


def test_drafting_time_is_not_counted_twice() -> None:
    said, _ = speculated({"draft_s": 0.02}, loop_overhead_s=0.05)
    assert "compute 145.0, stall up to 50.0, drafting 2.00, other 3.00" in said


def test_synthetic_acceptance_is_the_first_thing_said() -> None:
    said, summary = speculated({"synthetic": True})
    assert said.startswith("WARNING    synthetic acceptance: the text is not the model's")
    assert "verify decode (synthetic)" in said
    assert summary_numbers(summary)["speculation"]["synthetic"] is True


def test_speculation_as_numbers() -> None:
    _, summary = speculated()
    numbers = json.loads(json.dumps(summary_numbers(summary)))
    assert numbers["decode_tok_s"] == 8.0
    assert {f.name for f in fields(SpeculationSummary)} <= set(numbers["speculation"])
    assert numbers["speculation"]["tokens_per_verify"] == 2.25
    assert summary_numbers(SUMMARY)["speculation"] is None
    load = load_numbers(report(snapshot_bytes=7))
    assert load["snapshot_bytes"] == 7
    for name in (f.name for f in fields(LoadReport)):
        if name.startswith("draft_"):
            assert name in load
