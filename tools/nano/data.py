"""Batches as a pure function of the step: nothing to store for a resume, nothing to drift."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor


def read_tokens(path: Path) -> Tensor:
    """A ``.bin`` file of 16-bit ids."""
    return torch.from_numpy(np.fromfile(path, dtype=np.uint16).astype(np.int64))


class Windows:
    """Non-overlapping windows in a new seeded order (and at a new offset) every epoch."""

    def __init__(self, tokens: Tensor, length: int, batch: int, seed: int) -> None:
        self.tokens, self.length, self.batch, self.seed = tokens, length, batch, seed
        self.steps_per_epoch = (len(tokens) // (length + 1) - 1) // batch
        self._epoch = -1
        self._starts = torch.empty(0)

    def at(self, step: int) -> Tensor:
        """The batch ``[batch, length + 1]`` of a step."""
        epoch, index = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self.seed + epoch)
            offset = torch.randint(0, self.length, (1,), generator=generator)
            count = self.steps_per_epoch * self.batch
            order = torch.randperm(count, generator=generator)
            self._starts, self._epoch = order * (self.length + 1) + offset, epoch
        starts = self._starts[index * self.batch : (index + 1) * self.batch]
        return torch.stack([self.tokens[s : s + self.length + 1] for s in starts.tolist()])


def held_out_windows(tokens: Tensor, length: int, count: int) -> Tensor:
    """``count`` windows ``[count, length + 1]`` spread evenly over the held-out stream."""
    last = max(len(tokens) - length - 1, 0)
    starts = torch.linspace(0, last, count).long() if last else torch.zeros(1, dtype=torch.long)
    return torch.stack([tokens[s : s + length + 1] for s in starts.tolist()])
