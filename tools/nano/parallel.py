"""Two single-threaded workers on one set of weights.

The matrices of this model are so small that a second thread inside one process gains little; a
second process nearly doubles the speed. The weights live in shared memory, each worker computes
gradients on its rows of the batch, and each updates its part of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn


class Team:
    """What a worker knows of the others: the shared gradients, and when all have arrived."""

    def __init__(self, rank: int, gradients: Tensor, parameters: list[nn.Parameter]) -> None:
        self.rank, self.size, self._gradients = rank, len(gradients), gradients
        sizes = [p.numel() for p in parameters]
        for parameter, part in zip(parameters, gradients[rank].split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)

    @property
    def is_leader(self) -> bool:
        """Whether this worker reports and saves."""
        return self.rank == 0

    def share(self, batch: Tensor) -> Tensor:
        """This worker's rows of a batch."""
        return batch.chunk(self.size)[self.rank]

    def wait(self) -> None:
        """Go on only when every worker is here."""
        dist.barrier()

    def clear_gradients(self) -> None:
        """Zero this worker's gradients."""
        self._gradients[self.rank].zero_()

    def average_gradients(self, clip: float) -> None:
        """Give all workers the mean gradient, scaled down to the norm ``clip`` if it is longer."""
        self.wait()
        parts = [g.chunk(self.size)[self.rank] for g in self._gradients]
        mean = torch.stack(parts).mean(0)
        square = mean.square().sum()
        dist.all_reduce(square)
        mean *= (clip / (square.sqrt() + 1e-6)).clamp(max=1.0)
        for part in parts:
            part.copy_(mean)
        self.wait()

    def agree(self, flag: bool) -> bool:
        """The leader's opinion, for all (so that all act at the same step)."""
        decision = torch.tensor([int(flag)])
        dist.broadcast(decision, 0)
        return bool(decision.item())

    def gather(self, value: Any) -> list[Any] | None:
        """The leader gets every worker's value, the others ``None``."""
        values: list[Any] | None = [None] * self.size if self.is_leader else None
        dist.gather_object(value, values)
        return values


Work = Callable[[Team, Any, Any], None]


def _run_worker(
    rank: int, rendezvous: str, gradients: Tensor, model: nn.Module, job: tuple[Work, Any]
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{rendezvous}",
        rank=rank,
        world_size=len(gradients),
        timeout=timedelta(days=7),  # the whole group may be paused with SIGSTOP for long
    )
    trained = [p for p in model.parameters() if p.requires_grad]
    work, arguments = job
    work(Team(rank, gradients, trained), model, arguments)
    dist.destroy_process_group()


def launch(work: Work, model: nn.Module, arguments: Any, workers: int, folder: Path) -> None:
    """Run ``work(team, model, arguments)`` in ``workers`` processes that share the model."""
    rendezvous = (folder / "rendezvous").resolve()
    rendezvous.unlink(missing_ok=True)
    model.share_memory()
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    gradients = torch.zeros(workers, count).share_memory_()
    spawn(_run_worker, (str(rendezvous), gradients, model, (work, arguments)), nprocs=workers)
