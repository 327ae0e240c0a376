"""How likely a draft of the head survives, given what the head itself says.

A head that says 0.8 and is right half the time is corrected by Platt's rule, made Bayesian and
forgetful: the probability that draft ``k`` is confirmed if those before it were is

    sigmoid(offset + slope * logit(confidence) - fade * (k - 1))

with all of ``offset``, ``slope`` and ``fade`` unknown. ``slope`` 0 is a head whose confidence says
nothing (then ``offset`` is plain acceptance), ``slope`` 1 with ``offset`` 0 a perfect one, ``fade``
what chaining the head costs beyond what it admits. The posterior lives on a grid, so it is exact,
and it is a filter for piecewise constant parameters as in :mod:`.survival`: with every token a part
``h`` of it returns to the prior. The product of the chain is what is compared with costs, never a
single token's confidence: EVICT (arXiv:2605.00342) and SpecDec++ (arXiv:2405.19715) show that this
is what decides.

Confidences are put into bins, whose frequencies are learned as well: what a draft that is not yet
made may be worth is an expectation over them.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from itertools import product
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["BINS", "HeadCalibration", "bin_of"]

Vector = NDArray[np.float64]

_EDGES: Final = (0.1, 0.25, 0.4, 0.55, 0.7, 0.82, 0.9, 0.95, 0.98)
_CENTRES: Final = (0.06, 0.18, 0.33, 0.48, 0.63, 0.77, 0.86, 0.93, 0.967, 0.99)
#: Number of bins of confidence.
BINS: Final = len(_CENTRES)
#: Where the head has said nothing: the logit is zero, and the slope does not matter.
_UNKNOWN: Final = 3

_OFFSETS: Final = tuple(np.linspace(-5.25, 4.5, 14).tolist())
_SLOPES: Final = ((0.0, 0.25), (0.5, 0.3), (1.0, 0.45))
_FADES: Final = ((0.0, 0.5), (0.4, 0.35), (1.0, 0.15))
#: Prior mean and standard deviation of the offset, for each slope.
_OFFSET_PRIOR: Final = ((0.4, 1.6), (0.1, 1.3), (-0.2, 1.1))

_HAZARD: Final = 1 / 500
_CONVERSATION: Final = 0.3
_LONG_RUN: Final = 1 / 150
#: Text ages in steps of so many tokens: it takes time.
_AGE_EVERY: Final = 4
_BIN_RATE: Final = 1 / 10


class HeadCalibration:
    """What the confidences of a head mean, for drafts of up to ``width`` tokens."""

    def __init__(self, width: int) -> None:
        """Nothing seen."""
        grid = list(product(range(len(_OFFSETS)), range(len(_SLOPES)), range(len(_FADES))))
        offset = np.array([_OFFSETS[i] for i, _, _ in grid])
        slope = np.array([_SLOPES[j][0] for _, j, _ in grid])
        fade = np.array([_FADES[k][0] for _, _, k in grid])
        said = np.array([log(c / (1.0 - c)) for c in _CENTRES])
        said[_UNKNOWN] = 0.0
        depth = np.arange(width, dtype=np.float64)
        logit = (
            offset + slope * said[:, None, None] - fade * depth[None, :, None]
        )  # [bins, width, grid]
        self._p: Vector = np.clip(1.0 / (1.0 + np.exp(-logit)), 0.01, 0.99)
        self._flat = self._p.reshape(BINS * width, -1)
        self._flat_square = np.square(self._flat)
        centre = np.array([_OFFSET_PRIOR[j][0] for _, j, _ in grid])
        scale = np.array([_OFFSET_PRIOR[j][1] for _, j, _ in grid])
        prior = np.exp(-0.5 * ((offset - centre) / scale) ** 2) / scale
        prior *= np.array([_SLOPES[j][1] * _FADES[k][1] for _, j, k in grid])
        self.width = width
        self._aged = 0
        self._prior: Vector = prior / prior.sum()
        self._long_run = self._prior.copy()
        self.weights = self._prior.copy()
        self.bins: Vector = np.full(BINS, 1.0 / BINS)
        #: By view, until beliefs change: see :meth:`table`.
        self._tables: dict[float, Vector] = {}
        self._chances: dict[float, list[list[float]]] = {}

    def observe(self, bins: Sequence[int], hits: int, missed: bool) -> None:
        """Of a chain in these bins of confidence, ``hits`` were right and then, maybe, one not."""
        weights = self.weights
        for k in range(min(hits, len(bins), self.width)):
            weights = weights * self._p[bins[k], k]
        if missed and hits < min(len(bins), self.width):
            weights = weights * (1.0 - self._p[bins[hits], hits])
        if weights is not self.weights:
            weights = weights / weights.sum()
            self._long_run += _LONG_RUN * (weights - self._long_run)
            self.weights = weights
        for each in bins:
            self.bins *= 1.0 - _BIN_RATE
            self.bins[each] += _BIN_RATE
        self._forget_tables()

    def age(self, tokens: int) -> bool:
        """So many tokens of text went by, in which everything may have changed.

        Returns:
            Whether anything is another now: it is looked at once in a few tokens.
        """
        self._aged += tokens
        if self._aged < _AGE_EVERY:
            return False
        self._relax(1.0 - (1.0 - _HAZARD) ** self._aged)
        self._aged = 0
        return True

    def start_over(self) -> None:
        """Another conversation begins."""
        self._relax(_CONVERSATION)

    def survival(self, position: int, said: int, deviations: float = 0.0) -> float:
        """Probability that draft ``position`` (from 0) in bin ``said`` is confirmed.

        ``deviations`` as in :meth:`.MatchSurvival.chain`.
        """
        found = self._chances.get(deviations)
        if found is None:
            found = self._chances[deviations] = self.table(deviations).tolist()
        return found[said][position]

    def table(self, deviations: float = 0.0) -> Vector:
        """The same for all bins and positions, ``[bins, width]``."""
        found = self._tables.get(deviations)
        if found is None:
            if 0.0 not in self._tables:
                self._mean = self._flat @ self.weights
                self._sd: Vector | None = None
                self._tables[0.0] = self._mean.reshape(BINS, self.width)
            if not deviations:
                return self._tables[0.0]
            if self._sd is None:
                square = self._flat_square @ self.weights
                self._sd = np.sqrt(np.maximum(square - self._mean * self._mean, 0.0))
            seen = np.minimum(np.maximum(self._mean + deviations * self._sd, 0.0), 1.0)
            found = self._tables[deviations] = seen.reshape(BINS, self.width)
        return found

    def typical(self, deviations: float = 0.0) -> Vector:
        """Probability at each position whatever the head says: the bins averaged over."""
        return np.asarray(self.bins @ self.table(deviations), np.float64)

    def save(self) -> list[list[float]]:
        """Weights of the grid, and how often each bin was said."""
        return [self.weights.tolist(), self.bins.tolist()]

    def load(self, weights: Sequence[float], bins: Sequence[float]) -> None:
        """Start from what was saved, as the long run."""
        saved = np.maximum(np.asarray(weights, np.float64), 1e-12)
        self._long_run = saved / saved.sum()
        self.weights = self._long_run.copy()
        said = np.maximum(np.asarray(bins, np.float64), 1e-3)
        self.bins = said / said.sum()
        self.start_over()

    def _relax(self, share: float) -> None:
        self.weights = (1.0 - share) * self.weights
        self.weights += (0.5 * share) * (self._prior + self._long_run)
        self._forget_tables()

    def _forget_tables(self) -> None:
        self._tables, self._chances = {}, {}


def bin_of(confidence: float) -> int:
    """The bin of a probability that the head gave its own guess; not a number is "unknown"."""
    if not 0.0 <= confidence <= 1.0:
        return _UNKNOWN
    return bisect(_EDGES, confidence)
