"""Generations added up: what a recording says last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from moestream.engine.events import (
    FinishReason,
    GenerationSummary,
    SpeculationSummary,
    hit_percent,
)
from moestream.engine.report import LoadReport
from moestream.telemetry.column import Value

__all__ = ["Totals"]

_MIB: Final = 2**20


@dataclass(slots=True)
class _Speculation:
    drafted: int = 0
    accepted: int = 0
    drafted_steps: int = 0
    read_bytes: int = 0
    seconds: float = 0.0
    offered_at: tuple[int, ...] = ()
    accepted_at: tuple[int, ...] = ()
    synthetic: bool = False
    seen: bool = False

    def add(self, other: SpeculationSummary) -> None:
        self.seen = True
        self.drafted += other.drafted
        self.accepted += other.accepted
        self.drafted_steps += other.drafted_steps
        self.read_bytes += other.draft_read_bytes
        self.seconds += other.draft_s
        self.offered_at = _added(self.offered_at, other.offered_at)
        self.accepted_at = _added(self.accepted_at, other.accepted_at)
        self.synthetic |= other.synthetic


@dataclass(slots=True)
class Totals:
    """Sums over generations, for the values of :data:`moestream.telemetry.schema.DONE_KEYS`."""

    turns: int = 0
    finish_reason: FinishReason | None = None
    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    decoded_tokens: int = 0
    decodes: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    wall_s: float = 0.0
    stall_s: float = 0.0
    io_s: float = 0.0
    mgmt_s: float | None = 0.0
    loop_overhead_s: float = 0.0
    cpu_s: float | None = 0.0
    majflt: int | None = 0
    read_bytes: int = 0
    prefill_read_bytes: int = 0
    hits: int = 0
    misses: int = 0
    routed: int = 0
    dropped: int = 0
    evictions: int = 0
    rereads: int = 0
    guard_loads: int = 0
    speculation: _Speculation = field(default_factory=_Speculation)

    def add(self, summary: GenerationSummary, *, mgmt_s: float | None) -> None:
        """Another generation; ``mgmt_s`` is the sum over its decodes."""
        self.turns += 1
        self.finish_reason = summary.finish_reason
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(summary, name))
        self.mgmt_s = _sum(self.mgmt_s, mgmt_s)
        self.cpu_s = _sum(self.cpu_s, summary.cpu_s)
        if self.majflt is not None:
            self.majflt = None if summary.majflt is None else self.majflt + summary.majflt
        if summary.speculation is not None:
            self.speculation.add(summary.speculation)

    def values(self, report: LoadReport) -> Mapping[str, Value]:
        """By key; ``turn`` and what may differ between turns is left to the caller."""
        draft = self.speculation
        values: dict[str, Value] = {
            "turns": self.turns,
            "finish_reason": self.finish_reason,
            "prompt_tokens": self.prompt_tokens,
            "reused_tokens": self.reused_tokens,
            "generated_tokens": self.generated_tokens,
            "decoded_tokens": self.decoded_tokens,
            "prefill_s": self.prefill_s,
            "decode_s": self.decode_s,
            "tok_s": _rate(self.decoded_tokens, self.decode_s),
            "decode_tok_s": _rate(self.decoded_tokens, self.wall_s),
            "wall_s/tok": self._each(self.wall_s),
            "loop_overhead_s/tok": self._each(self.loop_overhead_s),
            "cpu_s/tok": self._each(self.cpu_s),
            "majflt/tok": self._each(self.majflt),
            "mtp_drafted": draft.drafted,
            "mtp_accepted": draft.accepted,
            "mtp_decodes": self.decodes,
            "drafted_steps": draft.drafted_steps,
            "mtp_draft_s/tok": self._each(draft.seconds),
            "synthetic": draft.synthetic,
        }
        if draft.drafted_steps:
            values["mtp_accept_pct"] = 100.0 * draft.accepted / draft.drafted
            values["mtp_tok/verify"] = 1.0 + draft.accepted / draft.drafted_steps
        if draft.seen:
            if self.decodes:
                values["mtp_coverage_pct"] = 100.0 * draft.drafted_steps / self.decodes
            values["mtp_offered_at"] = draft.offered_at
            values["mtp_accepted_at"] = draft.accepted_at
        if report.streamed:
            values.update(self._streaming(report))
        return values

    def _streaming(self, report: LoadReport) -> dict[str, Value]:
        return {
            "prefill_read_bytes": self.prefill_read_bytes,
            "stall_s/tok": self._each(self.stall_s),
            "io_s/tok": self._each(self.io_s),
            "mgmt_s/tok": self._each(self.mgmt_s),
            "read_mib/tok": self._each(self.read_bytes / _MIB),
            "read_bytes": self.read_bytes,
            "cache_hit_pct": hit_percent(self.hits, self.misses),
            "hits": self.hits,
            "misses": self.misses,
            "routed": self.routed,
            "dropped": self.dropped,
            "evictions": self.evictions,
            "rereads": self.rereads,
            "guard_loads": self.guard_loads,
            "mtp_draft_read_bytes": self.speculation.read_bytes,
            "token_demand_mib": report.token_demand_bytes / _MIB,
            "layer_demand_mib": report.layer_demand_bytes / _MIB,
        }

    def _each(self, value: float | None) -> float | None:
        """Per decoded token."""
        return None if value is None or not self.decoded_tokens else value / self.decoded_tokens


_SUMS: Final = (
    "prompt_tokens", "reused_tokens", "generated_tokens", "decoded_tokens", "decodes", "prefill_s",
    "decode_s", "wall_s", "stall_s", "io_s", "loop_overhead_s", "read_bytes", "prefill_read_bytes",
    "hits", "misses", "routed", "dropped", "evictions", "rereads", "guard_loads",
)  # fmt: skip


def _added(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(x + y for x, y in zip_longest(a, b, fillvalue=0))


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if count and seconds > 0.0 else None
