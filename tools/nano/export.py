"""Write a checkpoint as a ``qwen35moe`` GGUF.

    python export.py --checkpoint BUILD/head/checkpoint.pt --tokenizer BUILD/data/tokenizer.json \
        --out moestream-nano.gguf --type Q8_0
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType
from numpy.typing import NDArray
from torch import Tensor

from chat import CHAT_TEMPLATE, END_OF_TEXT, TURN_END
from checkpoint import load_model
from config import ModelConfig

ARCHITECTURE = "qwen35moe"
CONTEXT_LENGTH = 4096
DESCRIPTION = (
    "A very small mixture-of-experts model to try moestream with: a demonstration, not a source "
    "of knowledge. See tools/nano/MODEL_CARD.md in the moestream repository."
)
FILE_TYPES = {"F32": LlamaFileType.ALL_F32, "Q8_0": LlamaFileType.MOSTLY_Q8_0}

NamedTensor = tuple[str, Tensor, bool]
"""GGUF name, data, and whether it may be quantised."""


def block_tensors(
    weights: dict[str, Tensor], source: str, target: str, config: ModelConfig, attends: bool
) -> Iterator[NamedTensor]:
    """All tensors of one block: mostly a renaming."""

    def tensor(name: str) -> Tensor:
        return weights[f"{source}.{name}"]

    yield f"{target}.attn_norm.weight", tensor("mixer_norm"), False
    yield f"{target}.post_attention_norm.weight", tensor("moe_norm"), False
    if attends:
        for theirs, ours in (("q", "q"), ("k", "k"), ("v", "v"), ("output", "output")):
            yield f"{target}.attn_{theirs}.weight", tensor(f"mixer.{ours}.weight"), True
        yield f"{target}.attn_q_norm.weight", tensor("mixer.q_norm"), False
        yield f"{target}.attn_k_norm.weight", tensor("mixer.k_norm"), False
    else:
        yield f"{target}.attn_qkv.weight", tensor("mixer.qkv.weight"), True
        yield f"{target}.attn_gate.weight", tensor("mixer.gate.weight"), True
        yield f"{target}.ssm_conv1d.weight", tensor("mixer.conv"), False
        yield f"{target}.ssm_dt.bias", tensor("mixer.dt_bias"), False
        yield f"{target}.ssm_a", -tensor("mixer.a_log").exp(), False
        yield f"{target}.ssm_beta.weight", tensor("mixer.beta.weight"), True
        yield f"{target}.ssm_alpha.weight", tensor("mixer.alpha.weight"), True
        yield f"{target}.ssm_norm.weight", tensor("mixer.norm"), False
        yield f"{target}.ssm_out.weight", tensor("mixer.output.weight"), True

    yield f"{target}.ffn_gate_inp.weight", tensor("moe.router.weight"), False
    for name in ("gate", "up", "down"):
        yield f"{target}.ffn_{name}_exps.weight", tensor(f"moe.expert_{name}"), True
    gate, up = tensor("moe.shared_gate_up.weight").split(config.shared_ff)
    yield f"{target}.ffn_gate_shexp.weight", gate, True
    yield f"{target}.ffn_up_shexp.weight", up, True
    yield f"{target}.ffn_down_shexp.weight", tensor("moe.shared_down.weight"), True
    yield f"{target}.ffn_gate_inp_shexp.weight", tensor("moe.shared_switch.weight")[0], False


def all_tensors(weights: dict[str, Tensor], config: ModelConfig) -> Iterator[NamedTensor]:
    """Every tensor of the file, in file order."""
    yield "token_embd.weight", weights["embedding.weight"], True
    yield "output_norm.weight", weights["output_norm"], False
    yield "output.weight", weights["head.weight"], True
    for layer in range(config.block_count):
        attends = config.is_full_attention(layer)
        yield from block_tensors(weights, f"blocks.{layer}", f"blk.{layer}", config, attends)
    target = f"blk.{config.block_count}"
    yield from block_tensors(weights, "mtp.block", target, config, True)
    yield f"{target}.nextn.eh_proj.weight", weights["mtp.eh_proj.weight"], True
    yield f"{target}.nextn.enorm.weight", weights["mtp.embedding_norm"], False
    yield f"{target}.nextn.hnorm.weight", weights["mtp.hidden_norm"], False
    yield f"{target}.nextn.shared_head_norm.weight", weights["mtp.head_norm"], False


def add_shape(writer: GGUFWriter, config: ModelConfig) -> None:
    """The hyper-parameters."""
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(config.embedding_length)
    writer.add_block_count(config.block_count + 1)
    writer.add_uint32(f"{ARCHITECTURE}.nextn_predict_layers", 1)
    writer.add_feed_forward_length(config.expert_ff)
    writer.add_head_count(config.head_count)
    writer.add_head_count_kv(config.head_count_kv)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_eps)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_rope_dimension_count(config.rope_dim)
    writer.add_rope_dimension_sections(list(config.rope_sections))
    writer.add_expert_count(config.expert_count)
    writer.add_expert_used_count(config.expert_used_count)
    writer.add_expert_feed_forward_length(config.expert_ff)
    writer.add_expert_shared_feed_forward_length(config.shared_ff)
    writer.add_ssm_conv_kernel(config.ssm_conv)
    writer.add_ssm_inner_size(config.ssm_inner)
    writer.add_ssm_state_size(config.ssm_state)
    writer.add_ssm_time_step_rank(config.ssm_value_heads)
    writer.add_ssm_group_count(config.ssm_key_heads)
    writer.add_uint32(f"{ARCHITECTURE}.full_attention_interval", config.full_attention_interval)


def add_tokenizer(writer: GGUFWriter, path: Path) -> None:
    """Vocabulary, merges, special tokens and the chat template."""
    data = json.loads(path.read_text())
    vocabulary: dict[str, int] = data["model"]["vocab"]
    special = {token["content"]: token["id"] for token in data["added_tokens"]}
    by_id = {i: token for token, i in {**vocabulary, **special}.items()}
    tokens = [by_id[i] for i in range(len(by_id))]
    kinds = [
        gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens
    ]
    merges = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(special[END_OF_TEXT])
    writer.add_pad_token_id(special[END_OF_TEXT])
    writer.add_eos_token_id(special[TURN_END])
    writer.add_eot_token_id(special[TURN_END])
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def export(checkpoint: Path, tokenizer: Path, out: Path, quantization: str) -> None:
    """Write beside ``out``, then rename."""
    model = load_model(checkpoint)
    config = model.config
    temporary = out.with_name(out.name + ".tmp")
    writer = GGUFWriter(temporary, ARCHITECTURE)
    writer.add_name("moestream-nano")
    writer.add_description(DESCRIPTION)
    writer.add_file_type(FILE_TYPES[quantization])
    add_shape(writer, config)
    add_tokenizer(writer, tokenizer)
    kind = GGMLQuantizationType[quantization]
    weights = dict(model.state_dict())
    for name, tensor, may_quantize in all_tensors(weights, config):
        array: NDArray[np.float32] = np.ascontiguousarray(tensor.numpy(), dtype=np.float32)
        if may_quantize and quantization != "F32":
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    temporary.replace(out)
    print(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--type", choices=FILE_TYPES, default="Q8_0")
    arguments = parser.parse_args()
    export(arguments.checkpoint, arguments.tokenizer, arguments.out, arguments.type)


if __name__ == "__main__":
    main()
