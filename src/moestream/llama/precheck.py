"""Refuses metadata on which llama.cpp would end the process instead of reporting an error.

llama.cpp asserts where it trusts a file, and a failed assertion takes the whole program down, the
user's session with it. These are the assertions that a damaged file has been seen to reach.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain

from moestream.errors import GGUFError
from moestream.gguf.model import GGUFModel, StringArray

__all__ = ["check_loadable"]

_MAX_BLOCKS = 512
_MAX_EXPERTS = 1024
_MAX_HEADS = 1 << 16
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
_VOCABULARY = "tokenizer.ggml.tokens"
# llama.cpp's ways from router logits to weights; 0 leaves the choice to most architectures.
_GATING_FUNCTIONS = range(5)
_NEEDS_GATING = ("lfm2moe",)
_DELTA_NET_ARCHS = ("qwen35moe", "qwen35", "qwen3next")


def check_loadable(gguf: GGUFModel) -> None:
    """Check what llama.cpp takes for granted.

    Raises:
        GGUFError: the numbers in the file do not fit together.
    """
    for complaint in chain(
        _blocks(gguf),
        _experts(gguf),
        _norms(gguf),
        _attention(gguf),
        _rotation(gguf),
        _recurrence(gguf),
        _vocabulary(gguf),
    ):
        raise GGUFError(
            f"{gguf.paths[0]} cannot be loaded: {complaint}; the file is damaged or was made "
            "wrongly, get it again"
        )


def _blocks(gguf: GGUFModel) -> Iterable[str]:
    n_block = gguf.get_int("block_count")
    if not 0 < n_block <= _MAX_BLOCKS:
        yield f"it claims {n_block} blocks, and llama.cpp takes 1 to {_MAX_BLOCKS}"
    n_nextn = gguf.get_int("nextn_predict_layers", 0)
    if n_nextn >= n_block:
        yield f"it claims {n_nextn} prediction layers among {n_block} blocks"
    for key in ("attention.head_count", "attention.head_count_kv"):
        if gguf.has(key) and max(gguf.get_ints(key, n_block)) > _MAX_HEADS:
            yield f"it claims more than {_MAX_HEADS} attention heads"


def _experts(gguf: GGUFModel) -> Iterable[str]:
    n_expert = gguf.get_int("expert_count", 0)
    if n_expert > _MAX_EXPERTS:
        yield f"it claims {n_expert} experts, and llama.cpp takes {_MAX_EXPERTS}"
    used = max(gguf.get_ints("expert_used_count", gguf.get_int("block_count"), 0))
    if used > n_expert or (n_expert and not used):
        yield f"it claims to use {used} of {n_expert} experts"
    gating = gguf.get_int("expert_gating_func", 0)
    if gating not in _GATING_FUNCTIONS or (not gating and gguf.architecture in _NEEDS_GATING):
        yield f"it claims gating function {gating}"
    groups = gguf.get_int("expert_group_count", 0)
    if groups and groups >= n_expert:
        yield f"it claims {groups} groups of {n_expert} experts"
    if groups > 1:
        group_used = gguf.get_int("expert_group_used_count", 0)
        if n_expert % groups or not 0 < group_used < groups:
            yield f"it claims to use {group_used} of {groups} groups of {n_expert} experts"


def _norms(gguf: GGUFModel) -> Iterable[str]:
    for key in ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"):
        if gguf.has(key) and not 0.0 <= gguf.get_float(key) < math.inf:
            yield f"its {key} is {gguf.get_float(key)}"


def _attention(gguf: GGUFModel) -> Iterable[str]:
    """Heads and their size against the tensors, where both are plain enough to tell."""
    if gguf.has("attention.key_length_mla"):
        key = gguf.get_int("attention.key_length_mla")
        rotated = gguf.get_int("rope.dimension_count")
        if key <= rotated:
            yield f"it claims to rotate {rotated} of {key} dimensions of a compressed key"
    n_block = gguf.get_int("block_count")
    heads = gguf.get_ints("attention.head_count", n_block, 0)
    heads_kv = heads
    if gguf.has("attention.head_count_kv"):
        heads_kv = gguf.get_ints("attention.head_count_kv", n_block)
    for n, n_kv in set(zip(heads, heads_kv, strict=True)):
        if n_kv and n % n_kv:
            yield f"its {n} attention heads cannot share {n_kv} keys"
    # Keys that are compressed, or differ in size between layers, are too much to second-guess.
    if any(gguf.has(f"attention.{key}") for key in ("key_length_swa", "kv_lora_rank")):
        return
    default = gguf.get_int("embedding_length") // max(heads[0], 1)
    for layer in range(n_block):
        for part, size_key in (("k", "key_length"), ("v", "value_length")):
            tensor = gguf.tensors.get(f"blk.{layer}.attn_{part}.weight")
            size = gguf.get_int(f"attention.{size_key}", default)
            if tensor is None or len(tensor.shape) != 2:
                continue
            if heads_kv[layer] * size != tensor.shape[1]:
                yield (
                    f"it claims {heads_kv[layer]} heads of {size} in block {layer}, but "
                    f"{tensor.name} has {tensor.shape[1]} rows"
                )


def _rotation(gguf: GGUFModel) -> Iterable[str]:
    scaling = gguf.metadata.get(f"{gguf.architecture}.rope.scaling.type", "none")
    if scaling not in _ROPE_SCALINGS:
        yield f"it names an unknown way to scale positions, {scaling!r:.40}"
    for suffix in ("", "_swa"):
        if not gguf.has(f"rope.dimension_count{suffix}"):
            continue
        rotated = gguf.get_int(f"rope.dimension_count{suffix}")
        size = _head_size(gguf, suffix)
        if rotated % 2 or not 0 < rotated <= size:
            yield f"it claims to rotate {rotated} of the {size} dimensions of an attention head"


def _head_size(gguf: GGUFModel, suffix: str) -> int:
    for key in (f"attention.key_length{suffix}", "attention.key_length"):
        if gguf.has(key):
            return gguf.get_int(key)
    heads = max(gguf.get_ints("attention.head_count", gguf.get_int("block_count")))
    return gguf.get_int("embedding_length") // heads if heads else 0


def _recurrence(gguf: GGUFModel) -> Iterable[str]:
    if gguf.has("full_attention_interval") and not gguf.get_int("full_attention_interval"):
        yield "it claims full attention at every 0th block"
    if gguf.architecture in _DELTA_NET_ARCHS and gguf.has("ssm.inner_size"):
        inner = gguf.get_int("ssm.inner_size")
        state = gguf.get_int("ssm.state_size", 0)
        rank = gguf.get_int("ssm.time_step_rank", 0)
        groups = gguf.get_int("ssm.group_count", 0)
        if inner != state * rank or not inner:
            yield f"its recurrent state of {inner} is not {rank} heads of {state}"
        elif not groups or rank % groups:
            yield f"its {rank} recurrent heads cannot share {groups} groups"


def _vocabulary(gguf: GGUFModel) -> Iterable[str]:
    tokens = gguf.metadata.get(_VOCABULARY)
    if not isinstance(tokens, StringArray) or not len(tokens):
        yield "it has no vocabulary"
        return
    distinct = set(tokens.raw())
    if len(distinct) == len(tokens):
        return
    # Entries without text get names of their own from llama.cpp.
    if sum(1 for entry in tokens.raw() if entry) != len(distinct - {b""}):
        yield "its vocabulary has the same entry twice"
