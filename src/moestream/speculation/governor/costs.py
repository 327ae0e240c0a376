"""What a step costs as a function of its width, learned from what was just measured.

Every cost is a *curve* ``y(i) = level * shape[i]``: compute by rows, bytes by rows, milliseconds
per byte by rows, drafting by drafted tokens. The level moves fast (a cache warms up, a disk slows
down, a neighbour takes a core), the shape hardly ever does (what a second row costs relative to
the first is the model's and the machine's). Separating them is what lets one step of any width say
what every other width would cost now, and a plain step be priced while none is taken.

A curve is an extended Kalman filter over ``[level, shape...]`` with the bilinear measurement
``y = level * shape[i] + noise``. Its prior couples the shape: ``shape[i] = 1 + s * f[i] + e[i]``
with one uncertain slope ``s`` for all widths, so that having seen two rows says something about
four. Process noise is the decay. Outliers are
held off as by a redescending estimator: an innovation beyond two standard deviations is clipped to
that, one beyond four is left out, unless the last at that width was as well. What a change of level
looks like, at a width, is a run of them; then a plain step is asked for (``doubted``), and only if
that is surprising to the same side has the level changed, at once and by all of it. A filter that
let any width move the level would, once level and shape are confused, never find back.

A step of ``r`` rows takes ``compute(r) + bytes(r) * price(r)``: the price is the stall per byte,
so it contains what overlap hides.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import median
from typing import Final

from moestream.speculation.governor.records import Source, StepRecord

__all__ = ["CostCurve", "CostModel"]

#: Relative compute of 1, 2, ... rows: measured on AVX2 with a resident model; beyond, a line.
_ROWS_PRIOR: Final = (1.0, 1.62, 2.2, 2.5, 3.1, 3.7, 4.4, 5.1, 5.8)
#: Share of one row's bytes that the next row adds: neighbours have about a third in common.
_BYTES_PRIOR: Final = 0.62

_FIRST: Final = 4
_CLIP: Final = 2.0
_REJECT: Final = 4.0
#: Shapes are let drift once in so many steps: it takes time, and they drift slowly.
_DRIFT_EVERY: Final = 8
#: Drafts that are all timed; afterwards one in four of the head's is, and no lookup.
_DRAFTS: Final = 24
#: So many surprises to one side, with a plain step last, are a change.
_CHANGE: Final = 3
_NOISE_RATE: Final = 0.05
_LEAST_NOISE: Final = 0.04
_MOST_NOISE: Final = 0.6
_MIB: Final = 2.0**20


class CostCurve:
    """One cost, as a function of an index that starts at 1."""

    __slots__ = ("_cov", "_drift", "_first", "_last", "_level_drift", "_mean",
                 "_prior_cov", "_run", "_sides", "doubted", "noise", "offered", "seen")  # fmt: skip

    def __init__(
        self,
        shape: Sequence[float],
        spread: Sequence[float],
        *,
        slope_sd: float,
        own_sd: float,
        level_drift: float = 0.015,
        shape_drift: float = 0.0015,
        noise: float = 0.15,
    ) -> None:
        """Nothing measured yet.

        Args:
            shape: prior mean of the shape; the first is 1 by definition.
            spread: how far each index moves if the slope is off by one; the first is 0.
            slope_sd: standard deviation of the common slope.
            own_sd: of each index on its own, relative to its spread.
            level_drift: how much the level moves from step to step, relative.
            shape_drift: how much the shape does, relative to its spread.
            noise: relative standard deviation of a measurement, to begin with.
        """
        n = len(spread)
        self._mean = [0.0, *shape[1:]]
        self._prior_cov = [
            [slope_sd**2 * f * g + (own_sd * f) ** 2 * (i == j) for j, g in enumerate(spread)]
            for i, f in enumerate(spread)
        ]
        self._cov = [list(row) for row in self._prior_cov]
        self._level_drift = level_drift
        self._drift = [_DRIFT_EVERY * (shape_drift * f) ** 2 for f in spread]
        # To which side the last cost surprised: at each index, and at any.
        self._sides = [0] * n
        self._last = self._run = 0
        self._first: list[float] = []
        self.noise = noise
        self.seen = 0
        #: How many costs there were, those that were not looked at included.
        self.offered = 0
        #: Costs at another index than the first are not as expected, time and again.
        self.doubted = False

    @property
    def level(self) -> float:
        """The cost at index 1."""
        return self._mean[0]

    def values(self) -> list[float]:
        """The cost at every index."""
        level = self._mean[0]
        return [level, *[level * relative for relative in self._mean[1:]]]

    def shape(self) -> list[float]:
        """The cost at every index relative to the first."""
        return [1.0, *self._mean[1:]]

    def shape_sd(self) -> list[float]:
        """Standard deviation of the shape; zero at the first index."""
        return [0.0, *[sqrt(max(self._cov[i][i], 0.0)) for i in range(1, len(self._mean))]]

    def level_sd(self) -> float:
        """Standard deviation of the level."""
        return sqrt(max(self._cov[0][0], 0.0))

    def observe(self, index: int, value: float) -> float:
        """Learn from a cost at ``index`` (from 1); how surprising it was, in deviations."""
        i = index - 1
        mean, cov = self._mean, self._cov
        self.seen += 1
        factor = mean[i] if i else 1.0
        if len(self._first) < _FIRST:
            # The median of the first few: any one of them may be an outlier.
            self._first.append(value / factor)
            mean[0] = median(self._first)
            cov[0][0] = 1.6 * (self.noise * mean[0]) ** 2 / len(self._first)
            return 0.0
        level = mean[0]
        cov[0][0] += (self._level_drift * level) ** 2
        if self.seen % _DRIFT_EVERY == 0:
            for j, drift in enumerate(self._drift):
                cov[j][j] += drift
        predicted = level * factor
        if i:
            gain = [a * factor + b * level for a, b in zip(cov[0], cov[i], strict=True)]
            own = gain[0] * factor + gain[i] * level
        else:
            gain = list(cov[0])
            own = gain[0]
        noise = (self.noise * predicted) ** 2 + 1e-12
        error = value - predicted
        deviation = sqrt(own + noise)
        surprise = error / deviation
        error, extra = self._judge(i, error, surprise, deviation, predicted)
        if extra:
            cov[0][0] += extra
            gain[0] += extra
            own += extra
        total = own + noise
        step = error / total
        for j, g in enumerate(gain):
            mean[j] += g * step
            share = g / total
            cov[j] = [c - share * h for c, h in zip(cov[j], gain, strict=True)]
        mean[0] = max(0.05 * level, mean[0])
        if i and mean[i] < 0.2:
            mean[i] = 0.2
        return surprise

    def _judge(
        self, i: int, error: float, surprise: float, deviation: float, predicted: float
    ) -> tuple[float, float]:
        """What of an error counts, and the variance by which the level is let go, if it is."""
        if abs(surprise) <= _CLIP:
            self._sides[i] = self._last = self._run = 0
            self.doubted = self.doubted and i > 0
            spread = 1.25 * abs(error) / predicted
            noise = self.noise + _NOISE_RATE * (spread - self.noise)
            self.noise = min(max(noise, _LEAST_NOISE), _MOST_NOISE)
            return error, 0.0
        side = 1 if error > 0.0 else -1
        again = self._sides[i] == side
        self._run = self._run + 1 if self._last == side else 1
        self._sides[i] = self._last = side
        self.doubted = i > 0 and again
        if i == 0 and self._run >= _CHANGE:
            return error, error * error
        if abs(surprise) > _REJECT and not again:
            return 0.0, 0.0
        return side * _CLIP * deviation, 0.0

    def save(self) -> list[list[float]]:
        """Level and shape, and the standard deviations of the shape."""
        return [list(self._mean), self.shape_sd()]

    def load(self, mean: Sequence[float], sd: Sequence[float]) -> None:
        """Start from what was saved: the shape half as sure again, the level hardly at all."""
        n = len(self._mean)
        prior = [sqrt(self._prior_cov[i][i]) for i in range(n)]
        ratio = [
            min(1.5 * sd[i] / prior[i] + 0.02, 1.0) if prior[i] > 0.0 else 0.0 for i in range(n)
        ]
        self._mean = list(mean)
        self._cov = [
            [self._prior_cov[i][j] * ratio[i] * ratio[j] for j in range(n)] for i in range(n)
        ]
        self._cov[0][0] = (0.5 * mean[0]) ** 2
        self._first = [mean[0]] * _FIRST
        self.seen = max(self.seen, 1)


class CostModel:
    """All costs of a step, for drafts of up to ``width`` tokens."""

    def __init__(self, width: int) -> None:
        """Nothing measured yet."""
        rows = width + 1
        extra = [float(i) for i in range(rows)]
        beyond = [1.0 + _BYTES_PRIOR * i for i in range(rows)]
        self.width = width
        self.compute = CostCurve(_ROWS_PRIOR[:rows], extra, slope_sd=0.25, own_sd=0.10, noise=0.10)
        self.bytes = CostCurve(
            beyond, extra, slope_sd=0.15, own_sd=0.03, level_drift=0.03, noise=0.3
        )
        self.price = CostCurve(
            [1.0] * rows, extra, slope_sd=0.12, own_sd=0.12, level_drift=0.03, noise=0.3
        )
        self.drafting: dict[Source, CostCurve] = {
            # Catching up with what was confirmed is a part that does not grow with the width.
            "mtp": CostCurve(extra[1:], extra[:-1], slope_sd=0.3, own_sd=0.05),
            "ngram": CostCurve([1.0] * width, extra[:-1], slope_sd=0.1, own_sd=0.05),
        }
        self._steps = [0.0] * rows
        self._steps_sd = [0.0] * rows
        self._stale = True

    def observe(self, record: StepRecord) -> float:
        """Learn from a step; how surprising its decode was, in standard deviations."""
        rows = record.verified + 1
        surprise = self.compute.observe(rows, record.compute_ms + record.rollback_ms)
        mib = record.read_bytes / _MIB
        waited = record.waited_ms
        if mib > 0.0 or self.bytes.seen:
            # A fully cached step still counts: it is how the level of bytes comes down.
            self.bytes.observe(rows, max(mib, 1e-6))
        if mib > 1e-3 * max(self.bytes.level, 1e-3):
            surprise = max(surprise, self.price.observe(rows, max(waited / mib, 1e-6)), key=abs)
        if record.source is not None and record.drafted:
            curve = self.drafting[record.source]
            curve.offered += 1
            if curve.seen >= _DRAFTS and (record.source == "ngram" or curve.offered % 4):
                return surprise  # a lookup takes microseconds; a draft always the same
            curve.observe(min(record.drafted, self.width), max(record.drafting_ms, 1e-6))
        self._stale = True
        return surprise

    def invalidate(self) -> None:
        """Curves were changed from outside."""
        self._stale = True

    def expect_overlap(self, shared: float) -> None:
        """Neighbouring tokens are known to share ``shared`` (0 to 1) of their routed experts.

        The hook counts this while nothing is speculated: what the next row adds is what it does
        not share.
        """
        if self.bytes.level > 0.0 and self.width:
            rows = self.width + 1
            self.bytes.observe(rows, self.bytes.level * (1.0 + (1.0 - shared) * (rows - 1)))
            self._stale = True

    def steps(self) -> list[float]:
        """Expected milliseconds of a decode of 1, 2, ... rows."""
        self._refresh()
        return self._steps

    def steps_sd(self) -> list[float]:
        """How uncertain what a row adds is, in milliseconds: by the shapes, not by the level."""
        self._refresh()
        return self._steps_sd

    def plain_doubt(self) -> float:
        """How uncertain the cost of a plain step is, relative to it."""
        plain = self.steps()[0]
        variance = self.compute.level_sd() ** 2
        if self.bytes.seen:
            price, read = self.price, self.bytes
            variance += (read.level_sd() * price.level) ** 2 + (price.level_sd() * read.level) ** 2
        return sqrt(variance) / plain if plain > 0.0 else 1.0

    def drafts(self, source: Source) -> list[float]:
        """Expected milliseconds of drafting 1, 2, ... tokens.

        Before any is seen: the head is taken to cost a fifth of a plain step, lookup nothing.
        """
        curve = self.drafting[source]
        if curve.seen:
            return curve.values()
        first = 0.2 * self.steps()[0] if source == "mtp" else 0.0
        return [first * relative for relative in curve.shape()]

    def _refresh(self) -> None:
        if not self._stale:
            return
        level = self.compute.level
        steps = self.compute.values()
        variance = [(sd * level) ** 2 for sd in self.compute.shape_sd()]
        if self.bytes.seen:
            stall = [b * p for b, p in zip(self.bytes.values(), self.price.values(), strict=True)]
            b_sd, p_sd = self.bytes.shape_sd(), self.price.shape_sd()
            b, p = self.bytes.shape(), self.price.shape()
            for i, wait in enumerate(stall):
                steps[i] += wait
                variance[i] += wait**2 * ((b_sd[i] / b[i]) ** 2 + (p_sd[i] / p[i]) ** 2)
        self._steps, self._steps_sd = steps, [sqrt(each) for each in variance]
        self._stale = False
