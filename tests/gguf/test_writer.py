"""Files that cannot be written right are not written at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from moestream.errors import GGUFError
from moestream.gguf import (
    GGMLType,
    MetaValue,
    TensorSpec,
    Typed,
    ValueType,
    read_model,
    write_model,
)


def spec(name: str, *shape: int, kind: GGMLType = GGMLType.F32, extra: int = 0) -> TensorSpec:
    result = TensorSpec(name, kind, shape, lambda: [bytes(result.nbytes + extra)])
    return result


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([spec("a", 4), spec("a", 4)], "twice"),
        ([spec("n" * 64, 4)], "longer than"),
        ([spec("a")], "impossible shape"),
        ([spec("a", 0)], "impossible shape"),
        ([spec("a", 1, 1, 1, 1, 1)], "impossible shape"),
        ([spec("a", 48, kind=GGMLType.Q8_0)], "multiple"),
        ([spec("a", 4, extra=1)], "should have 16 bytes, its source gave 17"),
        ([spec("a", 4, extra=-1)], "should have 16 bytes, its source gave 15"),
    ],
)
def test_refused(tmp_path: Path, tensors: list[TensorSpec], message: str) -> None:
    with pytest.raises(GGUFError, match=message):
        write_model(tmp_path / "m.gguf", {}, tensors)
    assert not list(tmp_path.iterdir())


def test_a_source_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> list[bytes]:
        raise KeyboardInterrupt

    tensors = [spec("a", 4), TensorSpec("b", GGMLType.F32, (4,), fail)]
    for split in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            write_model(tmp_path / "m.gguf", {}, tensors, split=split)
        assert not list(tmp_path.iterdir())


def test_an_old_file_survives_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_model(path, {}, [spec("a", 4)])
    with pytest.raises(GGUFError):
        write_model(path, {}, [spec("b", 4, extra=1)])
    assert list(read_model(path).tensors) == ["a"]


@pytest.mark.parametrize("split", [0, 3])
def test_impossible_split(tmp_path: Path, split: int) -> None:
    with pytest.raises(GGUFError, match="cannot split 2 tensors"):
        write_model(tmp_path / "m.gguf", {}, [spec("a", 4), spec("b", 4)], split=split)


@pytest.mark.parametrize("alignment", [0, 4, 24])
def test_impossible_alignment(tmp_path: Path, alignment: int) -> None:
    with pytest.raises(GGUFError, match="power of two"):
        write_model(tmp_path / "m.gguf", {}, [spec("a", 4)], alignment=alignment)


def test_arrays_need_one_type(tmp_path: Path) -> None:
    cases: list[tuple[MetaValue, str]] = [([], "unknown type"), ([0.5, 1], "mixes")]
    for value, message in cases:
        with pytest.raises(GGUFError, match=message):
            write_model(tmp_path / "m.gguf", {"k": value}, [spec("a", 4)])


def test_shards_are_of_about_the_same_size(tmp_path: Path) -> None:
    tensors = [spec(f"t{i}", 1000) for i in range(30)]
    paths = write_model(tmp_path / "m.gguf", {}, tensors, split=3)
    model = read_model(paths[0])
    counts = [sum(t.shard == i for t in model.tensors.values()) for i in range(3)]
    assert counts == [10, 10, 10]


def test_every_shard_gets_a_tensor(tmp_path: Path) -> None:
    tensors = [spec("large", 100_000), spec("a", 1), spec("b", 1), spec("c", 1)]
    for order in (tensors, tensors[::-1]):
        paths = write_model(tmp_path / "m.gguf", {}, order, split=4)
        assert [t.shard for t in read_model(paths[0]).tensors.values()] == [0, 1, 2, 3]


def test_progress_counts_every_byte(tmp_path: Path) -> None:
    written: list[int] = []
    tensors = [spec("a", 1000), spec("b", 32, 3, kind=GGMLType.Q8_0)]
    write_model(tmp_path / "m.gguf", {}, tensors, on_bytes=written.append)
    assert sum(written) == sum(tensor.nbytes for tensor in tensors)


def test_typed_values_keep_their_type(tmp_path: Path) -> None:
    metadata: dict[str, MetaValue | Typed] = {
        "a": Typed(ValueType.UINT64, 1),
        "b": Typed(ValueType.INT8, [1, -1]),
        "c": 1,
    }
    (path,) = write_model(tmp_path / "m.gguf", metadata, [spec("t", 4)])
    types = read_model(path).value_types
    assert types == {"a": ValueType.UINT64, "b": ValueType.INT8, "c": ValueType.UINT32}
