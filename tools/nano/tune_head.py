"""Tune the MTP head alone, run as a draft chain runs it: three steps, each fed by the last.

    python tune_head.py --data BUILD/data --trained BUILD/run/checkpoint.pt --run BUILD/head

The trunk is frozen. At chain step s the head at row r sees the keys of true hidden rows up to
r - s and, after them, its own keys of the steps before: exactly the cache of a draft context.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from checkpoint import Curve, load_model
from data import Windows, held_out_windows, read_tokens
from model import (
    Attention,
    KeyValue,
    NanoModel,
    Rotary,
    kl_to_trunk,
    rms_norm,
    rotary_table,
    shift_right,
)
from parallel import Team, launch
from schedule import Schedule
from train import BALANCE_WEIGHT, HELD_OUT_WINDOWS, SEED
from trainer import Trainer

STEP_WEIGHTS = (1.0, 0.7, 0.5)
WARMUP_STEPS = 30


def shift_down(rows: Tensor, by: int) -> Tensor:
    """Move the time axis (the last but one) down, zeros on top."""
    return F.pad(rows, (0, 0, by, 0))[..., : rows.shape[-2], :]


def chained_attention(
    attention: Attention, x: Tensor, rotary: Rotary, earlier: list[KeyValue]
) -> tuple[Tensor, KeyValue]:
    """One chain step of the head's attention; ``earlier`` holds the keys of the steps before."""
    query, gate, (key, value) = attention.project(x, rotary)
    step = len(earlier)
    if step == 0:
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return attention.finish(attended, gate), (key, value)

    true_key, true_value = earlier[0]
    time_steps, scale = query.shape[-2], query.shape[-1] ** -0.5
    visible = torch.ones(time_steps, time_steps, dtype=torch.bool).tril(-step)
    scores = [(query @ true_key.mT * scale).masked_fill(~visible, -1e9)]
    drafted_values = []
    for age, (k, v) in enumerate(reversed([*earlier[1:], (key, value)])):
        scores.append((query * shift_down(k, age)).sum(-1, keepdim=True) * scale)
        drafted_values.append(shift_down(v, age))
    weights = torch.cat(scores, -1).softmax(-1)
    attended = weights[..., :time_steps] @ true_value
    for column, v in enumerate(drafted_values, start=time_steps):
        attended = attended + weights[..., column : column + 1] * v
    return attention.finish(attended, gate), (key, value)


def run_chain(
    model: NanoModel, windows: Tensor, top_weight: float = 0.0
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Divergence and agreement of every chain step, and the sum of the balance losses.

    ``top_weight`` adds as much of the cross entropy with the trunk's top choice alone, which is all
    that a greedy verify asks for.
    """
    tokens, mtp = windows[:, :-1], model.mtp
    with torch.no_grad():
        embedding, hidden = model.trunk(tokens)
        target = model.head(hidden)
    answer = target.argmax(-1)
    rotary = rotary_table(model.config, tokens.shape[1])
    attention = mtp.block.mixer
    assert isinstance(attention, Attention)
    eps = model.config.rms_eps
    divergences, agreements, balance = [], [], torch.zeros(())
    earlier: list[KeyValue] = []
    for step in range(len(STEP_WEIGHTS)):
        x = mtp.join(embedding, shift_right(hidden))
        mixed, keys = chained_attention(
            attention, rms_norm(x, mtp.block.mixer_norm, eps), rotary, earlier
        )
        earlier.append(keys)
        hidden = rms_norm(mtp.block.feed_forward(x + mixed), mtp.head_norm, eps)
        logits = model.head(hidden)
        balance = balance + mtp.block.moe.balance_loss
        divergence = kl_to_trunk(logits[:, step:], target[:, step:])
        if top_weight:
            top = F.cross_entropy(logits[:, step:].flatten(0, 1), answer[:, step:].flatten())
            divergence = divergence + top_weight * top
        divergences.append(divergence)
        hits = (logits.argmax(-1) == answer)[:, step + 1 :]
        agreements.append(hits.float().mean().detach())
    return divergences, agreements, balance


@torch.no_grad()
def evaluate(model: NanoModel, windows: Tensor) -> tuple[float, list[float]]:
    """Held-out divergence at the first step and agreement at every step."""
    rows = []
    for part in windows.split(16):
        divergences, agreements, _ = run_chain(model, part)
        rows.append(torch.stack([divergences[0], *agreements]) * len(part))
    first, *agreement = (torch.stack(rows).sum(0) / len(windows)).tolist()
    return first, agreement


class Reporter:
    """Held-out figures, printed and added to ``curve.csv``."""

    COLUMNS = (
        "step", "tokens", "learning_rate", "train_kl", "held_out_kl",
        "agreement_1", "agreement_2", "agreement_3",
    )  # fmt: skip

    def __init__(self, trainer: Trainer, held_out: Tensor, folder: Path, step_tokens: int) -> None:
        self.trainer, self.held_out, self.step_tokens = trainer, held_out, step_tokens
        self.curve = Curve(folder / "curve.csv", self.COLUMNS, trainer.step)
        self.recent: list[float] = []

    def report(self) -> None:
        """Write a row."""
        step = self.trainer.step
        divergence, agreement = evaluate(self.trainer.model, self.held_out)
        figures = {f"agreement_{i}": f"{a:.4f}" for i, a in enumerate(agreement, 1)}
        mean = sum(self.recent) / len(self.recent) if self.recent else None
        self.curve.add(
            step=step,
            tokens=step * self.step_tokens,
            learning_rate=f"{self.trainer.rate:.3e}",
            train_kl=f"{mean:.4f}" if mean is not None else "",
            held_out_kl=f"{divergence:.4f}",
            **figures,
        )
        print(f"{step} held-out divergence {divergence:.4f}, {figures}", flush=True)
        self.recent = []


def tune(team: Team, model: NanoModel, arguments: argparse.Namespace) -> None:
    """Run all steps (in every worker)."""
    run, length, batch = arguments.run, arguments.length, arguments.batch
    schedule = Schedule(
        arguments.learning_rate, WARMUP_STEPS, arguments.steps - WARMUP_STEPS, WARMUP_STEPS
    )
    trainer = Trainer(team, model, schedule, run, arguments.save_seconds)
    batches = Windows(
        read_tokens(arguments.data / f"{arguments.stream}.bin"), length, batch, SEED + 1000
    )
    held_out_tokens = read_tokens(arguments.data / "focus_held_out.bin")
    held_out = held_out_windows(held_out_tokens, length, HELD_OUT_WINDOWS)
    reporter = Reporter(trainer, held_out, run, batch * length) if team.is_leader else None
    if reporter and trainer.step == 0:
        reporter.report()
    while not schedule.finished(trainer.step):
        divergences, _, balance = run_chain(
            model, team.share(batches.at(trainer.step)), arguments.top_weight
        )
        weighted = [w * d for w, d in zip(STEP_WEIGHTS, divergences, strict=True)]
        trainer.update(torch.stack(weighted).sum() + BALANCE_WEIGHT * balance)
        if reporter:
            reporter.recent.append(divergences[0].item())
            if trainer.step % arguments.report_every == 0:
                reporter.report()
        trainer.save_if_due()
    trainer.save()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--trained", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument(
        "--stream",
        choices=("broad", "focus"),
        default="focus",
        help="broad: mostly text that the trunk has not learnt by heart, as what it will meet",
    )
    parser.add_argument("--top-weight", type=float, default=0.0, help="see run_chain")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--steps", type=int, default=450)
    parser.add_argument("--report-every", type=int, default=50)
    parser.add_argument("--save-seconds", type=float, default=120)
    arguments = parser.parse_args()
    arguments.run.mkdir(parents=True, exist_ok=True)
    checkpoint = arguments.run / "checkpoint.pt"
    model = load_model(checkpoint if checkpoint.exists() else arguments.trained)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith("mtp."))
    launch(tune, model, arguments, arguments.workers, arguments.run)


if __name__ == "__main__":
    main()
