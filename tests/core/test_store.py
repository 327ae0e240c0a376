"""The expert store on made-up files, without a model: right bytes, exact accounting, exact LRU."""

from __future__ import annotations

import contextlib
import os
import random
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moestream.llama.runtime import runtime

N_EXPERT = 12
N_USED = 3


def core() -> Any:
    return runtime().core


def movers() -> list[str]:
    return list(core().platform_movers())


@dataclass
class ExpertFile:
    """A file of expert tensors: ``layers`` x 3, with unlike slices that need not end on pages."""

    path: Path
    strides: tuple[int, int, int]
    first_offset: int = 100
    layers: int = 4
    data: bytes = b""
    offsets: dict[tuple[int, int], int] = field(default_factory=dict)

    def write(self, seed: int = 0) -> ExpertFile:
        offset = self.first_offset
        for layer in range(self.layers):
            for order, stride in enumerate(self.strides):
                self.offsets[layer, order] = offset
                offset += stride * N_EXPERT
        self.data = random.Random(seed).randbytes(offset + 77)
        self.path.write_bytes(self.data)
        return self

    def slice(self, layer: int, order: int, expert: int) -> bytes:
        begin = self.offsets[layer, order] + expert * self.strides[order]
        return self.data[begin : begin + self.strides[order]]

    def store(self, *, o_direct: bool = True) -> Any:
        store = core().ExpertStore([str(self.path)], o_direct=o_direct)
        for (layer, order), offset in self.offsets.items():
            store.add_tensor(
                name(layer, order),
                layer=layer,
                order=order,
                file=0,
                offset=offset,
                n_expert=N_EXPERT,
                stride=self.strides[order],
            )
        store.place_standalone()
        return store


def name(layer: int, order: int) -> str:
    return f"blk.{layer}.{order}"


@contextlib.contextmanager
def started(file: ExpertFile, **options: Any) -> Iterator[tuple[Any, int]]:
    """A running store and its budget; ``extra`` bytes above the least there can be."""
    extra = options.pop("extra", 0)
    o_direct = options.pop("o_direct", True)
    chosen = {
        "retain": True,
        "lanes": 2,
        "overlap": False,
        "mover": "auto",
        "prefetch": 0,
        "n_ubatch": 2,
        "n_expert_used": N_USED,
    } | options
    store = file.store(o_direct=o_direct)
    floor = store.floor_bytes(
        lanes=chosen["lanes"], n_ubatch=chosen["n_ubatch"], n_expert_used=chosen["n_expert_used"]
    )
    try:
        store.start(budget_bytes=floor + extra, **chosen)
        yield store, floor + extra
    finally:
        store.close()


def check_bytes(file: ExpertFile, store: Any, layer: int, experts: set[int]) -> None:
    for order in range(3):
        for expert in experts:
            assert store.slice(name(layer, order), expert) == file.slice(layer, order, expert)


STRIDES = [(8192, 8192, 12288), (5000, 5000, 7001), (300, 300, 90), (70000, 70000, 40000)]


@pytest.mark.parametrize("strides", STRIDES, ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"lanes": 1},
        {"lanes": 3, "prefetch": 2, "extra": 200_000},
        {"lanes": 2, "extra": 50_000_000},
        {"retain": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("mover", ["move", "copy", "inplace"])
@pytest.mark.parametrize("overlap", [False, True])
def test_right_bytes_within_the_budget(
    tmp_path: Path,
    strides: tuple[int, int, int],
    options: dict[str, Any],
    mover: str,
    overlap: bool,
) -> None:
    if mover not in movers():
        pytest.skip(f"{mover} is not available on this kernel")
    if mover == "inplace" and overlap:
        return  # refused; see test_inplace_cannot_overlap
    # Slices that all begin and end on pages, and slices that never do.
    aligned = all(stride % core().PAGE_SIZE == 0 for stride in strides)
    first = core().PAGE_SIZE if aligned else 123
    file = ExpertFile(tmp_path / "experts", strides, first_offset=first).write()
    rng = random.Random(1)
    with started(file, mover=mover, overlap=overlap, **options) as (store, budget):
        for _ in range(25):
            store.begin_decode()
            for layer in range(file.layers):
                ids = [rng.sample(range(N_EXPERT), N_USED) for _ in range(rng.randint(1, 2))]
                store.route(layer, ids)
                check_bytes(file, store, layer, {expert for row in ids for expert in row})
            assert store.end_decode() is None
            assert store.counters()["pool_bytes"] <= budget
        store.wait_idle()
        counts = store.counters()
        assert store.present_pages() * core().PAGE_SIZE == counts["resident_bytes"]
        assert counts["resident_bytes"] <= counts["pool_bytes"] <= budget
        assert counts["guard_loads"] == 0
        if not options.get("retain", True):
            assert counts["hits"] == 0


class LruModel:
    """What an exact LRU over experts does, in ten lines."""

    def __init__(self, pages: int, pages_per_expert: int) -> None:
        self.capacity = pages // pages_per_expert
        self.resident: OrderedDict[tuple[int, int], None] = OrderedDict()
        self.hits = self.misses = 0

    def route(self, layer: int, experts: list[int]) -> None:
        self.hits += sum((layer, e) in self.resident for e in experts)
        self.misses += sum((layer, e) not in self.resident for e in experts)
        for expert in experts:
            self.resident[layer, expert] = None
            self.resident.move_to_end((layer, expert))
        while len(self.resident) > self.capacity:
            self.resident.popitem(last=False)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    routes=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.lists(st.integers(0, N_EXPERT - 1), min_size=3, max_size=3, unique=True),
        ),
        min_size=1,
        max_size=60,
    ),
    extra_experts=st.integers(0, 12),
    mover=st.sampled_from(["copy", "inplace"]),
)
def test_cache_is_an_exact_lru(
    tmp_path_factory: pytest.TempPathFactory,
    routes: list[tuple[int, list[int]]],
    extra_experts: int,
    mover: str,
) -> None:
    if mover not in movers():
        mover = "inplace"
    page = core().PAGE_SIZE
    path = tmp_path_factory.mktemp("lru") / "experts"
    file = ExpertFile(path, (page, page, page), first_offset=page).write()
    with started(file, lanes=1, mover=mover, n_ubatch=1, extra=extra_experts * 3 * page) as (
        store,
        budget,
    ):
        # The copy mover's one read buffer is part of the budget.
        buffers = 1 if mover == "copy" else 0
        model = LruModel(budget // page - buffers, 3)
        store.begin_decode()
        for layer, experts in routes:
            store.route(layer, [experts])
            store.wait_idle()
            # Ids are taken in ascending order, so that equals in age go in that order, too.
            model.route(layer, sorted(experts))
            check_bytes(file, store, layer, set(experts))
        assert store.end_decode() is None
        counts = store.counters()
        assert (counts["hits"], counts["misses"]) == (model.hits, model.misses)


@pytest.mark.parametrize("mover", ["move", "copy", "inplace"])
def test_read_error_is_reported_once_and_then_forgotten(tmp_path: Path, mover: str) -> None:
    if mover not in movers():
        pytest.skip(f"{mover} is not available on this kernel")
    file = ExpertFile(tmp_path / "experts", (5000, 5000, 7001)).write()
    with started(file, mover=mover, overlap=mover != "inplace", extra=10**6) as (store, _):
        store.inject_read_error(after_reads=2)
        store.begin_decode()
        store.route(0, [[1, 2, 3]])
        if mover != "inplace":
            # Compute must wake up, whatever it finds.
            for order in range(3):
                for expert in (1, 2, 3):
                    store.slice(name(0, order), expert)
        error = store.end_decode()
        assert error is not None
        assert "injected" in error
        assert str(file.path) in error
        assert store.halted
        store.begin_decode()
        assert not store.halted
        store.route(0, [[1, 2, 3]])
        check_bytes(file, store, 0, {1, 2, 3})
        assert store.end_decode() is None


def test_truncated_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = ExpertFile(tmp_path / "experts", (5000, 5000, 7001)).write()
    with started(file, overlap=False) as (store, _):
        os.truncate(file.path, file.offsets[3, 0])
        store.begin_decode()
        store.route(3, [[1, 2, 3]])
        error = store.end_decode()
        assert error is not None
        assert "truncated" in error
        assert str(file.path) in error


def test_routing_outside_the_experts_is_an_error(tmp_path: Path) -> None:
    file = ExpertFile(tmp_path / "experts", (300, 300, 300)).write()
    with started(file) as (store, _):
        store.begin_decode()
        store.route(0, [[0, 1, N_EXPERT]])
        error = store.end_decode()
        assert error is not None
        assert f"expert {N_EXPERT} of {N_EXPERT}" in error


def test_budget_below_one_layer_is_refused(tmp_path: Path) -> None:
    file = ExpertFile(tmp_path / "experts", (5000, 5000, 7001)).write()
    with (
        pytest.raises(RuntimeError, match="cannot hold the experts of one layer"),
        started(file, extra=-core().PAGE_SIZE),
    ):
        pass


@pytest.mark.parametrize(
    ("mover", "message"), [("inplace", "overlap needs a mover"), ("magic", "not available")]
)
def test_mover_that_cannot_is_refused(tmp_path: Path, mover: str, message: str) -> None:
    file = ExpertFile(tmp_path / "experts", (300, 300, 300)).write()
    with pytest.raises(RuntimeError, match=message), started(file, mover=mover, overlap=True):
        pass


def test_missing_file_is_an_os_error() -> None:
    with pytest.raises(OSError, match="cannot open /nowhere/experts"):
        core().ExpertStore(["/nowhere/experts"], o_direct=True)


def test_declarations_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "experts"
    path.write_bytes(bytes(10000))
    store = core().ExpertStore([str(path)], o_direct=False)
    spec = {"layer": 0, "order": 0, "offset": 0, "n_expert": 2, "stride": 10}
    store.add_tensor("a", file=0, **spec)
    with pytest.raises(RuntimeError, match="declared twice"):
        store.add_tensor("a", file=0, **spec)
    with pytest.raises(RuntimeError, match="file nobody named"):
        store.add_tensor("b", file=1, **spec)
    with pytest.raises(RuntimeError, match="is empty"):
        store.add_tensor("c", file=0, **(spec | {"n_expert": 0}))
    with pytest.raises(RuntimeError, match="not loaded"):
        store.finish_load()
    store.close()


def test_cancel_wakes_a_waiting_decode_and_close_is_idempotent(tmp_path: Path) -> None:
    file = ExpertFile(tmp_path / "experts", (70000, 70000, 40000)).write()
    with started(file, lanes=1, overlap=False) as (store, _):
        for layer in range(file.layers):
            store.begin_decode()
            store.cancel()
            assert store.halted
            store.route(layer, [[0, 1, 2]])  # returns at once
            assert store.end_decode() is None
        store.close()
        store.close()


def test_close_with_reads_under_way(tmp_path: Path) -> None:
    if movers() == ["inplace"]:
        pytest.skip("needs overlap")
    file = ExpertFile(tmp_path / "experts", (700_000, 700_000, 400_000)).write()
    for _ in range(10):
        with started(file, overlap=True, extra=10**7) as (store, _):
            store.begin_decode()
            store.route(0, [[0, 1, 2]])
