"""The rows of a route trace, counted.

Words used here: a *routing* is a row of the trace, an expert that a token was routed to. A *pass*
is one evaluation of a layer by a batch. An *access* is an expert used in a pass, however many of
its tokens were routed to it: the engine counts hits this way, and a cache sees them this way.

The file does not say where a pass ends. Layers take turns, so it ends where another layer's rows
begin; but where nothing else comes in between (in a draft context, or with one layer in all),
each token of a decode counts as a pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from moestream.telemetry.trace_reading import MISS, PREFETCHED, RouteTraceFile

__all__ = ["POPULARITY_STEPS", "TOP_SHARE", "LayerRouting", "Phase", "PhaseRouting", "Routing"]

MIB: Final = 2**20

#: The experts whose share of the routings tells how skewed popularity is.
TOP_SHARE: Final = 0.1

#: Popularity is told for so many equal shares of the experts.
POPULARITY_STEPS: Final = 20

Phase = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRouting:
    """One layer in one phase. Shares lie in 0..1; ``None`` is "cannot be told".

    Attributes:
        layer: number of the layer.
        draft: it belongs to the draft context, not to the trunk.
        tokens: tokens that were routed, rejected drafts included.
        routings: rows of the trace.
        touched: experts that were routed to at all.
        n_expert: experts that there are, if the trace says it.
        expert_bytes: of one expert, if the trace says it or something was read.
        accesses: experts used, counted once a pass, dropped ones left out.
        hits: how many of them were in the cache, prefetched ones included.
        prefetched: how many of those prefetch had read.
        read_bytes: bytes read.
        dropped: share of the routings that were skipped.
        reuse: share of a token's experts that the token before it used as well.
        top_share: share of the routings that went to the most popular :data:`TOP_SHARE` of the
            experts (at least one); where routing is even this is that share.
        popularity: share of the routings that went to the most popular 0, 5, ... 100 % of the
            experts.
    """

    layer: int
    draft: bool
    tokens: int
    routings: int
    touched: int
    n_expert: int | None
    expert_bytes: int | None
    accesses: int
    hits: int
    prefetched: int
    read_bytes: int
    dropped: float
    reuse: float | None
    top_share: float
    popularity: tuple[float, ...]

    @property
    def hit_rate(self) -> float | None:
        """Share of the accesses that were hits."""
        return self.hits / self.accesses if self.accesses else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRouting:
    """One phase: its layers, the trunk's first, and their sum.

    Attributes:
        phase: what was evaluated.
        tokens: positions that the trunk evaluated, each counted once.
        layers: of the trunk.
        draft_layers: of the draft context.
    """

    phase: Phase
    tokens: int
    layers: tuple[LayerRouting, ...]
    draft_layers: tuple[LayerRouting, ...]

    @property
    def routings(self) -> int:
        """Rows of the trace, the draft context's included."""
        return sum(layer.routings for layer in self.layers + self.draft_layers)

    @property
    def read_bytes(self) -> int:
        """Bytes read, the draft context's included."""
        return sum(layer.read_bytes for layer in self.layers + self.draft_layers)

    @property
    def mib_per_token(self) -> float | None:
        """MiB read per token."""
        return self.read_bytes / MIB / self.tokens if self.tokens else None

    @property
    def hit_rate(self) -> float | None:
        """Share of all accesses that were hits, as the engine reports it."""
        layers = self.layers + self.draft_layers
        accesses = sum(layer.accesses for layer in layers)
        return sum(layer.hits for layer in layers) / accesses if accesses else None

    @property
    def dropped(self) -> float:
        """Share of the routings that were skipped."""
        layers = self.layers + self.draft_layers
        return sum(layer.dropped * layer.routings for layer in layers) / max(self.routings, 1)

    @property
    def reuse(self) -> float | None:
        """Mean over the trunk's layers."""
        known = [layer.reuse for layer in self.layers if layer.reuse is not None]
        return sum(known) / len(known) if known else None


class Routing:
    """The trace's rows, grouped the three ways that the numbers need: experts, cells, passes."""

    def __init__(self, trace: RouteTraceFile) -> None:
        self.trace = trace
        layers, layer = _numbered(trace.layer)
        self.layers = layers.astype(np.int64)
        self.layer = layer.astype(np.int16)
        # An item is an expert of a layer; a cell is a token in a layer.
        width = int(trace.expert.max()) + 1
        items, self.item = _numbered(self.layer * np.int64(width) + trace.expert)
        self.item_layer = (items // width).astype(np.int16)
        new_pass = _changes(trace.turn, trace.decode, trace.layer)
        new_cell = new_pass | _changes(trace.step)
        self.cell = np.cumsum(new_cell, dtype=np.int32) - 1
        draft = self.draft()
        alone = draft | (np.count_nonzero(~draft) == 1)
        new_pass |= new_cell & trace.decode & alone[self.layer]
        # The first row of each access, ordered by pass and then by expert, as the engine does it.
        passes = np.cumsum(new_pass, dtype=np.int64)
        _, self.access = np.unique(passes * len(items) + self.item, return_index=True)
        self.access_pass = passes[self.access]
        self.sizes = self._sizes()

    def _sizes(self) -> NDArray[np.int64]:
        """Bytes of one expert, by layer; 0 where nothing tells."""
        read = np.zeros(len(self.layers), dtype=np.int64)
        np.maximum.at(read, self.layer, self.trace.expert_bytes)
        for i, layer in enumerate(self.layers):
            if (known := self.trace.layers.get(int(layer))) is not None:
                read[i] = known.expert_bytes
        return read

    def all_expert_bytes(self) -> int | None:
        """All experts of the layers that were routed."""
        if (self.sizes == 0).any():
            return None
        n_expert = self.trace.number("n_expert")
        if n_expert is None:
            return int(self.sizes[self.item_layer].sum())
        return int(self.sizes.sum()) * n_expert

    def token_bytes(self, n_expert_used: int | None) -> int | None:
        """What a token routes in the trunk."""
        if n_expert_used is None or (self.sizes == 0).any():
            return None
        return int(self.sizes[~self.draft()].sum()) * n_expert_used

    def draft(self) -> NDArray[np.bool_]:
        """Which layers are those of the draft context: those after the trunk."""
        trunk = self.trunk()
        return self.layers >= (2**31 if trunk is None else trunk)

    def trunk(self) -> int | None:
        """Number of layers in the trunk, if the trace says it."""
        n_nextn = self.trace.number("n_layer_nextn")
        if n_nextn is not None and self.trace.layers:
            return max(self.trace.layers) + 1 - n_nextn
        return self.trace.number("n_layer")

    def phase(self, name: Phase) -> PhaseRouting:
        """The numbers of one phase."""
        trace, n = self.trace, len(self.layers)
        rows = trace.decode == (name == "decode")
        layer = self.layer[rows]
        routings = np.bincount(layer, minlength=n)
        dropped = np.bincount(layer[trace.dropped[rows]], minlength=n)
        read = np.bincount(layer, weights=trace.expert_bytes[rows], minlength=n)
        first = self.access[rows[self.access] & ~trace.dropped[self.access]]
        residency, access_layer = trace.residency[first], self.layer[first]
        accesses = np.bincount(access_layer, minlength=n)
        hits = np.bincount(access_layer[residency != MISS], minlength=n)
        prefetched = np.bincount(access_layer[residency == PREFETCHED], minlength=n)
        used = np.bincount(self.item[rows], minlength=len(self.item_layer))
        tokens = self._cells_per_layer(rows)
        reuse = self._reuse(rows) if name == "decode" else [None] * n
        draft = self.draft()
        found = []
        for i in np.flatnonzero(routings):
            shares = _cumulative(used[self.item_layer == i], trace.number("n_expert"))
            found.append(
                LayerRouting(
                    layer=int(self.layers[i]),
                    draft=bool(draft[i]),
                    tokens=int(tokens[i]),
                    routings=int(routings[i]),
                    touched=int(np.count_nonzero(used[self.item_layer == i])),
                    n_expert=trace.number("n_expert"),
                    expert_bytes=int(self.sizes[i]) or None,
                    accesses=int(accesses[i]),
                    hits=int(hits[i]),
                    prefetched=int(prefetched[i]),
                    read_bytes=int(read[i]),
                    dropped=float(dropped[i] / routings[i]),
                    reuse=reuse[i],
                    top_share=float(shares[ceil(TOP_SHARE * (len(shares) - 1))]),
                    popularity=tuple(
                        np.interp(
                            np.linspace(0, 1, POPULARITY_STEPS + 1),
                            np.linspace(0, 1, len(shares)),
                            shares,
                        ).tolist()
                    ),
                )
            )
        trunk = rows & ~draft[self.layer]
        positions = trunk if trunk.any() else rows
        return PhaseRouting(
            phase=name,
            tokens=_count_pairs(trace.turn[positions], trace.step[positions]),
            layers=tuple(layer for layer in found if not layer.draft),
            draft_layers=tuple(layer for layer in found if layer.draft),
        )

    def _cells_per_layer(self, rows: NDArray[np.bool_]) -> NDArray[np.intp]:
        first = _changes(self.cell) & rows
        return np.bincount(self.layer[first], minlength=len(self.layers))

    def _reuse(self, rows: NDArray[np.bool_]) -> list[float | None]:
        """Share of a token's experts that the token before it used, by layer.

        The token before is the one at the position before, as it was evaluated last: a position
        whose draft was rejected comes again.
        """
        trace, items = self.trace, len(self.item_layer)
        cells, first = np.unique(self.cell[rows], return_index=True)
        at = np.flatnonzero(rows)[first]
        before = _cell_before(self.layer[at], trace.turn[at], trace.step[at])
        previous = np.full(int(self.cell[-1]) + 1, -1, dtype=np.int64)
        previous[cells[before >= 0]] = cells[before[before >= 0]]
        has = np.flatnonzero(rows & (previous[self.cell] >= 0))
        used = np.sort(self.cell[rows].astype(np.int64) * items + self.item[rows], kind="stable")
        wanted = previous[self.cell[has]] * items + self.item[has]
        at = np.minimum(np.searchsorted(used, wanted), len(used) - 1)
        again = used[at] == wanted
        n = len(self.layers)
        asked = np.bincount(self.layer[has], minlength=n)
        found = np.bincount(self.layer[has][again], minlength=n)
        return [float(f / a) if a else None for f, a in zip(found, asked, strict=True)]


def _cumulative(counts: NDArray[np.integer], n_expert: int | None) -> NDArray[np.float64]:
    """Share of the routings that go to the 0, 1, 2, ... most popular experts."""
    counts = np.sort(counts[counts > 0])[::-1]
    n = max(n_expert or 0, len(counts))
    shares = np.ones(n + 1)
    shares[: len(counts) + 1] = np.concatenate([[0], np.cumsum(counts)]) / counts.sum()
    return shares


def _changes(*columns: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Where any of the columns differs from the row before; true for the first row."""
    changed = np.ones(len(columns[0]), dtype=np.bool_)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _numbered(
    keys: NDArray[np.integer],
) -> tuple[NDArray[np.integer], NDArray[np.int32]]:
    """The different keys, none below 0, and for each entry the number of its key among them."""
    span = int(keys.max(initial=0)) + 1
    if span > max(len(keys), 1 << 22):
        different, number = np.unique(keys, return_inverse=True)
        return different, number.astype(np.int32)
    there = np.bincount(keys, minlength=span) > 0  # far faster than to sort them
    return np.flatnonzero(there), (np.cumsum(there, dtype=np.int32) - 1)[keys]


def _dense(a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.int64]:
    """Numbers from 0 for pairs of numbers from 0."""
    return _numbered(a.astype(np.int64) * (int(b.max(initial=0)) + 1) + b)[1].astype(np.int64)


def _count_pairs(a: NDArray[np.integer], b: NDArray[np.integer]) -> int:
    return int(_dense(a, b).max(initial=-1)) + 1


def _cell_before(
    layer: NDArray[np.integer], turn: NDArray[np.integer], step: NDArray[np.integer]
) -> NDArray[np.int64]:
    """For each cell the last one ahead of it at the position before; -1 if there is none."""
    n = len(step)
    place = _dense(layer, turn) * (int(step.max(initial=0)) + 2) + step
    _, place = np.unique(np.concatenate([place, place - 1]), return_inverse=True)
    here, wanted = place[:n].astype(np.int64), place[n:].astype(np.int64)
    time = np.arange(n, dtype=np.int64)
    keys = here * n + time
    order = np.argsort(keys)
    found = np.searchsorted(keys[order], wanted * n + time) - 1
    before = order[np.maximum(found, 0)]
    return np.where((found >= 0) & (here[before] == wanted), before, -1)
