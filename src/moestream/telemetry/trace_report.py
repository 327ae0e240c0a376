"""What a route trace says about a model's routing and about its cache: pure computations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from moestream.errors import ConfigError
from moestream.telemetry.stack_distance import NEVER, stack_distances
from moestream.telemetry.trace_counts import Phase, PhaseRouting, Routing
from moestream.telemetry.trace_reading import RouteTraceFile

__all__ = ["CachePoint", "TraceReport", "trace_report"]

MIB: Final = 2**20

#: Cache sizes to look at unless some are asked for, as shares of all experts.
_SHARES: Final = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 1.0)
#: Points of the curve between nothing and all experts.
_CURVE_POINTS: Final = 120


@dataclass(frozen=True, slots=True)
class CachePoint:
    """What an LRU cache of one size would have done in the decodes.

    Attributes:
        cache_bytes: its size; the read lanes' buffers come on top.
        hit_rate: share of the accesses that hit.
        mib_per_token: MiB that misses read per token.
    """

    cache_bytes: int
    hit_rate: float
    mib_per_token: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """A route trace in numbers.

    Attributes:
        model: what the trace says about it, or nothing.
        arch: its architecture, or nothing.
        n_expert_used: experts per token and layer, if the trace says it.
        n_layer: layers of the trunk, if the trace says it.
        turns: turns of the session.
        rows: routings in all.
        cut: the trace's last line was unfinished.
        lost: routings that the trace says it misses.
        all_expert_bytes: size of all experts, as far as it is known.
        token_bytes: experts that a token routes, over all layers of the trunk.
        phases: those that the trace has, the prefill first.
        cache: hit rates by cache size, of the phase ``cache_phase``; empty where sizes are unknown.
        curve: the same in fine steps up to all experts, for pictures.
        cache_phase: the decodes, if there are any.
        ceiling: the hit rate of a cache that keeps everything: first uses always miss.
    """

    model: str
    arch: str
    n_expert_used: int | None
    n_layer: int | None
    turns: int
    rows: int
    cut: bool
    lost: int
    all_expert_bytes: int | None
    token_bytes: int | None
    phases: tuple[PhaseRouting, ...]
    cache: tuple[CachePoint, ...]
    curve: tuple[CachePoint, ...]
    cache_phase: Phase
    ceiling: float | None

    def phase(self, name: Phase) -> PhaseRouting | None:
        """The phase of that name, if the trace has it."""
        return next((phase for phase in self.phases if phase.phase == name), None)

    @property
    def main(self) -> PhaseRouting:
        """The decodes, or the prefill where there are none."""
        return self.phases[-1]


def trace_report(trace: RouteTraceFile, *, sizes: Sequence[int] = ()) -> TraceReport:
    """Everything that can be told from ``trace``.

    Args:
        trace: the trace.
        sizes: cache sizes in bytes to give hit rates for; without any, a range up to all experts.

    Raises:
        ConfigError: there is no row in the trace.
    """
    if trace.n_rows == 0:
        raise ConfigError(f"{trace.path}: there is no row in this trace; nothing was routed")
    routing = Routing(trace)
    names: list[Phase] = []
    if not trace.decode.all():
        names.append("prefill")
    if trace.decode.any():
        names.append("decode")
    phases = tuple(routing.phase(name) for name in names)
    used = trace.number("n_expert_used")
    total = routing.all_expert_bytes()
    points: tuple[CachePoint, ...] = ()
    curve: tuple[CachePoint, ...] = ()
    ceiling: float | None = None
    if total is not None:
        lru = _Lru(routing, phases[-1])
        points = tuple(lru.point(size) for size in sizes or _default_sizes(total))
        curve = tuple(lru.point(total * i // _CURVE_POINTS) for i in range(_CURVE_POINTS + 1))
        ceiling = lru.point(NEVER).hit_rate
    return TraceReport(
        model=trace.preamble.get("model", ""),
        arch=trace.preamble.get("arch", ""),
        n_expert_used=used,
        n_layer=routing.trunk(),
        lost=trace.number("lost") or 0,
        turns=len(np.unique(trace.turn)),
        rows=trace.n_rows,
        cut=trace.cut,
        all_expert_bytes=total,
        token_bytes=routing.token_bytes(used),
        phases=phases,
        cache=points,
        curve=curve,
        cache_phase=phases[-1].phase,
        ceiling=ceiling,
    )


def _default_sizes(total: int) -> list[int]:
    """A dozen sizes in whole MiB, as --cache-mb takes them, with two digits that count."""
    sizes = set()
    for share in _SHARES:
        mib = max(total * share / MIB, 1.0)
        step = 10 ** max(len(str(int(mib))) - 2, 0)
        sizes.add(ceil(mib / step) * step * MIB)
    return sorted(sizes)


class _Lru:
    """The trace's accesses against LRU caches of any size."""

    def __init__(self, routing: Routing, phase: PhaseRouting) -> None:
        item = routing.item[routing.access]
        self._size = routing.sizes[routing.item_layer[item]]
        distance = stack_distances(item, routing.access_pass, self._size)
        rows = routing.trace.decode[routing.access] == (phase.phase == "decode")
        order = np.argsort(distance[rows])
        self._distance = distance[rows][order]
        # Bytes that miss at distances from here on.
        self._missed = np.cumsum(self._size[rows][order][::-1])[::-1]
        self._tokens = max(phase.tokens, 1)

    def point(self, size: int) -> CachePoint:
        """What a cache of ``size`` bytes would have done."""
        hits = int(np.searchsorted(self._distance, min(size, NEVER - 1), side="right"))
        missed = int(self._missed[hits]) if hits < len(self._missed) else 0
        return CachePoint(size, hits / len(self._distance), missed / MIB / self._tokens)
