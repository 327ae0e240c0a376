"""Muon for weight matrices (experts as a batch of matrices), AdamW for everything else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

_NEWTON_SCHULZ = ((4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
                  (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012))  # fmt: skip


def orthogonalize(matrix: Tensor) -> Tensor:
    """Approximate polar factor of ``matrix [..., m, n]`` by Newton-Schulz iterations."""
    transpose = matrix.shape[-2] > matrix.shape[-1]
    x = matrix.mT if transpose else matrix
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for a, b, c in _NEWTON_SCHULZ:
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.mT if transpose else x


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised; the step has the RMS of an AdamW step at the same rate."""

    def __init__(
        self, params: Iterable[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.1
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update."""
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["momentum"] = torch.zeros_like(weight)
                buffer = state["momentum"].lerp_(weight.grad, 1 - group["momentum"])
                update = orthogonalize(weight.grad.lerp(buffer, group["momentum"]))
                scale = 0.2 * max(weight.shape[-2:]) ** 0.5
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(update, alpha=-group["lr"] * scale)


def _share_out(weights: Sequence[Tensor], workers: int) -> list[list[Tensor]]:
    """Split a list into parts of about the same number of elements."""
    parts: list[list[Tensor]] = [[] for _ in range(workers)]
    for weight in sorted(weights, key=lambda w: -w.numel()):
        min(parts, key=lambda part: sum(w.numel() for w in part)).append(weight)
    return parts


def make_optimizers(
    model: nn.Module, learning_rate: float, rank: int, workers: int
) -> list[torch.optim.Optimizer]:
    """This worker's part: Muon on hidden matrices, AdamW on experts, tables and vectors.

    Orthogonalising every expert would cost more time than it gains at this batch size.
    """
    muon, decayed, plain = [], [], []
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
        is_hidden = weight.ndim == 2 and min(weight.shape) > 4 and "router" not in name
        if is_hidden and name not in ("embedding.weight", "head.weight"):
            muon.append(weight)
        elif weight.ndim >= 2 and not name.endswith("conv"):
            decayed.append(weight)
        else:
            plain.append(weight)
    mine = [_share_out(group, workers)[rank] for group in (muon, decayed, plain)]
    adam = torch.optim.AdamW(
        [{"params": mine[1], "weight_decay": 0.1}, {"params": mine[2], "weight_decay": 0.0}],
        lr=learning_rate,
        betas=(0.9, 0.95),
        fused=True,
    )
    return [adam, Muon(mine[0], lr=learning_rate)]
