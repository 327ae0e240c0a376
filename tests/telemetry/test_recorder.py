"""Records: what they hold, who gets them, and what happens when writing fails."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from moestream.config import EngineConfig, SamplingConfig, SpeculationConfig
from moestream.telemetry.column import Value
from moestream.telemetry.preamble import preamble_values
from moestream.telemetry.probes import MemorySample, page_size
from moestream.telemetry.record import TokenRecord, token_record
from moestream.telemetry.recorder import Recorder
from moestream.telemetry.totals import Totals
from tests.telemetry.helpers import MIB, SUMMARY, drafting, event, report, session_info


class ListSink:
    """Keeps what it is told; fails from the ``failing``-th call on."""

    label = "the list"

    def __init__(self, failing: int | None = None, error: Exception | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.closed = 0
        self._failing = failing
        self._error = error or OSError(errno.ENOSPC, "No space left on device")

    def _add(self, kind: str, value: Any) -> None:
        if self._failing is not None and len(self.calls) >= self._failing:
            raise self._error
        self.calls.append((kind, value))

    def begin(self, preamble: Mapping[str, Value]) -> None:
        self._add("begin", preamble)

    def token(self, record: TokenRecord) -> None:
        self._add("token", record)

    def turn(self, done: Mapping[str, Value]) -> None:
        self._add("turn", done)

    def end(self, done: Mapping[str, Value]) -> None:
        self._add("end", done)

    def close(self) -> None:
        self.closed += 1

    def of(self, kind: str) -> list[Any]:
        return [value for name, value in self.calls if name == kind]


class CountingProbe:
    """Memory that grows by a MiB a sample."""

    def __init__(self, swap: float | None = 0.0) -> None:
        self.samples = 0
        self.closed = False
        self._swap = swap

    def sample(self) -> MemorySample:
        self.samples += 1
        return MemorySample(rss=float(self.samples), swap=self._swap)

    def close(self) -> None:
        self.closed = True


def recorder(*sinks: ListSink, warn: Any = None, probe: Any = None, **changes: Any) -> Recorder:
    memory: Any = CountingProbe() if probe is None else probe
    return Recorder(session_info(**changes), sinks, warn=warn or pytest.fail, probe=memory)


def test_a_session_in_order() -> None:
    sink, probe = ListSink(), CountingProbe()
    log = recorder(sink, probe=probe)
    for _turn in range(2):
        log.begin_turn(8)
        for index in range(3):
            log.observe(event(index))
        log.end_turn(SUMMARY)
    log.close()
    log.close()
    turn = ["token", "token", "token", "turn"]
    assert [kind for kind, _ in sink.calls] == ["begin", *turn, *turn, "end"]
    rows = sink.of("token")
    assert [(row.turn, row.step, row.steps) for row in rows] == [
        (turn, step, 8) for turn in range(2) for step in range(3)
    ]
    assert [row.phase for row in rows[:3]] == ["prefill", "decode", "decode"]
    assert [done["turn"] for done in sink.of("turn")] == [0, 1]
    (end,) = sink.of("end")
    assert end["turns"] == 2
    assert end["decoded_tokens"] == 20
    assert end["tok_s"] == 5.0
    assert sink.closed == 1
    assert probe.closed


def test_a_row() -> None:
    row = token_record(
        event(1, majflt=256, tok_s=7.5),
        report(),
        MemorySample(rss=80.0, swap=0.0, available=900.0),
        turn=2,
        steps=None,
    )
    page = page_size()
    assert page is not None
    assert row.steps is None
    assert row.majflt_mib == 256 * page / MIB
    assert row.cache_hit_pct == 75.0
    assert row.cache_budget_mib == 300.0
    assert row.mgmt_ms == 0.125
    assert row.dense_resident_frac == 1.0
    assert (row.rss_mib, row.rss_anon_mib, row.mem_available_mib) == (80.0, None, 900.0)
    assert (row.mtp_batch, row.mtp_draft_ms) == (1, 0.0)
    assert (row.tok_s, row.position) == (7.5, 11)


def test_what_was_not_measured_is_none_and_never_zero() -> None:
    memory = MemorySample()
    row = token_record(event(1, cpu_ms=None, majflt=None), report(), memory, turn=0, steps=1)
    assert row.cpu_ms is row.majflt is row.majflt_mib is row.dense_resident_frac is None
    resident = token_record(event(1), report(streamed=False), memory, turn=0, steps=1)
    for name in ("io_ms", "read_bytes", "stall_ms", "hits", "routed", "cache_budget_mib"):
        assert getattr(resident, name) is None
    assert resident.wall_ms == 2.0


@pytest.mark.parametrize(
    ("held", "swap", "expected"),
    [("anon", 0.0, 1.0), ("anon", 5.0, None), ("anon", None, None), ("mmap", 0.0, None)],
)
def test_dense_residency_is_claimed_only_where_it_is_known(
    held: str, swap: float | None, expected: float | None
) -> None:
    memory = MemorySample(swap=swap)
    row = token_record(event(), report(dense_weights=held), memory, turn=0, steps=1)
    assert row.dense_resident_frac == expected


def test_a_group_is_probed_once() -> None:
    sink, probe = ListSink(), CountingProbe()
    log = recorder(sink, probe=probe)
    log.begin_turn(None)
    log.observe(event(0))
    log.observe(event(1, batch=3, drafted=3, accepted=2))
    log.observe(event(2, batch=0))
    log.observe(event(3, batch=0))
    log.observe(event(4))
    assert [row.rss_mib for row in sink.of("token")] == [1.0, 2.0, 2.0, 2.0, 3.0]
    assert [row.mtp_batch for row in sink.of("token")] == [1, 3, 0, 0, 1]
    log.close()


def test_the_closing_event_of_a_cancelled_turn_is_no_row() -> None:
    sink = ListSink()
    log = recorder(sink)
    log.begin_turn(None)
    assert log.observe(event(0)) is not None
    assert log.observe(event(1, token_id=None, finish_reason="cancelled")) is None
    assert len(sink.of("token")) == 1
    log.close()


def test_a_turn_that_never_began_has_no_end() -> None:
    sink = ListSink()
    log = recorder(sink)
    log.end_turn(SUMMARY)  # of some earlier turn
    log.begin_turn(None)
    log.end_turn(None)
    log.close()
    assert not sink.of("turn")
    assert sink.of("end")[0]["turns"] == 0
    assert sink.of("end")[0]["tok_s"] is None


@pytest.mark.parametrize("error", [None, ValueError("I/O operation on closed file")])
@pytest.mark.parametrize("failing", range(5))
def test_a_sink_that_fails_is_warned_about_once_and_left_out(
    failing: int, error: Exception | None
) -> None:
    warnings: list[str] = []
    bad, good = ListSink(failing, error), ListSink()
    log = recorder(bad, good, warn=warnings.append)
    log.begin_turn(None)
    for index in range(2):
        log.observe(event(index))
    log.end_turn(SUMMARY)
    log.close()
    assert len(bad.calls) == failing
    assert bad.closed == 1
    assert len(good.calls) == 5
    assert len(warnings) == 1
    assert "the list" in warnings[0]
    assert "session goes on" in warnings[0]
    assert ("No space left" if error is None else "closed file") in warnings[0]


def test_a_warning_that_cannot_be_given_hurts_nobody() -> None:
    def warn(_text: str) -> None:
        raise BrokenPipeError

    log = recorder(ListSink(0), warn=warn)
    log.begin_turn(None)
    assert log.observe(event()) is not None
    log.close()


def test_sampling_of_the_turn() -> None:
    sink = ListSink()
    log = recorder(sink)
    log.begin_turn(None, SamplingConfig(temperature=0.5, seed=3))
    log.end_turn(SUMMARY)
    log.begin_turn(None)
    log.end_turn(SUMMARY)
    log.close()
    assert [(done["temp"], done["seed"]) for done in sink.of("turn")] == [(0.5, 3), (0.0, None)]
    assert "temp" not in sink.of("end")[0]


def test_management_is_summed_over_decodes() -> None:
    sink = ListSink()
    log = recorder(sink)
    log.begin_turn(None)
    log.observe(event(0, mgmt_ms=50.0))
    for index in range(1, 11):
        log.observe(event(index, mgmt_ms=2.0))
    log.end_turn(SUMMARY)
    log.close()
    assert sink.of("turn")[0]["mgmt_s/tok"] == pytest.approx(0.002)


def test_totals_of_several_turns() -> None:
    totals = Totals()
    speculated = replace(SUMMARY, wall_s=1.0, decodes=5, speculation=drafting())
    totals.add(replace(speculated, generated_tokens=1, decode_s=0.0), mgmt_s=0.0)
    totals.add(speculated, mgmt_s=0.5)
    totals.add(replace(speculated, speculation=drafting(offered_at=(1, 1, 1, 1))), mgmt_s=0.5)
    values = totals.values(report())
    assert values["decoded_tokens"] == 20
    assert values["generated_tokens"] == 23
    assert values["tok_s"] == 5.0
    assert values["mtp_drafted"] == 30
    assert values["mtp_accept_pct"] == 50.0
    assert values["mtp_tok/verify"] == 2.25
    assert values["mtp_decodes"] == 15
    assert values["mtp_coverage_pct"] == 80.0
    assert values["mtp_draft_s/tok"] == 0.0375
    assert values["mtp_offered_at"] == (9, 7, 5, 1)
    assert values["mgmt_s/tok"] == 0.05
    assert values["majflt/tok"] == 0.0
    assert values["cpu_s/tok"] == pytest.approx(3 * 3.5 / 20)
    totals.add(replace(SUMMARY, cpu_s=None, majflt=None), mgmt_s=None)
    values = totals.values(report())
    assert values["cpu_s/tok"] is values["majflt/tok"] is values["mgmt_s/tok"] is None


def test_totals_without_speculation_or_streaming() -> None:
    totals = Totals()
    totals.add(replace(SUMMARY, decodes=10), mgmt_s=None)
    values = totals.values(report(streamed=False))
    assert values["mtp_drafted"] == values["drafted_steps"] == 0
    assert values["mtp_decodes"] == 10
    assert "mtp_accept_pct" not in values
    assert "mtp_offered_at" not in values
    assert "read_bytes" not in values


def test_the_preamble_tells_what_applies() -> None:
    plain = preamble_values(session_info())
    assert plain["spec"] == "off"
    assert "spec_draft_max" not in plain
    assert plain["cache_mb"] == 300.0
    assert plain["cache_ceil_mb"] is None
    mtp = preamble_values(
        session_info(
            EngineConfig(
                speculation=SpeculationConfig(
                    source="mtp", draft=2, mtp_p_min=0.5, synthetic_acceptance=0.6
                )
            ),
            snapshot_bytes=3 * MIB,
        )
    )
    assert (mtp["spec"], mtp["spec_draft_max"], mtp["mtp_p_min"]) == ("mtp", 2, 0.5)
    assert mtp["synthetic_acceptance"] == 0.6
    assert mtp["snapshot_mib"] == 3.0
    assert "ngram_min_match" not in mtp
    ngram = preamble_values(
        session_info(EngineConfig(speculation=SpeculationConfig(source="ngram")))
    )
    assert ngram["ngram_min_match"] == 3
    assert "mtp_p_min" not in ngram
    resident = preamble_values(session_info(streamed=False))
    assert "cache_mb" not in resident
    no_cache = preamble_values(session_info(cache_retains=False, cache_auto=False))
    assert no_cache["cache_mb"] == 0.0
