"""Models in several files, and what can be wrong with them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from moestream.errors import GGUFError
from moestream.gguf import read_model
from tests.conftest import ModelMaker
from tests.gguf import raw
from tests.gguf.raw import Raw


@pytest.fixture
def shards(tiny: ModelMaker, tmp_path: Path) -> list[Path]:
    first = tiny("qwen3moe", split=3)
    for path in first.parent.glob(first.name.replace("00001-of", "*-of")):
        shutil.copy(path, tmp_path)
    return sorted(tmp_path.iterdir())


def _shard(path: Path, number: int, count: int, total: int, name: str) -> Path:
    pairs = [
        raw.string("general.architecture", "qwen3moe"),
        raw.u16("split.no", number),
        raw.u16("split.count", count),
        raw.i32("split.tensors.count", total),
    ]
    return Raw(pairs=pairs, tensors=[raw.tensor(name)]).write(path)


def test_all_shards_are_found(tiny: ModelMaker, shards: list[Path]) -> None:
    model, whole = read_model(shards[0]), read_model(tiny("qwen3moe"))
    assert model.paths == tuple(shards)
    assert list(model.tensors) == list(whole.tensors)
    assert {t.shard for t in model.tensors.values()} == {0, 1, 2}
    for name, tensor in model.tensors.items():
        other = whole.tensors[name]
        assert tensor.nbytes == other.nbytes
        with open(model.paths[tensor.shard], "rb") as a, open(whole.paths[0], "rb") as b:
            a.seek(tensor.offset)
            b.seek(other.offset)
            assert a.read(tensor.nbytes) == b.read(tensor.nbytes)


def test_another_shard_given(shards: list[Path]) -> None:
    with pytest.raises(GGUFError, match="is shard 2 of 3; give the first one, ") as caught:
        read_model(shards[1])
    assert str(shards[0]) in str(caught.value)


def test_shard_missing(shards: list[Path]) -> None:
    shards[1].unlink()
    with pytest.raises(GGUFError, match=r"1 of the 3 shards .* are missing") as caught:
        read_model(shards[0])
    assert shards[1].name in str(caught.value)


def test_first_shard_renamed(shards: list[Path]) -> None:
    renamed = shards[0].rename(shards[0].with_name("model.gguf"))
    with pytest.raises(GGUFError, match="has been renamed"):
        read_model(renamed)


def test_another_shard_renamed_to_anything(shards: list[Path]) -> None:
    renamed = shards[1].rename(shards[1].with_name("model.gguf"))
    with pytest.raises(GGUFError, match="is shard 2 of 3"):
        read_model(renamed)


def test_shards_in_the_wrong_order(shards: list[Path]) -> None:
    aside = shards[1].rename(shards[1].with_name("aside"))
    shards[2].rename(shards[1])
    aside.rename(shards[2])
    with pytest.raises(GGUFError, match="mixed up or renamed"):
        read_model(shards[0])


def test_truncated_shard(shards: list[Path]) -> None:
    shards[2].write_bytes(shards[2].read_bytes()[:-100])
    with pytest.raises(GGUFError, match="truncated") as caught:
        read_model(shards[0])
    assert shards[2].name in str(caught.value)


def test_shard_is_a_directory(shards: list[Path]) -> None:
    shards[1].unlink()
    shards[1].mkdir()
    with pytest.raises(GGUFError, match="directory"):
        read_model(shards[0])


def test_shards_of_another_model(tmp_path: Path) -> None:
    first = _shard(tmp_path / "m-00001-of-00002.gguf", 0, 2, 2, "a")
    second = tmp_path / "m-00002-of-00002.gguf"
    _shard(second, 1, 3, 2, "b")
    with pytest.raises(GGUFError, match=r"'split.count' is 3 and not 2"):
        read_model(first)
    _shard(second, 1, 2, 2, "a")
    with pytest.raises(GGUFError, match=r"'a' is in .* as well as in"):
        read_model(first)
    _shard(second, 1, 2, 2, "b")
    assert list(read_model(first).tensors) == ["a", "b"]


def test_wrong_number_of_tensors(tmp_path: Path) -> None:
    first = _shard(tmp_path / "m-00001-of-00002.gguf", 0, 2, 3, "a")
    _shard(tmp_path / "m-00002-of-00002.gguf", 1, 2, 3, "b")
    with pytest.raises(GGUFError, match="hold 2 tensors, but the model has 3"):
        read_model(first)


@pytest.mark.parametrize("missing", ["split.no", "split.tensors.count"])
def test_split_metadata_missing(tmp_path: Path, missing: str) -> None:
    _shard(tmp_path / "m-00002-of-00002.gguf", 1, 2, 2, "b")
    pairs = [raw.u16("split.count", 2)]
    pairs += [raw.u16("split.no", 0)] if missing != "split.no" else []
    pairs += [raw.i32("split.tensors.count", 2)] if missing != "split.tensors.count" else []
    first = Raw(pairs=pairs).write(tmp_path / "m-00001-of-00002.gguf")
    with pytest.raises(GGUFError, match=f"'{missing}' is nothing"):
        read_model(first)


@pytest.mark.parametrize(
    "pair",
    [raw.u32("split.count", 2), raw.string("split.count", "2"), raw.u16("split.count", 65535)],
)
def test_split_count_of_a_wrong_kind(tmp_path: Path, pair: bytes) -> None:
    first = Raw(pairs=[pair, raw.u16("split.no", 0)]).write(tmp_path / "m-00001-of-00002.gguf")
    with pytest.raises(GGUFError, match=r"split|shards"):
        read_model(first)


def test_a_split_of_one_is_a_whole_model(tmp_path: Path) -> None:
    path = Raw(pairs=[raw.u16("split.count", 1)]).write(tmp_path / "m.gguf")
    assert read_model(path).paths == (path,)
