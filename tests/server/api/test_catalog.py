"""Which models are listed, and that no other is ever opened."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from moestream.config import EMBEDDED_MODEL
from moestream.models.nano import embedded_model_path
from moestream.server.api.catalog import Catalog, UnlistedModelError
from tests.conftest import ModelMaker


@pytest.fixture(autouse=True)
def no_hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from huggingface_hub import constants

    hub = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub))
    return hub


@pytest.fixture
def folder(tmp_path: Path, tiny: ModelMaker) -> Path:
    made = tmp_path / "models"
    (made / "deep" / "deeper").mkdir(parents=True)
    shutil.copy(tiny("qwen3moe"), made / "tiny-Q8_0.gguf")
    shutil.copy(tiny("olmoe"), made / "deep" / "deeper" / "other.gguf")
    first = tiny("qwen3moe", split=3)
    for number in (1, 2, 3):
        shard = first.name.replace("00001-of", f"0000{number}-of")
        shutil.copy(
            first.parent / shard, made / "deep" / f"split-Q4_K_M-0000{number}-of-00003.gguf"
        )
    (made / "mmproj-F16.gguf").write_bytes(b"GGUF")
    (made / "note.txt").write_text("no model")
    return made


def test_the_embedded_model_is_always_there() -> None:
    (model,) = Catalog([], EMBEDDED_MODEL).all()
    assert (model.reference, model.source) == (EMBEDDED_MODEL, "embedded")
    assert model.size_bytes == embedded_model_path().stat().st_size
    assert Catalog([], EMBEDDED_MODEL).resolve(EMBEDDED_MODEL) == model


def test_folders_of_models(folder: Path) -> None:
    catalog = Catalog([folder, folder.parent / "missing"], EMBEDDED_MODEL)
    found = {model.name: model for model in catalog.all() if model.source == "file"}
    assert found.keys() == {"tiny-Q8_0", "other", "split-Q4_K_M"}
    split = found["split-Q4_K_M"]
    assert split.quant == "Q4_K_M"
    assert split.path.name == "split-Q4_K_M-00001-of-00003.gguf"
    assert split.size_bytes == sum(p.stat().st_size for p in split.path.parent.glob("split*"))
    assert found["other"].quant is None
    for name in (split.reference, str(split.path), split.path.name, "split-Q4_K_M"):
        assert catalog.resolve(name) == split


def test_a_model_without_one_of_its_shards(folder: Path) -> None:
    (folder / "deep" / "split-Q4_K_M-00002-of-00003.gguf").unlink()
    with pytest.raises(UnlistedModelError, match="shard 2 is missing"):
        Catalog([folder], EMBEDDED_MODEL).resolve("split-Q4_K_M")


def test_the_model_from_the_command_line(folder: Path, tmp_path: Path) -> None:
    given = folder / "tiny-Q8_0.gguf"
    models = Catalog([], given).all()
    assert [model.path for model in models] == [embedded_model_path(), given]
    # It is not listed twice where its folder is as well.
    both = Catalog([folder], given).all()
    assert len([model for model in both if model.path == given]) == 1
    assert len(Catalog([], tmp_path / "gone.gguf").all()) == 1


def test_pulled_models(no_hub_cache: Path, tiny: ModelMaker) -> None:
    snapshot = no_hub_cache / "models--someone--Tiny-GGUF" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    shutil.copy(tiny("qwen3moe"), snapshot / "tiny-Q8_0.gguf")
    shutil.copy(tiny("qwen3moe"), snapshot / "tiny-Q4_0.gguf")
    catalog = Catalog([], EMBEDDED_MODEL)
    found = {model.reference: model for model in catalog.all() if model.source == "hub cache"}
    assert found.keys() == {"someone/Tiny-GGUF:Q8_0", "someone/Tiny-GGUF:Q4_0"}
    model = found["someone/Tiny-GGUF:Q8_0"]
    assert (model.name, model.quant) == ("Tiny-GGUF:Q8_0", "Q8_0")
    assert model.size_bytes == model.path.stat().st_size
    assert catalog.resolve("someone/Tiny-GGUF:Q8_0") == model


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd", "../models/tiny-Q8_0.gguf", "secret.gguf", "", ".", "..", "\x00", "~",
        "someone/else:Q8_0", "file:///etc/passwd", "tiny-Q8_0.gguf/../../secret.gguf",
    ],
)  # fmt: skip
def test_nothing_else_is_opened(folder: Path, name: str, tiny: ModelMaker) -> None:
    secret = folder.parent / "secret.gguf"
    shutil.copy(tiny("qwen3moe"), secret)
    catalog = Catalog([folder], EMBEDDED_MODEL)
    for text in (name, str(secret), str(folder / ".." / "secret.gguf")):
        with pytest.raises(UnlistedModelError, match="the server has no model"):
            catalog.resolve(text)


def test_a_name_that_several_files_have(folder: Path) -> None:
    (folder / "again").mkdir()
    shutil.copy(folder / "tiny-Q8_0.gguf", folder / "again" / "tiny-Q8_0.gguf")
    catalog = Catalog([folder], EMBEDDED_MODEL)
    with pytest.raises(UnlistedModelError, match="name one of them"):
        catalog.resolve("tiny-Q8_0")
    assert catalog.resolve(str(folder / "again" / "tiny-Q8_0.gguf")).name == "tiny-Q8_0"
