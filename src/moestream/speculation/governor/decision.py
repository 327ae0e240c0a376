"""How far to draft, and how much of it to verify: renewal-reward, decided as an optimal stopping.

A step that takes time ``t`` and confirms ``n`` tokens renews the process, so the long-run rate is
``E[n] / E[t]`` and what maximises it maximises ``E[n] - rate * E[t]`` at the best rate there is
(Dinkelbach). Everything here is in that currency: costs are priced in tokens, at the rate at which
the text is going, and a row is worth verifying while the *cumulative* probability that it is
confirmed exceeds what it costs (the marginal rule of EVICT, arXiv:2605.00342; SpecDec++,
arXiv:2405.19715, derives the same threshold). Costs per row are not convex (four rows of a small
kernel can cost hardly more than three), so all widths are compared, not only the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["DraftValue", "best_cut", "break_even"]

Vector = NDArray[np.float64]

_POINTS: Final = 13
_LEAST: Final = 0.02
#: Cumulative survival on a geometric grid, falling from 1.
_ALIVE: Final = np.geomspace(1.0, _LEAST, _POINTS)
_RISING: Final = _ALIVE[::-1].copy()
_STEP: Final = -log(_LEAST) / (_POINTS - 1)


def best_cut(alive: Sequence[float], cost: Sequence[float], most: int) -> tuple[int, float]:
    """How many drafts to verify, and what that brings over a plain step.

    Args:
        alive: probability that each draft is confirmed, and so those before it.
        cost: ``cost[v]`` tokens that the decode with ``v`` drafts costs more than a plain one.
        most: verify no more than this.
    """
    best, brings, total = 0, 0.0, 0.0
    for count in range(min(most, len(alive))):
        total += alive[count]
        net = total - cost[count + 1]
        if net > brings:
            best, brings = count + 1, net
    return best, brings


class DraftValue:
    """What going on with a draft is worth, by how many there are and how sure they are.

    Backward induction over ``value[k](alive)``: with ``k`` drafts made that all survive with
    probability ``alive``, making another costs ``draft[k]`` for certain; what the head says of it
    is then known, and the row is verified only where that pays:

        value[k](a) = max(0, -draft[k] + sum_b f_b * max(0, a p_bk - row[k] + value[k+1](a p_bk)))

    with ``f_b`` the frequency of the head saying ``b`` and ``p_bk`` what it means.
    Zero means stop.
    """

    __slots__ = ("_values", "begin")

    def __init__(
        self, survival: Vector, bins: Vector, draft: Sequence[float], row: Sequence[float]
    ) -> None:
        """Work it out.

        Args:
            survival: ``[bins, width]``, the probability that a draft in a bin is confirmed.
            bins: frequency of the bins.
            draft: tokens that each further draft costs.
            row: tokens that each further row costs.
        """
        width = survival.shape[1]
        after: Vector = np.zeros(_POINTS)  # on the rising grid
        values = [after]
        #: What the first draft brings, below zero where it does not pay.
        self.begin = 0.0
        for k in range(width - 1, -1, -1):
            alive = _RISING[:, None] * survival[:, k]
            worth = alive - row[k]
            if k + 1 < width:
                worth += np.interp(alive, _RISING, after)
            net = np.maximum(worth, 0.0) @ bins - draft[k]
            self.begin = float(net[-1])
            after = np.maximum(net, 0.0)
            values.append(after)
        self._values = [value.tolist() for value in reversed(values)]

    def at(self, made: int, alive: float) -> float:
        """Tokens that going on is expected to bring, after ``made`` drafts that sure."""
        if made >= len(self._values) - 1 or alive < _LEAST:
            return 0.0
        values = self._values[made]
        place = _POINTS - 1 + log(alive) / _STEP
        low = min(int(place), _POINTS - 2)
        share = min(place - low, 1.0)
        # Linear in the logarithm: close enough on a grid this fine, and the sign is what counts.
        return float(values[low] * (1.0 - share) + values[low + 1] * share)


def break_even(cost: Sequence[float]) -> float | None:
    """The acceptance above which some width pays, if every draft had the same.

    Args:
        cost: ``cost[v]`` tokens that ``v`` drafts cost more than none, drafting included.

    Returns:
        The probability, or ``None`` if no width would pay even if everything were accepted.
    """
    low: float | None = None
    for count in range(1, len(cost)):
        if count <= cost[count]:
            continue
        lower, upper = 0.0, 1.0
        for _ in range(20):
            middle = (lower + upper) / 2
            gain = sum(middle**k for k in range(1, count + 1))
            lower, upper = (middle, upper) if gain < cost[count] else (lower, middle)
        low = upper if low is None else min(low, upper)
    return low
