"""Stack distances against a cache that is simulated, access by access."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from moestream.telemetry.stack_distance import NEVER, stack_distances

N_ITEMS = 9

batches = st.lists(st.sets(st.integers(0, N_ITEMS - 1), min_size=1, max_size=4), max_size=40)
sizes = st.lists(st.integers(1, 9), min_size=N_ITEMS, max_size=N_ITEMS)


def simulated_hits(accessed: list[set[int]], size: list[int], capacity: int) -> list[bool]:
    """An LRU cache as the engine's: a batch is looked up, then used in order, then room is made."""
    cache: OrderedDict[int, int] = OrderedDict()
    hits = []
    for batch in accessed:
        hits += [item in cache for item in sorted(batch)]
        for item in sorted(batch):
            cache[item] = size[item]
            cache.move_to_end(item)
        while sum(cache.values()) > capacity:
            cache.popitem(last=False)
    return hits


@settings(max_examples=200, deadline=None)
@given(accessed=batches, size=sizes, capacity=st.integers(0, 70))
def test_a_cache_hits_where_its_size_reaches_the_distance(
    accessed: list[set[int]], size: list[int], capacity: int
) -> None:
    items = [item for batch in accessed for item in sorted(batch)]
    numbers = [i for i, batch in enumerate(accessed) for _ in batch]
    distances = stack_distances(
        np.array(items, dtype=np.int32),
        np.array(numbers, dtype=np.int64),
        np.array([size[item] for item in items], dtype=np.int64),
    )
    assert (distances <= capacity).tolist() == simulated_hits(accessed, size, capacity)


def test_first_uses_never_hit() -> None:
    distances = stack_distances(np.arange(5), np.arange(5), np.ones(5, dtype=np.int64))
    assert (distances == NEVER).all()


def test_nothing() -> None:
    empty = np.empty(0, dtype=np.int64)
    assert len(stack_distances(empty, empty, empty)) == 0


def test_sizes_beyond_32_bits() -> None:
    size = np.full(4, 2**40, dtype=np.int64)
    distances = stack_distances(np.array([0, 1, 2, 0]), np.arange(4), size)
    assert distances[3] == 3 * 2**40
