"""Train trunk and MTP head together: warm-up, a stable phase, then linear decay.

    python train.py --data BUILD/data --run BUILD/run

From ``--focus-step`` on the second, narrower training stream is read. The stable phase ends at
``--stable-steps`` or as soon as a file named ``DECAY`` lies in the run folder (its text, if any,
is the number of decay steps). All phases count steps, none counts seconds, so the process may be
paused, killed and continued at will: it resumes from the last checkpoint. A new run may begin with
the weights of another (``--start``); its optimiser and its schedule are new.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from checkpoint import Curve, load_model
from config import ModelConfig
from data import Windows, held_out_windows, read_tokens
from model import NanoModel, kl_to_trunk, rotary_table, shift_right
from parallel import Team, launch
from schedule import Schedule
from trainer import Trainer

SEED = 7
HELD_OUT_WINDOWS = 64
MTP_WEIGHT = 0.5
BALANCE_WEIGHT = 0.01


@dataclass
class Losses:
    """What one forward pass gives."""

    trunk: Tensor
    mtp_kl: Tensor
    balance: Tensor
    agreement: Tensor

    @property
    def total(self) -> Tensor:
        """What is minimised."""
        return self.trunk + MTP_WEIGHT * self.mtp_kl + BALANCE_WEIGHT * self.balance


def compute_losses(model: NanoModel, windows: Tensor, mtp_rows: int) -> Losses:
    """Next-token loss on all rows; the MTP head learns the trunk's answer on the first rows."""
    tokens, targets = windows[:, :-1], windows[:, 1:]
    embedding, hidden = model.trunk(tokens)
    logits = model.head(hidden)
    trunk = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    rotary = rotary_table(model.config, tokens.shape[1])
    previous = shift_right(hidden[:mtp_rows])
    mtp_logits = model.head(model.mtp(embedding[:mtp_rows], previous, rotary))
    agreement = (mtp_logits.argmax(-1) == logits[:mtp_rows].argmax(-1)).float().mean()
    return Losses(
        trunk=trunk,
        mtp_kl=kl_to_trunk(mtp_logits, logits[:mtp_rows]),
        balance=model.balance_loss() + model.mtp.block.moe.balance_loss,
        agreement=agreement,
    )


@torch.no_grad()
def evaluate(model: NanoModel, windows: Tensor) -> tuple[float, float, float]:
    """Held-out loss, MTP divergence and agreement."""
    rows = []
    for part in windows.split(16):
        losses = compute_losses(model, part, mtp_rows=len(part))
        rows.append(torch.stack([losses.trunk, losses.mtp_kl, losses.agreement]) * len(part))
    loss, divergence, agreement = (torch.stack(rows).sum(0) / len(windows)).tolist()
    return loss, divergence, agreement


class Reporter:
    """Means of the last steps and held-out figures, printed and added to ``curve.csv``."""

    COLUMNS = (
        "step", "tokens", "phase", "learning_rate", "train_loss", "mtp_kl", "balance",
        "held_out_loss", "held_out_mtp_kl", "head_agreement", "tokens_per_second",
    )  # fmt: skip

    def __init__(self, trainer: Trainer, held_out: Tensor, folder: Path, step_tokens: int) -> None:
        self.trainer, self.held_out, self.step_tokens = trainer, held_out, step_tokens
        self.curve = Curve(folder / "curve.csv", self.COLUMNS, trainer.step)
        self._recent: list[Tensor] = []
        self._since = time.monotonic()

    def note(self, losses: Losses) -> None:
        """Remember a step."""
        row = torch.stack([losses.trunk, losses.mtp_kl, losses.balance])
        self._recent.append(row.detach())

    def report(self, with_held_out: bool) -> None:
        """Write a row."""
        loss, divergence, balance = torch.stack(self._recent).mean(0).tolist()
        speed = len(self._recent) * self.step_tokens / (time.monotonic() - self._since)
        step = self.trainer.step
        phase = self.trainer.schedule.phase(step - 1)
        held_out = [""] * 3
        if with_held_out:
            held_out = [f"{x:.4f}" for x in evaluate(self.trainer.model, self.held_out)]
        self.curve.add(
            step=step,
            tokens=step * self.step_tokens,
            phase=phase,
            learning_rate=f"{self.trainer.rate:.3e}",
            train_loss=f"{loss:.4f}",
            mtp_kl=f"{divergence:.4f}",
            balance=f"{balance:.4f}",
            held_out_loss=held_out[0],
            held_out_mtp_kl=held_out[1],
            head_agreement=held_out[2],
            tokens_per_second=f"{speed:.0f}",
        )
        text = f"{step} {phase} loss {loss:.3f} mtp {divergence:.3f} {speed:.0f} tokens/s"
        if with_held_out:
            text += f" | held out: loss {held_out[0]}, agreement {held_out[2]}"
        print(text, flush=True)
        self._recent, self._since = [], time.monotonic()


def watch_for_decay(trainer: Trainer, signal: Path, stable_steps: int) -> None:
    """Start the decay if it is due or asked for, at the same step in all workers."""
    schedule = trainer.schedule
    if schedule.decay_start is not None:
        return
    if trainer.team.agree(signal.exists()):
        text = signal.read_text().strip()
        schedule.decay_start = trainer.step
        schedule.decay_steps = int(text) if text else schedule.decay_steps
    elif trainer.step >= stable_steps:
        schedule.decay_start = trainer.step


def train(team: Team, model: NanoModel, arguments: argparse.Namespace) -> None:
    """Run until the decay is over (in every worker)."""
    run, length, batch = arguments.run, arguments.length, arguments.batch
    schedule = Schedule(arguments.learning_rate, arguments.warmup_steps, arguments.decay_steps)
    trainer = Trainer(team, model, schedule, run, arguments.save_seconds)
    broad = Windows(read_tokens(arguments.data / "broad.bin"), length, batch, arguments.seed)
    focus = Windows(read_tokens(arguments.data / "focus.bin"), length, batch, arguments.seed)
    held_out_tokens = read_tokens(arguments.data / "focus_held_out.bin")
    held_out = held_out_windows(held_out_tokens, length, HELD_OUT_WINDOWS)
    reporter = Reporter(trainer, held_out, run, batch * length) if team.is_leader else None
    if reporter:
        count = sum(p.numel() for p in model.parameters())
        print(f"{count / 1e6:.2f} M parameters, from step {trainer.step}", flush=True)

    while trainer.step < arguments.max_steps:
        watch_for_decay(trainer, run / "DECAY", arguments.stable_steps)
        if schedule.finished(trainer.step):
            break
        batches = broad if trainer.step < arguments.focus_step else focus
        rows = team.share(batches.at(trainer.step))
        losses = compute_losses(model, rows, arguments.mtp_rows // team.size)
        trainer.update(losses.total)
        if reporter:
            reporter.note(losses)
            if trainer.step % arguments.report_every == 0:
                reporter.report(with_held_out=trainer.step % arguments.evaluate_every == 0)
        trainer.save_if_due()

    trainer.save()
    if reporter:
        loss, _, agreement = evaluate(model, held_out)
        print(f"done at {trainer.step}: held-out loss {loss:.4f}, agreement {agreement:.4f}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="checkpoint whose weights a new run begins with")
    parser.add_argument("--seed", type=int, default=SEED, help="of the order of the windows")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--mtp-rows", type=int, default=4, help="rows of a batch for the MTP loss")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--warmup-steps", type=int, default=60)
    parser.add_argument("--focus-step", type=int, default=725)
    parser.add_argument("--stable-steps", type=int, default=3000)
    parser.add_argument("--decay-steps", type=int, default=1200)
    parser.add_argument("--max-steps", type=int, default=10**9)
    parser.add_argument("--report-every", type=int, default=25)
    parser.add_argument("--evaluate-every", type=int, default=200)
    parser.add_argument("--save-seconds", type=float, default=120)
    arguments = parser.parse_args()
    arguments.run.mkdir(parents=True, exist_ok=True)
    checkpoint = arguments.run / "checkpoint.pt"
    torch.manual_seed(SEED)
    weights = checkpoint if checkpoint.exists() else arguments.start
    model = load_model(weights) if weights else NanoModel(ModelConfig())
    launch(train, model, arguments, arguments.workers, arguments.run)


if __name__ == "__main__":
    main()
