"""The trace of what was routed, on made-up files: one entry per routing, sums like the counters."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moestream.telemetry.route_trace import ROUTE_ENTRY
from tests.core.test_store import N_EXPERT, N_USED, ExpertFile, core, movers, started

MISS, HIT, PREFETCHED = 0, 1, 2
STRIDES = (5000, 5000, 7001)


def take(store: Any) -> np.ndarray[Any, Any]:
    packed, lost = store.take_route_trace()
    assert lost == 0
    return np.frombuffer(packed, ROUTE_ENTRY)


def overlaps() -> list[bool]:
    return [False] if movers() == ["inplace"] else [False, True]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(
    "options",
    [{"extra": 300_000}, {"extra": 50_000_000}, {"retain": False}],
    ids=str,
)
def test_entries_add_up_to_the_counters(
    tmp_path: Path, options: dict[str, Any], overlap: bool
) -> None:
    if overlap not in overlaps():
        pytest.skip("needs overlap")
    page = core().PAGE_SIZE
    # Slices of whole pages, so that the bytes of the slices are the bytes read.
    file = ExpertFile(tmp_path / "experts", (page, page, 2 * page), first_offset=page).write()
    rng = random.Random(1)
    with started(file, overlap=overlap, **options) as (store, _):
        store.set_route_trace(True)
        routed: list[tuple[int, int, int, int, int]] = []
        parts = []
        for decode in range(1, 21):
            store.begin_decode()
            for layer in range(file.layers):
                ids = [rng.sample(range(N_EXPERT), N_USED) for _ in range(rng.randint(1, 2))]
                store.route(layer, ids)
                store.wait_idle()
                routed += [
                    (decode, layer, row, slot, expert)
                    for row, experts in enumerate(ids)
                    for slot, expert in enumerate(experts)
                ]
            assert store.end_decode() is None
            parts.append(take(store))
        counts = store.counters()
    entries = np.concatenate(parts)
    names = ["decode", "layer", "row", "slot", "expert"]
    assert [tuple(entry[name] for name in names) for entry in entries] == routed
    assert np.isnan(entries["weight"]).all()
    assert not entries["dropped"].any()
    assert len(entries) == counts["routed"]
    assert (entries["residency"] == MISS).sum() == counts["misses"]
    assert entries["expert_bytes"].sum() == counts["read_bytes"]
    assert set(entries["expert_bytes"]) <= {0, 4 * page}
    assert ((entries["expert_bytes"] > 0) == (entries["residency"] == MISS)).all()
    _, first = np.unique(entries[["decode", "layer", "expert"]], return_index=True)
    assert (entries["residency"][first] == HIT).sum() == counts["hits"]
    again = np.setdiff1d(np.arange(len(entries)), first)
    assert (entries["residency"][again] == HIT).all()


def test_first_use_of_what_was_read_ahead(tmp_path: Path) -> None:
    file = ExpertFile(tmp_path / "experts", STRIDES, layers=9).write()
    # Room for half of the layers: what is read ahead was evicted since its last use.
    with started(file, n_ubatch=1, prefetch=1) as (store, _):
        store.set_route_trace(True)
        for _ in range(6):
            store.begin_decode()
            for layer in range(file.layers):
                store.route(layer, [[layer, layer + 1, layer + 2]])
                store.wait_idle()
            assert store.end_decode() is None
        entries, counts = take(store), store.counters()
    ahead = entries["residency"] == PREFETCHED
    assert ahead.sum() == counts["prefetch_used"] > 0
    assert not entries["expert_bytes"][ahead].any()
    assert (entries["residency"] != MISS).sum() == counts["hits"]
    assert (entries["residency"] == MISS).sum() == counts["misses"]


def test_only_what_is_absent_counts_as_read(tmp_path: Path) -> None:
    file = ExpertFile(tmp_path / "experts", STRIDES).write()
    with started(file, lanes=1, extra=10**7) as (store, _):
        store.set_route_trace(True)
        # The second slice of an expert cannot be read, and the decode ends there.
        store.inject_read_error(after_reads=1)
        store.begin_decode()
        store.route(0, [[3, 3, 3]])
        assert store.end_decode() is not None
        failed = take(store)
        assert list(failed["residency"]) == [MISS, HIT, HIT]
        assert list(failed["expert_bytes"]) == [sum(STRIDES), 0, 0]
        # Nothing that a failed decode brought is trusted.
        store.begin_decode()
        store.route(0, [[3, 3, 3]])
        assert store.end_decode() is None
        assert list(take(store)["expert_bytes"]) == [sum(STRIDES), 0, 0]


def test_a_routing_that_was_refused_is_not_in_it(tmp_path: Path) -> None:
    file = ExpertFile(tmp_path / "experts", STRIDES).write()
    with started(file) as (store, _):
        store.set_route_trace(True)
        store.begin_decode()
        store.route(0, [[0, 1, N_EXPERT]])
        store.route(1, [[0, 1, 2]])
        assert store.end_decode() is not None
        store.begin_decode()
        store.cancel()
        store.route(0, [[0, 1, 2]])
        assert store.end_decode() is None
        assert len(take(store)) == 0


def test_off_until_asked_for_and_after(tmp_path: Path) -> None:
    file = ExpertFile(tmp_path / "experts", STRIDES).write()
    with started(file) as (store, _):

        def decode() -> int:
            store.begin_decode()
            store.route(0, [[0, 1, 2]])
            assert store.end_decode() is None
            return len(take(store))

        assert decode() == 0
        store.set_route_trace(True)
        assert decode() == 3
        store.begin_decode()
        store.route(0, [[0, 1, 2]])
        assert store.end_decode() is None
        store.set_route_trace(False)
        assert len(take(store)) == 0
        assert decode() == 0


def test_what_nobody_takes_is_counted_and_not_kept(tmp_path: Path) -> None:
    file = ExpertFile(tmp_path / "experts", (300, 300, 90)).write()
    with started(file, extra=10**6) as (store, _):
        store.set_route_trace(True)
        ids = [[0, 1, 2]] * 5000
        for _ in range(5):
            store.begin_decode()
            store.route(0, ids)
            assert store.end_decode() is None
        packed, lost = store.take_route_trace()
        kept = len(packed) // ROUTE_ENTRY.itemsize
        assert lost > 0
        assert lost + kept == 5 * 15000
        assert store.take_route_trace() == (b"", 0)
        store.begin_decode()
        store.route(0, ids)
        assert store.end_decode() is None
        assert len(take(store)) == 15000
