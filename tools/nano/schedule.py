"""The learning rate as a function of the step: warm-up, stable, decay."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Schedule:
    """Linear warm-up, flat until told otherwise, then linear decay to a floor."""

    peak: float
    warmup_steps: int
    decay_steps: int
    decay_start: int | None = None
    """``None`` while nobody has ended the stable phase."""
    floor: float = 0.02

    def rate(self, step: int) -> float:
        """The learning rate at ``step``."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / self.warmup_steps
        if self.decay_start is None or step < self.decay_start:
            return self.peak
        done = (step - self.decay_start) / self.decay_steps
        return self.peak * max(self.floor, 1 - (1 - self.floor) * done)

    def phase(self, step: int) -> str:
        """The name of the phase at ``step``."""
        if step < self.warmup_steps:
            return "warm-up"
        return "stable" if self.decay_start is None or step < self.decay_start else "decay"

    def finished(self, step: int) -> bool:
        """Whether the decay is over."""
        return self.decay_start is not None and step >= self.decay_start + self.decay_steps
