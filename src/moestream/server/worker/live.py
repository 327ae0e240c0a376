"""Live numbers of a running turn: averages over its last tokens."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from moestream.engine.events import TokenMetrics, hit_percent
from moestream.engine.report import LoadReport
from moestream.telemetry.probes import MemoryProbe

__all__ = ["LiveNumbers"]

_WINDOW: Final = 16
_MIB: Final = 2**20


class LiveNumbers:
    """Remembers what the last tokens cost; adding one is cheap, reading the averages is not."""

    def __init__(self, report: LoadReport, probe: MemoryProbe) -> None:
        """Of one turn in a session with this report."""
        self._report = report
        self._probe = probe
        # A verified group stands on its first token; the others are free and need no place.
        self._passes: deque[TokenMetrics] = deque(maxlen=_WINDOW)

    def add(self, metrics: TokenMetrics) -> None:
        """A token's cost."""
        if metrics.batch and metrics.phase == "decode":
            self._passes.append(metrics)

    def values(self, index: int) -> dict[str, Any] | None:
        """See :data:`moestream.server.worker.turns.TurnMetrics`; ``None`` before any decode."""
        passes = list(self._passes)
        if not passes:
            return None
        streamed = self._report.streamed
        tokens = sum(each.batch for each in passes)
        wall = sum(each.wall_ms for each in passes)
        overhead = sum(each.loop_overhead_ms for each in passes)
        draft = sum(each.draft_ms for each in passes)
        drafted = sum(each.drafted for each in passes)
        hit = hit_percent(sum(each.hits for each in passes), sum(each.misses for each in passes))
        read = sum(each.read_bytes for each in passes)
        return {
            "index": index,
            "tok_s": 1e3 * tokens / wall if wall > 0.0 else None,
            "effective_tok_s": 1e3 * tokens / (wall + overhead) if wall + overhead > 0.0 else None,
            "stall_ms": sum(each.stall_ms for each in passes) / tokens if streamed else None,
            "compute_ms": sum(each.compute_ms for each in passes) / tokens,
            "draft_ms": draft / tokens,
            "other_ms": max(overhead - draft, 0.0) / tokens,
            "hit_pct": hit if streamed else None,
            "mib_per_token": read / tokens / _MIB if streamed else None,
            "acceptance_pct": (
                100.0 * sum(each.accepted for each in passes) / drafted if drafted else None
            ),
            "tokens_per_pass": tokens / len(passes),
            "rss_mib": self._probe.sample().rss,
            "cache_budget_mib": self._report.cache_bytes / _MIB if streamed else None,
        }
