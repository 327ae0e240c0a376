"""From finished generations to the metrics of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from moestream.engine.events import GenerationSummary, hit_percent
from moestream.engine.report import LoadReport

__all__ = ["Measured", "measure"]

_MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run came to; the fields are those of :class:`moestream.bench.result.RunResult`."""

    metrics: dict[str, float | None]
    accepted_at: tuple[int, ...]
    offered_at: tuple[int, ...]


def measure(summaries: Sequence[GenerationSummary], report: LoadReport) -> Measured:
    """Add up the generations of one session; rates are of sums, never means of rates."""
    tokens = sum(s.decoded_tokens for s in summaries)
    evaluated = sum(s.prompt_tokens - s.reused_tokens for s in summaries)
    decode_s = sum(s.decode_s for s in summaries)
    drafts = [s.speculation for s in summaries if s.speculation is not None]
    wall_s = sum(s.wall_s for s in summaries)
    stall_s = min(sum(s.stall_s for s in summaries), wall_s)
    outside_s = max(decode_s - wall_s, 0.0)
    draft_s = min(sum(d.draft_s for d in drafts), outside_s)

    def each(value: float | None) -> float | None:
        return None if value is None or not tokens else value / tokens

    metrics: dict[str, float | None] = {
        "tok_s": _ratio(tokens, decode_s),
        "decode_tok_s": _ratio(tokens, wall_s),
        "prefill_tok_s": _ratio(evaluated, sum(s.prefill_s for s in summaries)),
        "load_s": report.open_s,
        "majflt_per_token": each(_sum([s.majflt for s in summaries])),
        "cpu_s_per_token": each(_sum([s.cpu_s for s in summaries])),
        # These four sum to the wall time of a token.
        "compute_ms": each(1e3 * (wall_s - stall_s)),
        "stall_ms": each(1e3 * stall_s),
        "draft_ms": each(1e3 * draft_s),
        "other_ms": each(1e3 * (outside_s - draft_s)),
        "generated_tokens": float(sum(s.generated_tokens for s in summaries)),
    }
    if report.streamed:
        read = sum(s.read_bytes for s in summaries)
        metrics["mib_per_token"] = each(read / _MIB)
        metrics["hit_pct"] = hit_percent(
            sum(s.hits for s in summaries), sum(s.misses for s in summaries)
        )
        metrics["cache_mib"] = report.cache_bytes / _MIB if report.cache_retains else 0.0
        if drafts:
            share = _ratio(sum(d.draft_read_bytes for d in drafts), read)
            metrics["draft_read_pct"] = None if share is None else 100.0 * share
    if drafts:
        drafted, accepted = sum(d.drafted for d in drafts), sum(d.accepted for d in drafts)
        verified, steps = sum(d.drafted_steps for d in drafts), sum(d.steps for d in drafts)
        metrics["acceptance_pct"] = 100.0 * accepted / drafted if drafted else None
        metrics["tokens_per_verify"] = 1.0 + accepted / verified if verified else None
        metrics["drafted_steps"] = float(verified)
        metrics["coverage_pct"] = 100.0 * verified / steps if steps else None
    return Measured(
        metrics=metrics,
        accepted_at=_added([d.accepted_at for d in drafts]),
        offered_at=_added([d.offered_at for d in drafts]),
    )


def _ratio(count: float, amount: float) -> float | None:
    return count / amount if count and amount > 0.0 else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _added(rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sum(column) for column in zip_longest(*rows, fillvalue=0))
