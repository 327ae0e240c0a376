"""Held-out figures of a checkpoint: loss by source, bits per character, agreement of the head.

python evaluate.py --checkpoint BUILD/head/checkpoint.pt --data BUILD/data --out figures.json
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from checkpoint import load_model
from data import held_out_windows, read_tokens
from model import NanoModel
from tune_head import run_chain

LENGTH = 256


def consecutive_windows(tokens: Tensor) -> Tensor:
    """The whole stream in windows of ``LENGTH + 1`` that overlap by the one predicted token."""
    if len(tokens) <= LENGTH:
        return tokens[None]
    return tokens.unfold(0, LENGTH + 1, LENGTH)


@torch.no_grad()
def mean_loss(model: NanoModel, windows: Tensor) -> float:
    """Nats a token."""
    total = 0.0
    for part in windows.split(16):
        _, hidden = model.trunk(part[:, :-1])
        logits = model.head(hidden)
        total += F.cross_entropy(
            logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum"
        ).item()
    return total / windows[:, 1:].numel()


@torch.no_grad()
def agreement(model: NanoModel, windows: Tensor) -> list[float]:
    """Share of rows where the head names the trunk's top choice, at chain steps 1, 2, 3."""
    parts = [torch.stack(run_chain(model, part)[1]) * len(part) for part in windows.split(16)]
    result: list[float] = (torch.stack(parts).sum(0) / len(windows)).tolist()
    return result


def figures(model: NanoModel, tokenizer: Tokenizer, tokens: Tensor) -> dict[str, float]:
    """Loss by token and by character."""
    loss = mean_loss(model, consecutive_windows(tokens))
    characters = len(tokenizer.decode(tokens.tolist(), skip_special_tokens=True))
    per_token = characters / len(tokens)
    return {
        "nats_per_token": round(loss, 4),
        "bits_per_character": round(loss / math.log(2) / per_token, 4),
        "tokens": len(tokens),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    model = load_model(arguments.checkpoint)
    tokenizer = Tokenizer.from_file(str(arguments.data / "tokenizer.json"))
    everything = read_tokens(arguments.data / "held_out.bin")
    focus = read_tokens(arguments.data / "focus_held_out.bin")
    sources = {
        path.stem: figures(model, tokenizer, read_tokens(path))
        for path in sorted((arguments.data / "held_out").glob("*.bin"))
    }
    chained = agreement(model, held_out_windows(focus, LENGTH, count=128))
    result = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "held_out": figures(model, tokenizer, focus),
        "held_out_with_sources_of_the_first_stream_only": figures(model, tokenizer, everything),
        "head_agreement_at_draft_1_2_3": [round(a, 4) for a in chained],
        "by_source": sources,
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
