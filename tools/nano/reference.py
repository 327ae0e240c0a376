"""Write what torch computes on held-out windows, for ``compare.py`` to hold llama.cpp against.

python reference.py --checkpoint BUILD/head/checkpoint.pt --data BUILD/data --out ref.npz
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from checkpoint import load_model
from data import held_out_windows, read_tokens
from model import rotary_table, shift_right


@torch.no_grad()
def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--windows", type=int, default=16)
    arguments = parser.parse_args()
    model = load_model(arguments.checkpoint)
    tokens = held_out_windows(
        read_tokens(arguments.data / "focus_held_out.bin"), length=256, count=arguments.windows
    )
    embedding, hidden = model.trunk(tokens[:, :-1])
    rotary = rotary_table(model.config, tokens.shape[1] - 1)
    drafted = model.mtp(embedding, shift_right(hidden), rotary)
    np.savez(
        arguments.out,
        tokens=tokens.numpy(),
        hidden=hidden.numpy(),
        logits=model.head(hidden).numpy(),
        mtp_logits=model.head(drafted).numpy(),
    )


if __name__ == "__main__":
    main()
