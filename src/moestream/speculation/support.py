"""Whether a model can draft with a multi-token-prediction block of its own: read off its header."""

from __future__ import annotations

from moestream.errors import UnsupportedModelError
from moestream.gguf.model import GGUFModel, shown
from moestream.gguf.nextn import missing_nextn_tensors, nextn_layers

__all__ = ["MTP_ARCHITECTURES", "check_mtp"]

#: Architectures whose block llama.cpp can run in a context of its own, and that are tested here.
MTP_ARCHITECTURES = ("deepseek2", "glm4moe", "qwen35moe", "qwen3next")

#: Of the decoder layer in it, those that every one of these architectures has.
_LAYER_TENSORS = ("attn_norm.weight", "ffn_gate_inp.weight")
_ADVICE = "speculate with --ngram, or use a GGUF that was converted with its MTP block"


def check_mtp(model: GGUFModel) -> None:
    """Refuse a model that cannot draft by itself.

    Raises:
        UnsupportedModelError: it has no block, not all of it, more than one, or an architecture
            whose block cannot be run.
    """
    path = shown(model.paths[0])
    claimed = model.get_int("nextn_predict_layers", 0)
    if claimed == 0:
        raise UnsupportedModelError(
            f"{path} has no multi-token-prediction (nextn) block to draft with; {_ADVICE}"
        )
    if model.architecture not in MTP_ARCHITECTURES:
        raise UnsupportedModelError(
            f"{path} has a multi-token-prediction block, but those of architecture "
            f"{shown(model.architecture)} cannot be run; supported are "
            f"{', '.join(MTP_ARCHITECTURES)}. Speculate with --ngram"
        )
    if claimed > 1:
        raise UnsupportedModelError(
            f"{path} has {claimed} chained multi-token-prediction blocks; only models with one "
            "can draft with it. Speculate with --ngram"
        )
    missing = missing_nextn_tensors(model) + tuple(
        name
        for layer in nextn_layers(model)
        for part in _LAYER_TENSORS
        if (name := f"blk.{layer}.{part}") not in model.tensors
    )
    if missing:
        raise UnsupportedModelError(
            f"{path} claims a multi-token-prediction block but lacks {missing[0]}"
            + (f" and {len(missing) - 1} more of its tensors" if len(missing) > 1 else "")
            + "; the file is not complete, use one that was converted with its MTP block"
        )
