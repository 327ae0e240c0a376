"""How large a difference is, and how sure that is, from a few rounds: pure arithmetic.

Rates are compared as logarithms of ratios, within a round: the cell's against the mean of that
round's ``off`` runs. So a slow hour cancels, and twice as fast weighs as much as half as fast.

Two things say how noisy such a pair is: how far the pairs scatter over the rounds, and how far the
``off`` runs of one round lie apart, which is noise and nothing else. With five rounds neither is
known well, so both are pooled; if the pairs scatter more than that, because the cell itself is
noisier than ``off`` or the rounds differ, their own scatter counts. The interval is Student's for
that variance, and half its width is the *noise floor*: the difference that two equal cells stay
below 19 times out of 20.

Not a bootstrap: resampling n values cannot leave their range, and the range of three pairs holds
the truth in at most 75 % of cases, of five in at most 94 %. ``benchmarks/verdict_power.py`` shows
what the usual kinds of interval cover at these sizes. A percentile bootstrap is kept beside the
interval, for the record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

__all__ = [
    "LEAST_ROUNDS",
    "Estimate",
    "bootstrap_interval",
    "log_noise",
    "paired_estimate",
    "student_quantile",
    "unpaired_estimate",
]

#: Rounds below which nothing is said about a difference.
LEAST_ROUNDS: Final = 3

_LEVEL: Final = 0.95
_ROUNDING: Final = 1e-9
_RESAMPLES: Final = 2000
_SEED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A ratio and how sure it is.

    Attributes:
        rounds: pairs (or, of two campaigns, rounds of the shorter one) that it comes from.
        log_ratio: logarithm of the ratio.
        half_width: half of the 95 % interval, in logarithms; ``None`` with too few rounds.
        off_noise: standard deviation of one ``off`` run within a round, in logarithms; ``None``
            if ``off`` was not repeated.
        bootstrap: percentile bootstrap of the same, in logarithms; too narrow for few rounds.
    """

    rounds: int
    log_ratio: float
    half_width: float | None
    off_noise: float | None = None
    bootstrap: tuple[float, float] | None = None

    @property
    def ratio(self) -> float:
        """The ratio itself."""
        return math.exp(self.log_ratio)

    @property
    def low(self) -> float | None:
        """Lower end of the interval, as a ratio."""
        return None if self.half_width is None else math.exp(self.log_ratio - self.half_width)

    @property
    def high(self) -> float | None:
        """Upper end of the interval, as a ratio."""
        return None if self.half_width is None else math.exp(self.log_ratio + self.half_width)

    @property
    def floor_pct(self) -> float | None:
        """The noise floor, in percent."""
        return None if self.half_width is None else 100 * math.expm1(self.half_width)

    @property
    def differs(self) -> bool:
        """Whether the difference is above the noise floor."""
        return self.half_width is not None and abs(self.log_ratio) > self.half_width + _ROUNDING


def paired_estimate(
    cell: Mapping[int, Sequence[float]],
    off: Mapping[int, Sequence[float]],
    repeated: Mapping[int, Sequence[float]] | None = None,
) -> Estimate | None:
    """The ratio of ``cell`` to ``off``, from positive values by round.

    Rounds that only one of them has say nothing about the ratio; ``None`` if no round is left.
    ``repeated`` are the runs whose spread within a round is noise, if those of ``off`` are not.
    """
    rounds = [number for number, values in cell.items() if values and off.get(number)]
    if not rounds:
        return None
    logs = np.array([_log_mean(cell[number]) - _log_mean(off[number]) for number in rounds])
    noise = log_noise(off if repeated is None else repeated)
    return Estimate(
        rounds=len(rounds),
        log_ratio=float(logs.mean()),
        half_width=_half_width(logs, [len(off[number]) for number in rounds], noise),
        off_noise=None if noise is None else math.sqrt(noise[0]),
        bootstrap=bootstrap_interval(logs.tolist()) if len(rounds) >= LEAST_ROUNDS else None,
    )


def unpaired_estimate(
    ours: Mapping[int, Sequence[float]], theirs: Mapping[int, Sequence[float]]
) -> Estimate | None:
    """The ratio of ``ours`` to ``theirs``, which were not measured side by side (Welch)."""
    samples = [
        np.array([_log_mean(values) for values in side.values() if values])
        for side in (ours, theirs)
    ]
    least = min(len(sample) for sample in samples)
    if least == 0:
        return None
    half_width = None
    if least >= LEAST_ROUNDS:
        squares = [float(sample.var(ddof=1)) / len(sample) for sample in samples]
        total = sum(squares)
        parts = sum(s * s / (len(x) - 1) for s, x in zip(squares, samples, strict=True))
        freedom = math.floor(total * total / parts + 1e-9) if parts > 0 else 2 * least - 2
        half_width = student_quantile(freedom) * math.sqrt(total)
    return Estimate(
        rounds=least,
        log_ratio=float(samples[0].mean() - samples[1].mean()),
        half_width=half_width,
    )


def log_noise(off: Mapping[int, Sequence[float]]) -> tuple[float, int] | None:
    """Variance of the logarithm of a run within a round, and its degrees of freedom.

    ``None`` if no round has two runs.
    """
    squares, freedom = 0.0, 0
    for values in off.values():
        if len(values) > 1:
            logs = np.log(np.asarray(values, dtype=np.float64))
            squares += float(np.square(logs - logs.mean()).sum())
            freedom += len(values) - 1
    return (squares / freedom, freedom) if freedom else None


def _half_width(
    logs: np.ndarray[tuple[int], np.dtype[np.float64]],
    repeats: Sequence[int],
    noise: tuple[float, int] | None,
) -> float | None:
    n = len(logs)
    if n < LEAST_ROUNDS:
        return None
    own = float(logs.var(ddof=1))
    variance, freedom = own, n - 1
    if noise is not None:
        pair = noise[0] * (1 + float(np.mean([1 / k for k in repeats])))
        freedom = n - 1 + noise[1]
        variance = max(((n - 1) * own + noise[1] * pair) / freedom, own)
    return student_quantile(freedom) * math.sqrt(variance / n)


def _log_mean(values: Sequence[float]) -> float:
    return float(np.log(np.asarray(values, dtype=np.float64)).mean())


def bootstrap_interval(
    values: Sequence[float], *, resamples: int = _RESAMPLES, seed: int = _SEED
) -> tuple[float, float]:
    """Percentile bootstrap of the mean: 95 % of the means of resamples lie in it.

    The same values always give the same interval.
    """
    data = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(data), (resamples, len(data)))
    tail = (1 - _LEVEL) / 2
    low, high = np.quantile(data[picks].mean(axis=1), (tail, 1 - tail))
    return float(low), float(high)


def student_quantile(freedom: int, level: float = _LEVEL) -> float:
    """How many standard errors to either side hold ``level`` of Student's distribution."""
    if freedom < 1 or not 0.0 < level < 1.0:
        raise ValueError(f"no quantile for {freedom} degrees of freedom at level {level}")
    low, high = 0.0, 1.0
    while _student_within(high, freedom) < level:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_within(middle, freedom) < level else (low, middle)
    return (low + high) / 2


def _student_within(t: float, freedom: int) -> float:
    """Probability that Student's t lies within ``-t..t``: the finite sum for whole freedoms."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * cosine * cosine
        total += term
    return (angle + sine * total) * 2 / math.pi if odd else sine * total
