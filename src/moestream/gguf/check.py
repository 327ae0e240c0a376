"""Refusing models that would end the process inside llama.cpp instead of failing to load.

llama.cpp reports most of what can be wrong with a model by refusing it, and asserts the rest: an
assertion, a division by zero or a null pointer there takes the whole process with it. These are
the ones that can be foreseen from the header, found by mutating models of every registered
architecture and loading them (see ``tests/fuzz``). A model that passes may still be refused by
llama.cpp, which is fine.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from moestream.errors import GGUFError
from moestream.gguf.model import GGUFModel, NumberArray, StringArray, TensorInfo, shown
from moestream.gguf.types import WEIGHT_TYPES, GGMLType

__all__ = ["check_model"]

_MAX_LAYERS: Final = 512
_MAX_EXPERTS: Final = 1024
_TENSOR_ALIGNMENT: Final = 32
_MAX_WINDOW: Final = 1 << 24  # far above any model, far below where its sizes overflow
_ROPE_SCALING: Final = frozenset({"none", "linear", "yarn", "longrope"})
_GATING_FUNCTIONS: Final = range(5)

# ggml adds and multiplies by these, and convolves with them, in F32 only. The one vector that is
# multiplied as a matrix, and may be of any type, is the gate of a shared expert.
_F32_NAMES: Final = re.compile(
    r".*\.(bias|scale)|.*_norm\.weight|.*\.(ssm_conv1d|shortconv\.conv|attn_sinks)\.weight",
    re.DOTALL,
)
_MATRIX_VECTOR: Final = ".ffn_gate_inp_shexp.weight"


@dataclass(frozen=True, slots=True)
class _Traits:
    """What llama.cpp's graph of one architecture asserts.

    Attributes:
        equal_heads: keys and values must have heads of the same size.
        full_rotary: all of a head must be rotated.
        delta_net: some layers are gated delta nets.
        heads_span_width: all heads together must be as wide as the model.
        gating: the file must say what the gating function is.
        latent: attention may go through a compressed latent vector.
        shares_keys: the last layers may use the keys of the last two that have their own.
    """

    equal_heads: bool = True
    full_rotary: bool = False
    delta_net: bool = False
    heads_span_width: bool = False
    gating: bool = False
    latent: bool = False
    shares_keys: bool = False


_TRAITS: Final[dict[str, _Traits]] = {
    "qwen35moe": _Traits(delta_net=True),
    "qwen3next": _Traits(delta_net=True),
    "qwen3moe": _Traits(full_rotary=True),
    "qwen2moe": _Traits(full_rotary=True, heads_span_width=True),
    "olmoe": _Traits(full_rotary=True, heads_span_width=True),
    "glm4moe": _Traits(),
    "gpt-oss": _Traits(),
    "gemma4": _Traits(shares_keys=True),
    "lfm2moe": _Traits(heads_span_width=True, gating=True),
    "deepseek2": _Traits(equal_heads=False, latent=True),
}


def check_model(model: GGUFModel) -> None:
    """Refuse what llama.cpp would not survive.

    Raises:
        GGUFError: saying what is wrong with the model.
    """
    try:
        _check_layers_and_experts(model)
        _check_numbers(model)
        for tensor in model.tensors.values():
            _check_tensor(tensor)
        _check_vocabulary(model)
        traits = _TRAITS.get(model.architecture)
        if traits is not None:
            gating = model.get_int("expert_gating_func", 0)
            _require(not traits.gating or gating > 0, "it does not say how its experts are gated")
            _check_attention(model, traits)
            _check_output(model)
            if traits.latent:
                _check_latent_attention(model)
            if traits.delta_net:
                _check_delta_net(model)
    except _Problem as problem:
        raise GGUFError(f"{shown(model.paths[0])} cannot be run: {problem}") from None


class _Problem(Exception):
    """What is wrong, still without the file's name."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise _Problem(message)


def _check_layers_and_experts(model: GGUFModel) -> None:
    if not model.has("block_count"):
        return  # not a language model, or one that llama.cpp refuses for it
    n_block = model.get_int("block_count")
    _require(
        1 <= n_block <= _MAX_LAYERS,
        f"it claims {n_block} blocks; 1 to {_MAX_LAYERS} are possible",
    )
    n_nextn = model.get_int("nextn_predict_layers", 0)
    _require(n_nextn < n_block, f"{n_nextn} of its {n_block} blocks are claimed to be nextn blocks")
    n_expert = model.get_int("expert_count", 0)
    used = model.get_ints("expert_used_count", n_block, 0)
    groups = model.get_int("expert_group_count", 0)
    _require(n_expert <= _MAX_EXPERTS, f"it claims {n_expert} experts, at most {_MAX_EXPERTS} work")
    _require(
        (0 < max(used) <= n_expert) if n_expert else max(used) == 0,
        f"it routes a token to {max(used)} experts and has {n_expert}",
    )
    _require(
        groups < n_expert if n_expert else groups == 0,
        f"it claims {groups} groups of its {n_expert} experts",
    )
    if groups > 1:
        groups_used = model.get_int("expert_group_used_count", 0)
        _require(
            n_expert % groups == 0 and 0 < groups_used < groups,
            f"it claims {groups} groups of {n_expert} experts and to use {groups_used} of them",
        )
    gating = model.get_int("expert_gating_func", 0)
    _require(gating in _GATING_FUNCTIONS, f"its expert gating function has the number {gating}")


def _check_numbers(model: GGUFModel) -> None:
    scaling = model.metadata.get(f"{model.architecture}.rope.scaling.type", "none")
    _require(
        scaling in _ROPE_SCALING if isinstance(scaling, str) else True,
        f"its rope scaling {shown(scaling)} is none of {', '.join(sorted(_ROPE_SCALING))}",
    )
    for key in ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"):
        epsilon = model.get_float(key, 0.0)
        _require(0 <= epsilon < math.inf, f"the epsilon of its norms is {epsilon}")
    interval = model.get_int("full_attention_interval", 1)
    _require(interval > 0, "its full attention interval is 0")


def _check_tensor(tensor: TensorInfo) -> None:
    name, kind = tensor.name, tensor.type
    _require(
        kind in WEIGHT_TYPES or (kind is GGMLType.I32 and not name.endswith(".weight")),
        f"tensor {shown(name)} is of type {kind.name}, which is not a type for weights",
    )
    vector = len(tensor.shape) == 1 and not name.endswith(_MATRIX_VECTOR)
    _require(
        kind is GGMLType.F32 or not (vector or _F32_NAMES.fullmatch(name)),
        f"tensor {shown(name)} is of type {kind.name}, but must be F32",
    )
    _require(
        tensor.offset % _TENSOR_ALIGNMENT == 0,
        f"tensor {shown(name)} begins at byte {tensor.offset} of its file, which is not a "
        f"multiple of {_TENSOR_ALIGNMENT}",
    )


def _check_vocabulary(model: GGUFModel) -> None:
    tokens = model.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, StringArray):
        return  # no vocabulary, which llama.cpp refuses
    raw = list(tokens.raw())
    words = set(raw)
    n_empty = raw.count(b"")  # these get names of their own
    n_distinct = len(words) + max(0, n_empty - 1)
    _require(
        n_distinct == len(raw),
        f"{len(raw) - n_distinct} of its {len(raw)} vocabulary entries are there twice",
    )
    if model.metadata.get("tokenizer.ggml.model") == "llama":
        missing = sum(b"<0x%02X>" % b not in words and bytes([b]) not in words for b in range(256))
        _require(not missing, f"its vocabulary lacks the tokens of {missing} of the 256 bytes")
    embedding = model.tensors.get("token_embd.weight")
    if embedding is not None and len(embedding.shape) == 2:
        _require(
            embedding.shape[1] == len(raw),
            f"it has {embedding.shape[1]} token embeddings for {len(raw)} vocabulary entries",
        )


def _check_attention(model: GGUFModel, traits: _Traits) -> None:
    n_block = model.get_int("block_count")
    n_embd = model.get_int("embedding_length")
    heads = model.get_ints("attention.head_count", n_block)
    kv_heads = model.get_ints("attention.head_count_kv", n_block, heads[0])
    _require(n_embd > 0 and min(heads) > 0, f"it has {min(heads)} heads and a width of {n_embd}")
    for head, kv in zip(heads, kv_heads, strict=True):
        _require(kv == 0 or head % kv == 0, f"its {head} heads cannot share {kv} key-value heads")
    sharing = model.get_int("attention.shared_kv_layers", 0)
    _require(
        not traits.shares_keys or n_block - sharing >= 2,
        f"{sharing} of its {n_block} layers use the keys of others; two must have their own",
    )
    window = model.get_int("attention.sliding_window", 1)
    _require(window <= _MAX_WINDOW, f"its sliding window is {window} tokens wide")
    for suffix in ("", "_swa"):
        key = model.get_int("attention.key_length", n_embd // heads[0])
        value = model.get_int("attention.value_length", n_embd // heads[0])
        rotary = model.get_int("rope.dimension_count", key)
        if suffix:
            key = model.get_int("attention.key_length_swa", key)
            value = model.get_int("attention.value_length_swa", value)
            rotary = model.get_int("rope.dimension_count_swa", rotary)
        _require(min(key, value) > 0, f"its heads have {key} key and {value} value dimensions")
        _require(
            not traits.heads_span_width or key * heads[0] == n_embd,
            f"its {heads[0]} heads of {key} dimensions do not add up to its width of {n_embd}",
        )
        _require(
            not traits.equal_heads or key == value,
            f"its heads have {key} key dimensions but {value} value dimensions",
        )
        _require(
            2 <= rotary <= key and rotary % 2 == 0 and (not traits.full_rotary or rotary == key),
            f"{rotary} of the {key} dimensions of its heads are claimed to be rotated",
        )
        sections = model.metadata.get(f"{model.architecture}.rope.dimension_sections")
        if isinstance(sections, NumberArray) and not suffix:
            parts = [int(part) for part in sections]
            _require(
                min(parts, default=0) >= 0 and 0 < sum(parts) <= key,
                f"its rope sections {shown(parts)} do not fit its heads of {key} dimensions",
            )


def _check_latent_attention(model: GGUFModel) -> None:
    width = (
        model.get_int("embedding_length")
        // model.get_ints("attention.head_count", model.get_int("block_count"))[0]
    )
    key = model.get_int("attention.key_length", width)
    value = model.get_int("attention.value_length", width)
    rotary = model.get_int("rope.dimension_count", key)
    key_full = model.get_int("attention.key_length_mla", 0)
    value_full = model.get_int("attention.value_length_mla", 0)
    _require(
        (key_full == 0) == (value_full == 0) and (key_full or key) > rotary,
        f"{rotary} of the {key_full or key} dimensions of its heads are claimed to be rotated",
    )
    if key_full:
        rank = model.get_int("attention.kv_lora_rank")
        kv_heads = model.get_ints("attention.head_count_kv", model.get_int("block_count"), 0)
        _require(
            set(kv_heads) == {1} and (key, value) == (rank + rotary, rank),
            f"its latent vectors of {rank} and {rotary} dimensions do not fit {max(kv_heads)} "
            f"key-value heads of {key} and {value}",
        )


def _check_output(model: GGUFModel) -> None:
    tensors = model.tensors
    _require("token_embd.weight" in tensors, "it has no token embedding (token_embd.weight)")
    _require(
        "output_norm.weight" in tensors or "token_embd_norm.weight" in tensors,
        "it has no output norm (output_norm.weight)",
    )


def _check_delta_net(model: GGUFModel) -> None:
    kernel = model.get_int("ssm.conv_kernel")
    state = model.get_int("ssm.state_size")
    groups = model.get_int("ssm.group_count")
    rank = model.get_int("ssm.time_step_rank")
    inner = model.get_int("ssm.inner_size")
    _require(
        kernel > 1 and state > 0 and groups > 0 and rank > 0 and rank % groups == 0,
        f"its recurrent layers have a kernel of {kernel}, a state of {state}, {groups} key heads "
        f"and {rank} value heads, which do not fit together",
    )
    _require(
        inner == state * rank,
        f"its recurrent layers have an inner size of {inner}, but {rank} heads of {state}",
    )
    for layer in range(model.get_int("block_count")):
        prefix = f"blk.{layer}."
        if f"{prefix}ssm_conv1d.weight" in model.tensors:
            joint = f"{prefix}ssm_in.weight" in model.tensors
            for name in ("attn_qkv.weight", "attn_gate.weight"):
                _require(joint or prefix + name in model.tensors, f"it lacks {prefix}{name}")
