"""How big an LRU cache would have had to be: byte-weighted stack distances, for all sizes at once.

The cache that is modelled is the engine's own (``core/cache.hpp``): what a layer routes is looked
up all at once, then becomes the most recently used in order of expert number; the least recently
used goes first. The content of such a cache is always the most recent part of the list of
everything by last use, so a lookup hits exactly if all that was used since the last use, and the
expert itself, fit into the cache together. That sum is the stack distance.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["NEVER", "stack_distances"]

#: Distance of a first use: no cache is big enough.
NEVER: Final = np.iinfo(np.int64).max


def stack_distances(
    item: NDArray[np.integer], batch: NDArray[np.integer], size: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Smallest cache in which each access hits, in the units of ``size``.

    Three accesses to items of size 10, each in a batch of its own, and then the first item again::

        >>> stack_distances(
        ...     np.array([0, 1, 2, 0]), np.array([0, 1, 2, 3]), np.array([10, 10, 10, 10])
        ... )[3]
        np.int64(30)

    Args:
        item: what is accessed, from 0, in order of time; never twice in a batch.
        batch: accesses that are looked up before any of them takes effect; ascending.
        size: of the item, the same each time.

    Returns:
        For each access the size of everything accessed between the item's last access and the
        begin of this batch, each counted once, and of the item; :data:`NEVER` for a first access.
    """
    n = len(item)
    order = np.argsort(item, kind="stable")
    repeats = item[order][1:] == item[order][:-1]
    last_use = np.full(n, -1, dtype=np.int32)
    last_use[order[1:][repeats]] = order[:-1][repeats]
    again = np.flatnonzero(last_use >= 0)
    last_use = last_use[again]
    begins = np.flatnonzero(np.diff(batch, prepend=-1))
    begin = begins[np.searchsorted(begins, again, side="right") - 1]
    total = np.concatenate([[0], np.cumsum(size)])
    # Everything in between, less what was accessed in between twice: then its earlier access
    # came after this item's last one.
    between = total[begin] - total[last_use + 1]
    twice = _sum_above(last_use, size[again], upto=np.searchsorted(again, begin))
    distances = np.full(n, NEVER, dtype=np.int64)
    distances[again] = between - twice + size[again]
    return distances


def _sum_above(
    values: NDArray[np.int32], weights: NDArray[np.int64], *, upto: NDArray[np.integer]
) -> NDArray[np.int64]:
    """For each ``i`` the weight of those of ``values[:upto[i]]`` that are above ``values[i]``.

    A wavelet matrix: level by level the values are split by one bit, from the highest on, and
    every query follows its own value's bit. All queries take a level together, so this is
    O(n log(largest value)) with no loop but the one over bits.
    """
    low = np.zeros(len(upto), dtype=np.int32)
    high = upto.astype(np.int32)
    sums = np.zeros(len(upto), dtype=np.int64)
    bounds = values
    for bit in reversed(range(int(values.max(initial=0)).bit_length())):
        ones = (values >> bit & 1).astype(np.bool_)
        zeros = ~ones
        zeros_before = np.zeros(len(values) + 1, dtype=np.int32)
        np.cumsum(zeros, out=zeros_before[1:])
        weight_before = np.zeros(len(values) + 1, dtype=np.int64)
        np.cumsum(np.where(ones, weights, 0), out=weight_before[1:])
        up = (bounds >> bit & 1).astype(np.bool_)
        # Of a query whose bit is 0, all that have a 1 here are above.
        np.add(sums, weight_before[high] - weight_before[low], out=sums, where=~up)
        low, high = (
            np.where(up, zeros_before[-1] + edge - zeros_before[edge], zeros_before[edge])
            for edge in (low, high)
        )
        values = np.concatenate([values[zeros], values[ones]])
        weights = np.concatenate([weights[zeros], weights[ones]])
    return sums
