"""What both trainings share: one update by all workers, checkpoints, resuming."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import Tensor

from checkpoint import save_atomically
from model import NanoModel
from optimizer import make_optimizers
from parallel import Team
from schedule import Schedule

GRADIENT_NORM = 1.0


class Trainer:
    """A model in training, seen from one worker; resumes from ``checkpoint.pt`` of its folder."""

    def __init__(
        self, team: Team, model: NanoModel, schedule: Schedule, folder: Path, save_seconds: float
    ) -> None:
        self.team, self.model, self.schedule = team, model, schedule
        self.checkpoint = folder / "checkpoint.pt"
        self.optimizers = make_optimizers(model, schedule.peak, team.rank, team.size)
        self.step = 0
        self._save_seconds, self._last_save = save_seconds, time.monotonic()
        if self.checkpoint.exists():
            self._resume()

    def _resume(self) -> None:
        saved = torch.load(self.checkpoint, weights_only=True)
        states = saved["optimizers"][self.team.rank]
        for optimizer, state in zip(self.optimizers, states, strict=True):
            optimizer.load_state_dict(state)
        self.step = saved["step"]
        self.schedule.decay_start = saved["decay_start"]
        self.schedule.decay_steps = saved["decay_steps"]

    @property
    def rate(self) -> float:
        """The learning rate of the next update."""
        return self.schedule.rate(self.step)

    def update(self, loss: Tensor) -> None:
        """One step down the gradient of ``loss`` (each worker has its own), averaged."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.rate
        self.team.clear_gradients()
        loss.backward()
        self.team.average_gradients(GRADIENT_NORM)
        for optimizer in self.optimizers:
            optimizer.step()
        self.team.wait()
        self.step += 1

    def save(self) -> None:
        """Write a checkpoint (all workers must call this at the same step)."""
        states = self.team.gather([optimizer.state_dict() for optimizer in self.optimizers])
        if states is not None:
            save_atomically(
                {
                    "config": self.model.config.to_dict(),
                    "model": self.model.state_dict(),
                    "optimizers": states,
                    "step": self.step,
                    "decay_start": self.schedule.decay_start,
                    "decay_steps": self.schedule.decay_steps,
                },
                self.checkpoint,
            )
        self._last_save = time.monotonic()

    def save_if_due(self) -> None:
        """Write a checkpoint if the last one is old."""
        if self.team.agree(time.monotonic() - self._last_save > self._save_seconds):
            self.save()
