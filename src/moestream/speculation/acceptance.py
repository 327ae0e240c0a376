"""How many drafts are confirmed, and how often they were: pure rules and counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

__all__ = ["AcceptanceRule", "AcceptanceTally", "accepted_prefix", "synthetic_acceptance"]

#: From the drafts, and the target's own choice after the confirmed token and after each draft
#: (one more than there are drafts), to the number of drafts that are confirmed.
AcceptanceRule = Callable[[Sequence[int], Sequence[int]], int]

_SYNTHETIC_SEED = 20


def accepted_prefix(drafts: Sequence[int], best: Sequence[int]) -> int:
    """Length of the longest beginning of ``drafts`` that the target would have said itself.

    Greedy verification (Leviathan et al., arXiv:2211.17192, at temperature 0): ``best[i]`` is the
    target's argmax after the confirmed token and the first ``i`` drafts.

    >>> accepted_prefix([7, 8, 9], [7, 8, 1, 4])
    2
    """
    for count, (draft, own) in enumerate(zip(drafts, best, strict=False)):
        if draft != own:
            return count
    return min(len(drafts), len(best))


def synthetic_acceptance(probability: float) -> AcceptanceRule:
    """A rule for benchmarks that confirms each draft with ``probability``, whatever it is.

    As with real drafts, nothing after the first rejection is confirmed. The draws are the same in
    every session.
    """
    draw = random.Random(_SYNTHETIC_SEED).random

    def accept(drafts: Sequence[int], best: Sequence[int]) -> int:
        del best
        for count in range(len(drafts)):
            if draw() >= probability:
                return count
        return len(drafts)

    return accept


class AcceptanceTally:
    """Counts of one generation."""

    __slots__ = ("accepted", "accepted_at", "drafted", "drafted_steps", "offered_at", "steps")

    def __init__(self, width: int) -> None:
        """Nothing yet, for drafts of up to ``width`` tokens."""
        self.steps = self.drafted_steps = self.drafted = self.accepted = 0
        self.offered_at = [0] * width
        self.accepted_at = [0] * width

    def add(self, drafted: int, accepted: int) -> None:
        """A step that verified ``drafted`` tokens and confirmed ``accepted`` of them."""
        self.steps += 1
        self.drafted_steps += drafted > 0
        self.drafted += drafted
        self.accepted += accepted
        # A draft after a rejected one was never judged.
        for position in range(min(drafted, accepted + 1)):
            self.offered_at[position] += 1
            self.accepted_at[position] += position < accepted
