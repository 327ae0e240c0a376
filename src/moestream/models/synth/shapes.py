"""The shapes there are to make."""

from __future__ import annotations

from dataclasses import dataclass, replace

from moestream.gguf.types import GGMLType

__all__ = ["SHAPES", "GiantShape"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GiantShape:
    """Everything that fixes the size of a hybrid ``qwen35moe`` model.

    ``layers`` counts the trunk; one multi-token-prediction block comes on top.
    """

    name: str
    layers: int
    n_embd: int
    n_vocab: int
    n_expert: int
    n_expert_used: int
    n_ff: int
    heads: int
    kv_heads: int
    head_dim: int
    rotary: int
    rope_sections: tuple[int, int, int, int]
    state: int
    key_heads: int
    value_heads: int
    conv: int
    attention_interval: int
    context: int
    expert_type: GGMLType = GGMLType.Q4_K
    dense_type: GGMLType = GGMLType.Q6_K
    embedding_type: GGMLType = GGMLType.Q8_0

    def with_layers(self, layers: int) -> GiantShape:
        """Return the same shape with fewer (or more) trunk layers."""
        return replace(self, layers=layers)


#: By the name given on the command line.
SHAPES: dict[str, GiantShape] = {
    "qwen36-35b": GiantShape(
        name="qwen36-35b",
        layers=40,
        n_embd=2048,
        n_vocab=248_320,
        n_expert=256,
        n_expert_used=8,
        n_ff=512,
        heads=16,
        kv_heads=2,
        head_dim=256,
        rotary=64,
        rope_sections=(11, 11, 10, 0),
        state=128,
        key_heads=16,
        value_heads=32,
        conv=4,
        attention_interval=4,
        context=262_144,
    ),
}
