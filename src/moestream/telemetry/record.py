"""One row of telemetry: the record that CSV, JSON lines and every other form are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from moestream.engine.events import Phase, TokenEvent
from moestream.engine.report import LoadReport
from moestream.telemetry.column import Value
from moestream.telemetry.probes import MemorySample, page_size

__all__ = ["TokenRecord", "token_record"]

_MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A token and what it cost; the fields are the columns, see :mod:`moestream.telemetry.schema`.

    ``None`` is "not measured, or does not apply".
    """

    step: int
    steps: int | None
    wall_ms: float
    io_ms: float | None
    compute_ms: float
    read_bytes: int | None
    cache_hit_pct: float | None
    stall_ms: float | None
    mgmt_ms: float | None
    majflt: int | None
    cpu_ms: float | None
    dense_resident_frac: float | None
    turn: int
    majflt_mib: float | None
    cache_budget_mib: float | None
    rss_mib: float | None
    rss_anon_mib: float | None
    rss_file_mib: float | None
    swap_mib: float | None
    mem_available_mib: float | None
    mem_free_mib: float | None
    swap_free_mib: float | None
    loop_overhead_ms: float
    mtp_batch: int
    mtp_draft_ms: float
    phase: Phase
    position: int
    rows: int
    hits: int | None
    misses: int | None
    routed: int | None
    dropped: int | None
    evictions: int | None
    rereads: int | None
    guard_loads: int | None
    drafted: int
    accepted: int
    draft_read_bytes: int | None
    tok_s: float | None

    def values(self) -> Mapping[str, Value]:
        """By column name."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES: Final = tuple(field.name for field in fields(TokenRecord))

#: What the expert store counts; it sees nothing of a model that is not streamed.
_UNSEEN: Final[dict[str, Any]] = dict.fromkeys((
    "io_ms", "read_bytes", "stall_ms", "mgmt_ms", "cache_budget_mib", "hits", "misses", "routed",
    "dropped", "evictions", "rereads", "guard_loads", "draft_read_bytes",
))  # fmt: skip


def token_record(
    event: TokenEvent,
    report: LoadReport,
    memory: MemorySample,
    *,
    turn: int,
    steps: int | None,
) -> TokenRecord:
    """The record of a token, with the memory as it was then."""
    metrics = event.metrics
    record = TokenRecord(
        step=event.index,
        steps=steps,
        wall_ms=metrics.wall_ms,
        io_ms=metrics.io_ms,
        compute_ms=metrics.compute_ms,
        read_bytes=metrics.read_bytes,
        cache_hit_pct=metrics.hit_pct,
        stall_ms=metrics.stall_ms,
        mgmt_ms=metrics.mgmt_ms,
        majflt=metrics.majflt,
        cpu_ms=metrics.cpu_ms,
        dense_resident_frac=_dense_resident(report, memory),
        turn=turn,
        majflt_mib=_pages_mib(metrics.majflt),
        cache_budget_mib=report.cache_bytes / _MIB,
        rss_mib=memory.rss,
        rss_anon_mib=memory.rss_anon,
        rss_file_mib=memory.rss_file,
        swap_mib=memory.swap,
        mem_available_mib=memory.available,
        mem_free_mib=memory.free,
        swap_free_mib=memory.swap_free,
        loop_overhead_ms=metrics.loop_overhead_ms,
        mtp_batch=metrics.batch,
        mtp_draft_ms=metrics.draft_ms,
        phase=metrics.phase,
        position=event.position,
        rows=metrics.rows,
        hits=metrics.hits,
        misses=metrics.misses,
        routed=metrics.routed,
        dropped=metrics.dropped,
        evictions=metrics.evictions,
        rereads=metrics.rereads,
        guard_loads=metrics.guard_loads,
        drafted=metrics.drafted,
        accepted=metrics.accepted,
        draft_read_bytes=metrics.draft_read_bytes,
        tok_s=event.tok_s,
    )
    return record if report.streamed else replace(record, **_UNSEEN)


def _dense_resident(report: LoadReport, memory: MemorySample) -> float | None:
    return 1.0 if report.dense_weights == "anon" and memory.swap == 0.0 else None


def _pages_mib(faults: int | None) -> float | None:
    page = page_size()
    return None if faults is None or page is None else faults * page / _MIB
