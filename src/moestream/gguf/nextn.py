"""Multi-token-prediction ("nextn") blocks: what a file claims, and what of it is there."""

from __future__ import annotations

from moestream.gguf.model import GGUFModel

__all__ = ["missing_nextn_tensors", "nextn_layers"]

#: What a block has besides a decoder layer's tensors.
_NEXTN_TENSORS = ("nextn.eh_proj.weight", "nextn.enorm.weight", "nextn.hnorm.weight")


def nextn_layers(model: GGUFModel) -> range:
    """Indices of the blocks that the metadata claim: the last ones."""
    n_block = max(model.get_int("block_count", 0), 0)
    claimed = min(max(model.get_int("nextn_predict_layers", 0), 0), n_block)
    return range(n_block - claimed, n_block)


def missing_nextn_tensors(model: GGUFModel) -> tuple[str, ...]:
    """Tensors that the claimed blocks must have and that are not in the files."""
    names = (f"blk.{layer}.{part}" for layer in nextn_layers(model) for part in _NEXTN_TENSORS)
    return tuple(name for name in names if name not in model.tensors)
