"""The shape of moestream-nano: one frozen dataclass that every other module reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ModelConfig:
    """Hyper-parameters of a small ``qwen35moe`` model, named as the GGUF keys are."""

    vocab_size: int = 1024
    embedding_length: int = 192
    block_count: int = 6
    """Trunk layers only; the GGUF key also counts the MTP block."""
    full_attention_interval: int = 3

    head_count: int = 4
    head_count_kv: int = 2
    head_dim: int = 64
    rope_dim: int = 32
    rope_base: float = 10000.0
    rope_sections: tuple[int, int, int, int] = (6, 5, 5, 0)
    """Pairs per position axis: they must sum to ``rope_dim / 2`` *and* fit the interleave."""

    ssm_state: int = 32
    ssm_key_heads: int = 2
    ssm_value_heads: int = 4
    ssm_conv: int = 4
    ssm_chunk: int = 32

    expert_count: int = 16
    expert_used_count: int = 2
    expert_ff: int = 128
    shared_ff: int = 128

    rms_eps: float = 1e-6

    @property
    def ssm_key_width(self) -> int:
        """Width of all delta-net keys (and of all queries)."""
        return self.ssm_state * self.ssm_key_heads

    @property
    def ssm_inner(self) -> int:
        """Width of all delta-net values."""
        return self.ssm_state * self.ssm_value_heads

    def is_full_attention(self, layer: int) -> bool:
        """Every ``full_attention_interval``-th layer attends; the others are delta nets."""
        return (layer + 1) % self.full_attention_interval == 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ModelConfig:
        """Inverse of :meth:`to_dict`."""
        return cls(**{**data, "rope_sections": tuple(data["rope_sections"])})
