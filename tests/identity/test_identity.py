"""E9: streamed logits are those of a resident run, to the last bit, whatever the settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moestream.llama.context import Logits
from moestream.llama.runtime import runtime
from tests.conftest import ModelMaker
from tests.engine.helpers import RESIDENT, assert_same_bits, open_session
from tests.fixtures import EXPERT_TYPES, FIXTURE_ARCHS
from tests.identity.matrix import N_UBATCH, Cell, bound_the_cache, cells, conversation

Reference = Callable[..., list[tuple[int, Logits]]]

ALL_CELLS = list(cells())


@pytest.fixture(scope="module")
def resident(tiny: ModelMaker) -> Reference:
    """The conversation of a resident run, computed once per model."""
    known: dict[tuple[object, ...], list[tuple[int, Logits]]] = {}

    def run(arch: str, threads: int = 1, **options: object) -> list[tuple[int, Logits]]:
        key = (arch, threads, *sorted(options.items()))
        if key not in known:
            path = tiny(arch, **options)
            with open_session(path, RESIDENT, n_ubatch=N_UBATCH, threads=threads) as session:
                known[key] = conversation(session)
        return known[key]

    return run


def check(
    cell: Cell,
    arch: str,
    tiny: ModelMaker,
    resident: Reference,
    *,
    threads: int = 1,
    **options: object,
) -> None:
    path = tiny(arch, split=cell.split, **options)
    with open_session(path, cell.streaming(), n_ubatch=N_UBATCH, threads=threads) as session:
        assert session.info.streamed
        assert session.info.overlap == cell.overlap
        assert session.info.load_expert_bytes == 0
        rows = conversation(session)
        store = session._opened.source.store
        store.wait_idle()
        counters = store.counters()
    assert_same_bits(rows, resident(arch, threads, **options))
    assert counters["guard_loads"] == 0
    assert counters["misses"] > 0
    assert counters["pool_bytes"] <= session.info.cache_bytes
    if cell.cache == "none":
        assert counters["hits"] == 0
    elif cell.cache == "one layer":
        assert counters["evictions"] > 0
    else:
        assert counters["hits"] > 0
        assert counters["evictions"] == 0
        assert counters["rereads"] == 0


@pytest.mark.parametrize("cell", ALL_CELLS, ids=str)
def test_every_cell(
    cell: Cell, tiny: ModelMaker, resident: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole matrix on the architecture with everything: hybrid, shared expert, nextn block."""
    bound_the_cache(monkeypatch, cell)
    check(cell, "qwen35moe", tiny, resident)


@pytest.mark.parametrize("arch", [arch for arch in FIXTURE_ARCHS if arch != "qwen35moe"])
@pytest.mark.parametrize("number", range(10))
def test_every_architecture(
    arch: str,
    number: int,
    tiny: ModelMaker,
    resident: Reference,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A spread of cells on the others: together they meet every value of every axis."""
    step = len(ALL_CELLS) // 10
    cell = ALL_CELLS[number * step + (FIXTURE_ARCHS.index(arch) + 3 * number) % step]
    bound_the_cache(monkeypatch, cell)
    check(cell, arch, tiny, resident)


@pytest.mark.parametrize("expert_type", EXPERT_TYPES)
@pytest.mark.parametrize("cache", ["one layer", "large"])
def test_every_quantisation(
    expert_type: str,
    cache: str,
    tiny: ModelMaker,
    resident: Reference,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = Cell(cache, True, 0, 2, "anon", 1)  # type: ignore[arg-type]
    bound_the_cache(monkeypatch, cell)
    check(cell, "qwen3moe", tiny, resident, expert_type=expert_type)


@pytest.mark.parametrize("overlap", [False, True])
def test_several_compute_threads(
    overlap: bool, tiny: ModelMaker, resident: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell("one layer", overlap, 2, 3, "anon", 1)
    bound_the_cache(monkeypatch, cell)
    check(cell, "qwen35moe", tiny, resident, threads=3)


def test_buffered_reads(tiny: ModelMaker, resident: Reference) -> None:
    cell = Cell("large", True, 0, 2, "anon", 1, o_direct=False)
    check(cell, "gpt-oss", tiny, resident)


@pytest.mark.parametrize("alignment", [32, 64, 4096])
def test_tensors_at_any_place_in_the_file(
    alignment: int, tiny: ModelMaker, resident: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell("one layer", True, 0, 2, "anon", 1)
    bound_the_cache(monkeypatch, cell)
    check(cell, "qwen3moe", tiny, resident, alignment=alignment)


@pytest.mark.parametrize("n_ubatch", [1, 3, 64])
def test_any_width_of_a_prefill_step(
    n_ubatch: int, tiny: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny("qwen3moe")
    cell = Cell("one layer", True, 2, 2, "anon", 1)
    bound_the_cache(monkeypatch, cell)
    with (
        open_session(path, cell.streaming(), n_ubatch=n_ubatch) as streamed,
        open_session(path, RESIDENT, n_ubatch=n_ubatch) as resident,
    ):
        assert_same_bits(conversation(streamed), conversation(resident))


def test_another_number_of_experts_per_token(
    tiny: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny("qwen35moe")
    cell = Cell("one layer", True, 0, 2, "anon", 1)
    bound_the_cache(monkeypatch, cell)
    with (
        open_session(path, cell.streaming(), n_expert_used=7) as streamed,
        open_session(path, RESIDENT, n_expert_used=7) as resident,
    ):
        info = streamed.info
        assert info.n_expert_used == 7
        assert info.token_demand_bytes == info.n_layer * 7 * info.expert_max_bytes
        assert_same_bits(conversation(streamed), conversation(resident))


def test_dropping_changes_logits_only_when_it_is_on(tiny: ModelMaker) -> None:
    """The lossy switch is lossy: otherwise the matrix above would prove nothing about it."""
    path = tiny("qwen3moe")
    cell = Cell("large", True, 0, 2, "anon", 1)
    with open_session(path, cell.streaming(drop_cold_experts=1.0)) as dropping:
        rows = conversation(dropping)
        assert dropping._opened.source.store.counters()["dropped"] > 0
    with open_session(path, RESIDENT) as resident:
        exact = conversation(resident)
    # Nothing is dropped in the prefill, so the first row is exact.
    assert_same_bits(rows[:1], exact[:1])
    assert any((x[1] != y[1]).any() for x, y in zip(rows, exact, strict=False))


def quantised(source: Path, target: Path) -> Path:
    """``source`` with all its matrices as Q4_0, which llama.cpp likes to rearrange."""
    lib = runtime().lib
    params = lib.llama_model_quantize_default_params()
    params.ftype = lib.LLAMA_FTYPE_MOSTLY_Q4_0
    params.nthread = 1
    params.pure = True
    params.allow_requantize = True
    assert lib.llama_model_quantize(str(source).encode(), str(target).encode(), params) == 0
    return target


def test_rearranged_dense_weights(
    tiny: ModelMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rearranging the dense weights changes bits, and eviction among the experts still none.

    A resident run rearranges its experts as well, so the reference here holds them all in a cache.
    """
    path = quantised(
        tiny("qwen3moe", expert_type="F16", n_embd=256, n_ff=256), tmp_path / "q4_0.gguf"
    )
    large = Cell("large", True, 0, 2, "anon", 1)
    with open_session(path, large.streaming(repack=True)) as session:
        expected = conversation(session)
    with open_session(path, large.streaming()) as session:
        native = conversation(session)
    tight = Cell("one layer", True, 0, 2, "anon", 1)
    bound_the_cache(monkeypatch, tight)
    with open_session(path, tight.streaming(repack=True)) as session:
        assert_same_bits(conversation(session), expected)
        assert session._opened.source.store.counters()["evictions"] > 0
    assert any((x[1] != y[1]).any() for x, y in zip(expected, native, strict=False))
