"""Models that would end the process in llama.cpp are refused before they get there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moestream.errors import GGUFError
from moestream.gguf import GGMLType, GGUFModel, MetaValue, check_model, read_model
from moestream.gguf.model import NumberArray, StringArray
from tests.conftest import ModelMaker
from tests.fixtures import FIXTURE_ARCHS
from tests.gguf.raw import text
from tests.streaming.test_layout import changed


def numbers(*values: int) -> NumberArray[int]:
    return NumberArray(b"".join(v.to_bytes(4, "little", signed=True) for v in values), "i")


def strings(*values: str) -> StringArray:
    return StringArray(b"".join(map(text, values)), len(values))


def refused(model: GGUFModel, message: str) -> None:
    with pytest.raises(GGUFError, match=message) as caught:
        check_model(model)
    assert str(model.paths[0]) in str(caught.value)


@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("block_count", 0, "claims 0 blocks"),
        ("block_count", 513, "claims 513 blocks"),
        ("nextn_predict_layers", 100, "claimed to be nextn"),
        ("expert_count", 1025, "1025 experts"),
        ("expert_count", 0, "has 0"),
        ("expert_count", 3, "to 4 experts and has 3"),
        ("expert_used_count", 0, "to 0 experts"),
        ("expert_used_count", 17, "to 17 experts"),
        ("expert_group_count", 16, "16 groups"),
        ("expert_group_count", 3, "3 groups"),
        ("expert_group_count", 2, "use 0 of them"),
        ("expert_gating_func", 9, "number 9"),
        ("rope.scaling.type", "spiral", "'spiral'"),
        ("embedding_length", 0, "width of 0"),
        ("attention.head_count", 0, "0 heads"),
        ("attention.head_count_kv", 3, "cannot share 3"),
        ("attention.key_length", 0, "0 key"),
        ("rope.dimension_count", 0, "0 of the"),
        ("rope.dimension_count", 15, "15 of the"),
        ("rope.dimension_count", 1000, "1000 of the"),
        ("rope.dimension_sections", numbers(0, 0, 0, 0), "rope sections"),
        ("rope.dimension_sections", numbers(-1, 2, 2, 0), "rope sections"),
        ("rope.dimension_sections", numbers(100, 100, 0, 0), "rope sections"),
        ("attention.layer_norm_rms_epsilon", -1.0, "epsilon"),
        ("attention.layer_norm_rms_epsilon", float("nan"), "epsilon"),
        ("attention.sliding_window", 2**31, "sliding window"),
    ],
)
def test_settings(tiny: ModelMaker, arch: str, key: str, value: MetaValue, message: str) -> None:
    refused(changed(read_model(tiny(arch)), {f"{arch}.{key}": value}), message)


@pytest.mark.parametrize("arch", ["qwen35moe", "qwen3next"])
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("full_attention_interval", 0, "interval is 0"),
        ("ssm.inner_size", 129, "inner size of 129"),
        ("ssm.conv_kernel", 1, "kernel of 1"),
        ("ssm.group_count", 0, "0 key heads"),
        ("ssm.group_count", 3, "do not fit together"),
        ("ssm.time_step_rank", 0, "0 value heads"),
        ("ssm.state_size", 0, "state of 0"),
    ],
)
def test_recurrent_settings(
    tiny: ModelMaker, arch: str, key: str, value: int, message: str
) -> None:
    refused(changed(read_model(tiny(arch)), {f"{arch}.{key}": value}), message)


@pytest.mark.parametrize("arch", ["qwen3moe", "qwen2moe", "olmoe"])
def test_heads_that_must_be_rotated_whole(tiny: ModelMaker, arch: str) -> None:
    refused(changed(read_model(tiny(arch)), {f"{arch}.rope.dimension_count": 16}), "16 of the 32")


@pytest.mark.parametrize("arch", ["qwen2moe", "olmoe", "lfm2moe"])
def test_heads_that_must_span_the_width(tiny: ModelMaker, arch: str) -> None:
    model = changed(read_model(tiny(arch)), {f"{arch}.attention.head_count": 8})
    refused(model, "do not add up to its width of 128")


def test_gating_function_missing(tiny: ModelMaker) -> None:
    model = read_model(tiny("lfm2moe"))
    refused(changed(model, {"lfm2moe.expert_gating_func": 0}), "how its experts are gated")
    check_model(changed(read_model(tiny("glm4moe")), {"glm4moe.expert_gating_func": 0}))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("attention.head_count_kv", None, "do not fit 0 key-value heads"),
        ("attention.head_count_kv", 2, "do not fit 2 key-value heads"),
        ("attention.key_length", None, "rotated|do not fit"),
        ("attention.key_length", 160, "heads of 160"),
        ("attention.value_length", 32, "heads of 80 and 32"),
        ("attention.key_length_mla", 16, "16 of the 16"),
        ("attention.key_length_mla", 0, "rotated"),
        ("rope.dimension_count", None, "80 of the 48"),
        ("rope.dimension_count", 64, "64 of the 48"),
    ],
)
def test_latent_attention(
    tiny: ModelMaker, key: str, value: MetaValue | None, message: str
) -> None:
    model = changed(read_model(tiny("deepseek2")), {f"deepseek2.{key}": value})
    refused(model, message)


def test_layers_without_keys_of_their_own(tiny: ModelMaker) -> None:
    model = read_model(tiny("gemma4"))
    check_model(changed(model, {"gemma4.attention.shared_kv_layers": 2}))
    refused(changed(model, {"gemma4.attention.shared_kv_layers": 3}), "3 of its 4 layers")


def test_value_heads_of_another_size(tiny: ModelMaker) -> None:
    model = changed(read_model(tiny("qwen3moe")), {"qwen3moe.attention.value_length": 64})
    refused(model, "32 key dimensions but 64")


@pytest.mark.parametrize("kind", [GGMLType.F64, GGMLType.I8, GGMLType.Q8_1, GGMLType.I32])
def test_types_nothing_multiplies_by(tiny: ModelMaker, kind: GGMLType) -> None:
    model = read_model(tiny("qwen3moe"))
    for name in ("blk.0.attn_q.weight", "token_embd.weight", "output_norm.weight"):
        tensor = replace(model.tensors[name], type=kind)
        refused(changed(model, tensors={name: tensor}), "not a type for weights")


@pytest.mark.parametrize("kind", [GGMLType.F16, GGMLType.BF16, GGMLType.Q8_0])
def test_tensors_that_must_be_f32(tiny: ModelMaker, kind: GGMLType) -> None:
    for arch, names in (
        ("qwen35moe", ["output_norm.weight", "blk.0.ssm_a", "blk.0.ssm_conv1d.weight"]),
        ("gpt-oss", ["blk.0.ffn_up_exps.bias", "blk.0.attn_sinks.weight"]),
        ("lfm2moe", ["blk.0.shortconv.conv.weight"]),
        ("gemma4", ["blk.0.ffn_down_exps.scale", "rope_freqs.weight"]),
    ):
        model = read_model(tiny(arch))
        for name in names:
            tensor = replace(model.tensors[name], type=kind)
            refused(changed(model, tensors={name: tensor}), "must be F32")
    model = read_model(tiny("qwen35moe"))
    name = "blk.0.ffn_gate_inp_shexp.weight"  # a vector, but multiplied as a matrix
    check_model(changed(model, tensors={name: replace(model.tensors[name], type=kind)}))


def test_tensors_that_llama_cannot_map(tiny: ModelMaker) -> None:
    refused(read_model(tiny("qwen3moe", alignment=8)), "not a multiple of 32")


@pytest.mark.parametrize("name", ["token_embd.weight", "output_norm.weight"])
def test_tensors_missing(tiny: ModelMaker, name: str) -> None:
    refused(changed(read_model(tiny("qwen3moe")), tensors={name: None}), name)


@pytest.mark.parametrize("name", ["attn_qkv.weight", "attn_gate.weight"])
def test_recurrent_tensors_missing(tiny: ModelMaker, name: str) -> None:
    for arch in ("qwen35moe", "qwen3next"):
        model = changed(read_model(tiny(arch)), tensors={f"blk.2.{name}": None})
        refused(model, rf"lacks blk\.2\.{name}")


def test_vocabulary(tiny: ModelMaker) -> None:
    model = read_model(tiny("qwen3moe"))
    tokens = model.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, StringArray)
    words = list(tokens)

    def with_(*entries: str, **more: MetaValue) -> GGUFModel:
        keys = {f"tokenizer.ggml.{key}": value for key, value in more.items()}
        return changed(model, {"tokenizer.ggml.tokens": strings(*entries), **keys})

    check_model(with_(*words))
    check_model(with_(*words[:-3], "", "", ""))  # empty entries are told apart
    refused(with_(*words[:-1], words[0]), "1 of its 512 vocabulary entries are there twice")
    refused(with_(*words[:-1]), "512 token embeddings for 511 vocabulary entries")
    refused(with_(*words, model="llama"), "lacks the tokens of")
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    check_model(with_(*pieces, *(f"w{i}" for i in range(256)), model="llama"))


def test_models_of_other_architectures_get_the_general_checks(tiny: ModelMaker) -> None:
    model = read_model(tiny("qwen3moe"))
    other = changed(model, {"general.architecture": "llama"})
    check_model(other)
    refused(changed(other, {"llama.block_count": 0}), "claims 0 blocks")
