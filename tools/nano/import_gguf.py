"""Turn an exported GGUF back into a checkpoint without an optimiser, to train it further.

    python import_gguf.py moestream-nano.gguf --out BUILD/start.pt

Weights stored as Q8_0 come back rounded to 8 bits, which the next update outweighs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import numpy as np
import torch

from checkpoint import save_atomically
from config import ModelConfig
from export import all_tensors
from model import NanoModel


def import_gguf(path: Path) -> NanoModel:
    """The model of a file that :func:`export.export` wrote (with the default shape)."""
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    model = NanoModel(ModelConfig())
    weights = dict(model.state_dict())
    a_logs = {f"blk.{i}.ssm_a": f"blocks.{i}.mixer.a_log" for i in range(model.config.block_count)}
    for name, view, _ in all_tensors(weights, model.config):
        tensor = stored.pop(name)
        data = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = torch.from_numpy(data).reshape(view.shape)
        if name in a_logs:  # the one tensor that the export computes: -exp(a_log)
            weights[a_logs[name]].copy_((-values).log())
        else:
            view.copy_(values)
    assert not stored, f"{path} holds tensors that the export does not write: {sorted(stored)}"
    return model


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    model = import_gguf(arguments.model)
    save_atomically({"config": model.config.to_dict(), "model": model.state_dict()}, arguments.out)


if __name__ == "__main__":
    main()
