"""How much memory a context takes, estimated from the header (pure).

Which layers attend and which carry a recurrent state is read off the tensors that are there, so
no architecture is named here.
"""

from __future__ import annotations

from dataclasses import dataclass

from moestream.gguf import GGUFModel

__all__ = ["ContextSize", "context_size"]

_F16 = 2
_F32 = 4
#: llama.cpp rounds a context up to this many positions.
_CONTEXT_STEP = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSize:
    """Bytes of a context.

    Attributes:
        kv: keys and values of all attention layers (F16).
        recurrent: states of all recurrent layers (F32), of one sequence.
        compute: llama.cpp's scratch memory; roughly.
    """

    kv: int
    recurrent: int
    compute: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.kv + self.recurrent + self.compute


def context_size(
    model: GGUFModel, *, layers: range, n_ctx: int, n_ubatch: int, n_logits: int = 1
) -> ContextSize:
    """Estimate a context of ``n_ctx`` positions that runs ``layers``.

    Args:
        model: its header.
        layers: the trunk's, or a multi-token-prediction block.
        n_ctx: positions.
        n_ubatch: tokens fed at a time.
        n_logits: most rows of them that ask for logits.
    """
    positions = -(-n_ctx // _CONTEXT_STEP) * _CONTEXT_STEP
    widths = [_kv_width(model, layer) for layer in layers]
    states = [_state_elements(model, layer) for layer in layers]
    return ContextSize(
        kv=sum(widths) * positions * _F16,
        recurrent=sum(states) * _F32,
        compute=_compute(model, positions, n_ubatch, max(widths, default=0), n_logits),
    )


def _rows(model: GGUFModel, name: str) -> int:
    """Length of the vectors that the matrix ``name`` makes; 0 if there is none."""
    tensor = model.tensors.get(name)
    return tensor.shape[1] if tensor is not None and len(tensor.shape) > 1 else 0


def _kv_width(model: GGUFModel, layer: int) -> int:
    """Elements of keys and values together that one position of a layer leaves behind."""
    latent = _rows(model, f"blk.{layer}.attn_kv_a_mqa.weight")
    if latent:
        if model.has("attention.key_length_mla"):
            return latent
        heads = model.get_int("attention.head_count", 0)
        return heads * (
            model.get_int("attention.key_length", 0) + model.get_int("attention.value_length", 0)
        )
    keys = _rows(model, f"blk.{layer}.attn_k.weight")
    # A layer with keys and no values uses its keys as values.
    return keys + (_rows(model, f"blk.{layer}.attn_v.weight") or keys)


def _state_elements(model: GGUFModel, layer: int) -> int:
    """Elements of what a recurrent layer carries from token to token."""
    short = model.tensors.get(f"blk.{layer}.shortconv.conv.weight")
    if short is not None and len(short.shape) > 1:
        return (short.shape[0] - 1) * short.shape[1]
    conv = model.tensors.get(f"blk.{layer}.ssm_conv1d.weight")
    if conv is None or len(conv.shape) < 2:
        return 0
    state = model.get_int("ssm.state_size", 0) * model.get_int("ssm.inner_size", 0)
    return (conv.shape[0] - 1) * conv.shape[1] + state


def _compute(model: GGUFModel, positions: int, n_ubatch: int, kv_width: int, n_logits: int) -> int:
    """Activations that are alive at once in the widest step, and its logits, computed and kept."""
    width = model.get_int("embedding_length", 0)
    used = model.get_int("expert_used_count", 1)
    hidden = model.get_int("expert_feed_forward_length", model.get_int("feed_forward_length", 0))
    tokens = model.metadata.get("tokenizer.ggml.tokens")
    vocabulary = (
        len(tokens) if tokens is not None and not isinstance(tokens, (bool, int, float, str)) else 0
    )
    inner = model.get_int("ssm.inner_size", 0)
    per_token = used * (2 * hidden + width) + 4 * width + 2 * (kv_width + inner) + positions
    return (n_ubatch * per_token + 2 * n_logits * vocabulary) * _F32
