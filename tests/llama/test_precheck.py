from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from moestream.errors import GGUFError
from moestream.gguf import GGUFModel, read_model
from moestream.gguf.model import StringArray
from moestream.llama.precheck import check_loadable
from tests.conftest import ModelMaker
from tests.fixtures import FIXTURE_ARCHS


def with_metadata(model: GGUFModel, **changes: Any) -> GGUFModel:
    prefix = model.architecture
    changed = {
        key if "." in key and key.startswith("tokenizer") else f"{prefix}.{key}": value
        for key, value in changes.items()
    }
    return replace(model, metadata=MappingProxyType({**model.metadata, **changed}))


@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
def test_sound_models_pass(arch: str, tiny: ModelMaker) -> None:
    check_loadable(read_model(tiny(arch)))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"block_count": 0}, "0 blocks"),
        ({"block_count": 2**31}, "blocks"),
        ({"nextn_predict_layers": 5}, "5 prediction layers among 5 blocks"),
        ({"attention.head_count": 2**31}, "attention heads"),
        ({"expert_count": 5000}, "5000 experts"),
        ({"expert_count": 0}, "to use 4 of 0 experts"),
        ({"expert_used_count": 0}, "to use 0 of 16 experts"),
        ({"expert_used_count": 17}, "to use 17 of 16 experts"),
        ({"expert_group_count": 16}, "16 groups of 16 experts"),
        ({"expert_group_count": 3}, "0 of 3 groups"),
        ({"rope.dimension_count": 3}, "rotate 3 of the"),
        ({"rope.dimension_count": 0}, "rotate 0 of the"),
        ({"rope.dimension_count": 4096}, "rotate 4096 of the"),
        ({"rope.scaling.type": "sideways"}, "'sideways'"),
        ({"attention.layer_norm_rms_epsilon": float("nan")}, "epsilon is nan"),
        ({"expert_gating_func": 7}, "gating function 7"),
        ({"attention.value_length": 0}, "heads of 0 in block"),
        ({"attention.head_count_kv": 3}, "cannot share 3 keys"),
        ({"attention.head_count": 1}, "cannot share"),
        ({"full_attention_interval": 0}, "every 0th block"),
        ({"ssm.inner_size": 3}, "recurrent state of 3"),
        ({"ssm.group_count": 0}, "share 0 groups"),
    ],
)
def test_what_llama_cpp_would_abort_on_is_refused(
    changes: dict[str, Any], complaint: str, tiny: ModelMaker
) -> None:
    model = read_model(tiny("qwen35moe"))
    with pytest.raises(GGUFError, match=complaint):
        check_loadable(with_metadata(model, **changes))


def entries(*texts: bytes) -> StringArray:
    data = b"".join(len(text).to_bytes(8, "little") + text for text in texts)
    return StringArray(data, len(texts))


def test_a_vocabulary_must_be_there_and_have_no_twins(tiny: ModelMaker) -> None:
    model = read_model(tiny("qwen3moe"))
    key = "tokenizer.ggml.tokens"
    check_loadable(with_metadata(model, **{key: entries(b"a", b"b", b"", b"")}))
    with pytest.raises(GGUFError, match="the same entry twice"):
        check_loadable(with_metadata(model, **{key: entries(b"a", b"b", b"a")}))
    for nothing in (entries(), 3, None):
        with pytest.raises(GGUFError, match="no vocabulary"):
            check_loadable(with_metadata(model, **{key: nothing}))
