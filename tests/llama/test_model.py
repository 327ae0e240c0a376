from __future__ import annotations

import re
from pathlib import Path

import pytest

from moestream.errors import ModelError
from moestream.llama.model import Model, ModelOptions
from moestream.llama.runtime import runtime
from tests.conftest import ModelMaker


def test_a_loaded_model_knows_its_shape(tiny: ModelMaker) -> None:
    with Model.load(tiny("qwen3moe"), ModelOptions()) as model:
        assert model.n_layer == 4
        assert model.vocab.n_tokens == 512
        assert model.n_ctx_train > 0
        assert model.metadata("general.architecture") == "qwen3moe"
        assert model.metadata("no.such.key") is None
        assert model.chat_template is not None
        assert "im_start" in model.chat_template
        assert not model.keeps_state
        assert model.description


@pytest.mark.parametrize("arch", ["qwen35moe", "qwen3next", "lfm2moe"])
def test_hybrid_models_keep_a_state(tiny: ModelMaker, arch: str) -> None:
    with Model.load(tiny(arch), ModelOptions()) as model:
        assert model.keeps_state


def test_the_prediction_block_is_loaded_only_when_asked_for(tiny: ModelMaker) -> None:
    def loaded_mib(load_mtp: bool) -> float:
        mark = runtime().log.mark()
        with Model.load(tiny("qwen35moe"), ModelOptions(load_mtp=load_mtp)) as model:
            assert model.n_layer_nextn == 1
        text = "\n".join(line.text for line in runtime().log.since(mark))
        return sum(map(float, re.findall(r"model buffer size = *([0-9.]+) MiB", text)))

    assert loaded_mib(True) > loaded_mib(False) > 0


def test_a_failed_load_quotes_llama_cpp(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + b"\xff" * 100)
    with pytest.raises(ModelError, match=r"could not load .*broken\.gguf: .*(gguf|version|read)"):
        Model.load(path, ModelOptions())


def test_a_missing_file_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="could not load"):
        Model.load(tmp_path / "none.gguf", ModelOptions())


def test_progress_rises_to_one(tiny: ModelMaker) -> None:
    seen: list[float] = []

    def progress(fraction: float) -> None:
        seen.append(fraction)

    Model.load(tiny("qwen3moe"), ModelOptions(), progress=progress).close()
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_an_exception_in_the_progress_callback_comes_out_as_it_is(tiny: ModelMaker) -> None:
    def progress(fraction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Model.load(tiny("qwen3moe"), ModelOptions(), progress=progress)


def test_a_progress_callback_can_stop_the_load(tiny: ModelMaker) -> None:
    with pytest.raises(ModelError):
        Model.load(tiny("qwen3moe"), ModelOptions(), progress=lambda fraction: False)


def test_a_model_is_freed_once(tiny: ModelMaker) -> None:
    model = Model.load(tiny("qwen3moe"), ModelOptions())
    model.close()
    model.close()
    with pytest.raises(RuntimeError, match="freed"):
        _ = model.pointer


def test_an_overlong_metadata_key_is_refused(tiny: ModelMaker) -> None:
    with pytest.raises(ModelError, match="too long"):
        Model.load(tiny("qwen3moe"), ModelOptions(metadata={"k" * 200: 1}))
