"""How likely a looked-up draft survives, by how much of the text matched before it.

A draft after ``m`` matching tokens that is confirmed leaves a match of ``m + 1``: so the k-th draft
of a lookup that matched ``m`` tokens is the first draft of one that matched ``m + k - 1``, and one
probability for each *effective* match length is all there is to learn. Every step teaches it,
whether anything was verified or not: what lookup would have said can be held against what came.

Each probability is a piecewise constant one, and the filter for that is exact (Shiryaev's, for a
known hazard): a posterior over levels is multiplied by the likelihood of what was seen, and a part
``h`` of it, the chance that the text has changed, goes back to the prior. In between it is a
Beta posterior with decay; unlike one, it notices a change within two or three surprises instead of
averaging it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, sqrt
from typing import Final

__all__ = ["LevelFilter", "MatchSurvival"]

_LEVELS: Final = (0.01, 0.05, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.97, 0.99)
_HAZARD: Final = 1 / 200
_CONVERSATION: Final = 0.5
_LONG_RUN: Final = 1 / 512

#: Effective match lengths from each of these up to the next are one bucket, with its prior mean.
_BUCKETS: Final = ((1, 0.35), (3, 0.45), (4, 0.55), (6, 0.65), (9, 0.75), (13, 0.85), (21, 0.9))
#: The bucket of each length, up to the first of the last bucket.
_BUCKET_OF: Final = tuple(
    sum(start <= max(length, 1) for start, _ in _BUCKETS) - 1
    for length in range(_BUCKETS[-1][0] + 1)
)
_STRENGTH: Final = 3.0


class LevelFilter:
    """A probability that stays for a while and then jumps."""

    __slots__ = ("_long_run", "_prior", "mean", "sd", "weights")

    def __init__(self, mean: float) -> None:
        """Nothing seen: a Beta prior with this mean, worth three observations."""
        a, b = _STRENGTH * mean - 1.0, _STRENGTH * (1.0 - mean) - 1.0
        self._prior = _normal([exp(a * log(p) + b * log(1.0 - p)) for p in _LEVELS])
        self._long_run = list(self._prior)
        self.weights = list(self._prior)
        self._summarise()

    def observe(self, hit: bool) -> None:
        """A draft was (or would have been) confirmed, or not."""
        seen = _normal(
            [w * (p if hit else 1.0 - p) for w, p in zip(self.weights, _LEVELS, strict=True)]
        )
        long_run = self._long_run
        for i, w in enumerate(seen):
            jump = 0.5 * (self._prior[i] + long_run[i])
            self.weights[i] = (1.0 - _HAZARD) * w + _HAZARD * jump
            long_run[i] += _LONG_RUN * (w - long_run[i])
        self._summarise()

    def start_over(self) -> None:
        """Another conversation: half of what is believed is what was true over all of them."""
        for i, (w, p, q) in enumerate(zip(self.weights, self._prior, self._long_run, strict=True)):
            self.weights[i] = (1.0 - _CONVERSATION) * w + 0.5 * _CONVERSATION * (p + q)
        self._summarise()

    def load(self, weights: Sequence[float]) -> None:
        """Begin with what another session has learned, as the long run."""
        self._long_run = _normal([max(w, 1e-9) for w in weights])
        self.weights = list(self._long_run)
        self.start_over()

    def _summarise(self) -> None:
        mean = square = 0.0
        for w, p in zip(self.weights, _LEVELS, strict=True):
            mean += w * p
            square += w * p * p
        self.mean = mean
        self.sd = sqrt(max(square - mean * mean, 0.0))


class MatchSurvival:
    """The filters of all match lengths."""

    def __init__(self) -> None:
        """Nothing seen."""
        self.filters = [LevelFilter(mean) for _, mean in _BUCKETS]

    def observe(self, match: int, hits: int, missed: bool) -> None:
        """Of drafts after ``match`` tokens, ``hits`` were right and then, maybe, one was not."""
        for k in range(hits):
            self._at(match + k).observe(True)
        if missed:
            self._at(match + hits).observe(False)

    def chain(self, match: int, width: int, deviations: float = 0.0) -> list[float]:
        """Probability that each of ``width`` drafts is confirmed.

        Args:
            match: tokens that matched.
            width: drafts.
            deviations: 0 for what is expected; above for what may be hoped for, below for what has
                to be feared, in standard deviations of what is not known.
        """
        alive, found = 1.0, []
        for k in range(width):
            here = self._at(match + k)
            alive *= min(max(here.mean + deviations * here.sd, 0.0), 1.0)
            found.append(alive)
        return found

    def start_over(self) -> None:
        """Another conversation begins."""
        for each in self.filters:
            each.start_over()

    def save(self) -> list[list[float]]:
        """Weights of every bucket."""
        return [list(each.weights) for each in self.filters]

    def load(self, weights: Sequence[Sequence[float]]) -> None:
        """Start from what was saved."""
        for each, saved in zip(self.filters, weights, strict=True):
            each.load(saved)

    def _at(self, length: int) -> LevelFilter:
        return self.filters[_BUCKET_OF[min(length, len(_BUCKET_OF) - 1)]]


def _normal(weights: list[float]) -> list[float]:
    total = sum(weights)
    return [w / total for w in weights]
