"""Estimates of ratios: exact where they can be computed by hand, right as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from moestream.bench.stats import (
    LEAST_ROUNDS,
    Estimate,
    bootstrap_interval,
    log_noise,
    paired_estimate,
    student_quantile,
    unpaired_estimate,
)


@pytest.mark.parametrize(
    ("freedom", "level", "expected"),
    [  # printed tables of Student's distribution, two sides
        (1, 0.95, 12.706),
        (2, 0.95, 4.303),
        (3, 0.95, 3.182),
        (4, 0.95, 2.776),
        (9, 0.95, 2.262),
        (10, 0.95, 2.228),
        (30, 0.95, 2.042),
        (1, 0.5, 1.000),
        (5, 0.99, 4.032),
        (8, 0.90, 1.860),
        (120, 0.95, 1.980),
    ],
)
def test_student_quantile(freedom: int, level: float, expected: float) -> None:
    assert student_quantile(freedom, level) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize(("freedom", "level"), [(0, 0.95), (3, 0.0), (3, 1.0)])
def test_impossible_quantiles(freedom: int, level: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student_quantile(freedom, level)


def by_round(*rounds: tuple[float, ...]) -> dict[int, tuple[float, ...]]:
    return dict(enumerate(rounds))


def test_pairs_cancel_what_a_round_has_in_common() -> None:
    off = by_round((10.0, 10.0), (5.0, 5.0), (20.0, 20.0))
    cell = by_round((11.0,), (5.5,), (22.0,))
    estimate = paired_estimate(cell, off)
    assert estimate is not None
    assert estimate.ratio == pytest.approx(1.1)
    assert estimate.low == pytest.approx(1.1)
    assert estimate.high == pytest.approx(1.1)
    assert estimate.differs


def test_equal_runs_do_not_differ() -> None:
    same = by_round((3.7, 3.7), (4.1, 4.1), (3.9, 3.9))
    estimate = paired_estimate(same, same)
    assert estimate is not None
    assert not estimate.differs


def test_the_pooled_interval_by_hand() -> None:
    off_logs = [(0.00, 0.04), (0.10, 0.12), (-0.05, -0.01)]
    cell_logs = [0.05, 0.13, 0.00]
    off = by_round(*((math.exp(a), math.exp(b)) for a, b in off_logs))
    cell = by_round(*((math.exp(a),) for a in cell_logs))
    pairs = np.array(cell_logs) - np.array([0.02, 0.11, -0.03])
    within = (2 * 0.02**2 + 2 * 0.01**2 + 2 * 0.02**2) / 3
    own = pairs.var(ddof=1)
    pooled = (2 * own + 3 * within * 1.5) / 5
    estimate = paired_estimate(cell, off)
    assert estimate is not None
    assert estimate.log_ratio == pytest.approx(pairs.mean())
    assert estimate.off_noise == pytest.approx(math.sqrt(within))
    assert estimate.half_width == pytest.approx(
        student_quantile(5) * math.sqrt(max(pooled, own) / 3)
    )


def test_pairs_that_scatter_more_than_off_count_themselves() -> None:
    off = by_round(*[(1.0, 1.0001)] * 4)
    cell = by_round((0.8,), (1.3,), (0.9,), (1.1,))
    estimate = paired_estimate(cell, off)
    assert estimate is not None
    assert estimate.half_width is not None
    own = np.log([0.8, 1.3, 0.9, 1.1]).std(ddof=1)
    assert estimate.half_width == pytest.approx(student_quantile(7) * own / 2, rel=1e-3)


def test_without_repeats_the_interval_is_students() -> None:
    off = by_round((1.0,), (1.0,), (1.0,))
    cell = by_round((1.1,), (1.2,), (1.3,))
    estimate = paired_estimate(cell, off)
    assert estimate is not None
    assert estimate.off_noise is None
    deviation = np.log([1.1, 1.2, 1.3]).std(ddof=1)
    expected = student_quantile(2) * deviation / math.sqrt(3)
    assert estimate.half_width == pytest.approx(expected)
    repeated = by_round((1.0, 1.01), (1.0, 0.99), (1.0, 1.0))
    narrower = paired_estimate(cell, off, repeated)
    assert narrower is not None
    assert narrower.half_width is not None
    assert narrower.half_width < expected


def test_rounds_without_a_partner_are_left_out() -> None:
    off = {0: (1.0, 1.0), 1: (), 2: (1.0, 1.0)}
    cell = {0: (2.0,), 1: (9.0,), 2: (2.0,), 3: (9.0,), 4: ()}
    estimate = paired_estimate(cell, off)
    assert estimate is not None
    assert estimate.rounds == 2
    assert estimate.ratio == pytest.approx(2.0)
    assert (estimate.half_width, estimate.low, estimate.high) == (None, None, None)
    assert not estimate.differs
    assert paired_estimate({5: (1.0,)}, off) is None
    assert paired_estimate({}, {}) is None


def test_noise_of_repeated_runs() -> None:
    assert log_noise({0: (1.0,), 1: ()}) is None
    noise = log_noise({0: (math.exp(0.1), math.exp(-0.1)), 1: (5.0,)})
    assert noise == pytest.approx((0.02, 1))


def test_unpaired_is_welchs() -> None:
    ours = by_round(*((math.exp(x),) for x in (0.10, 0.14, 0.12, 0.16)))
    theirs = by_round(*((math.exp(x),) for x in (0.0, 0.2, 0.1)))
    estimate = unpaired_estimate(ours, theirs)
    assert estimate is not None
    assert estimate.log_ratio == pytest.approx(0.03)
    a, b = np.var([0.10, 0.14, 0.12, 0.16], ddof=1) / 4, 0.01 / 3
    freedom = (a + b) ** 2 / (a**2 / 3 + b**2 / 2)
    assert estimate.half_width == pytest.approx(
        student_quantile(math.floor(freedom)) * math.sqrt(a + b)
    )
    assert unpaired_estimate({}, theirs) is None
    few = unpaired_estimate(by_round((1.0,), (1.0,)), theirs)
    assert few is not None
    assert few.half_width is None


def test_unpaired_without_any_scatter() -> None:
    estimate = unpaired_estimate(by_round(*[(2.0,)] * 3), by_round(*[(1.0,)] * 3))
    assert estimate is not None
    assert estimate.half_width == 0.0
    assert estimate.differs


def test_the_bootstrap_is_seeded_and_stays_within_the_data() -> None:
    values = [0.3, 0.1, 0.2, 0.5]
    low, high = bootstrap_interval(values)
    assert (low, high) == bootstrap_interval(values)
    assert min(values) <= low <= np.mean(values) <= high <= max(values)
    assert bootstrap_interval([0.2] * LEAST_ROUNDS) == pytest.approx((0.2, 0.2))


@pytest.mark.parametrize("rounds", [3, 5, 10])
def test_the_interval_holds_the_truth_as_often_as_it_says(rounds: int) -> None:
    rng = np.random.default_rng(11)
    held, tries = 0, 500
    for _ in range(tries):
        off = np.exp(0.03 * rng.standard_normal((rounds, 2)))
        cell = 1.07 * np.exp(0.03 * rng.standard_normal((rounds, 1)))
        estimate = paired_estimate(dict(enumerate(cell.tolist())), dict(enumerate(off.tolist())))
        assert isinstance(estimate, Estimate)
        assert estimate.low is not None
        assert estimate.high is not None
        held += estimate.low <= 1.07 <= estimate.high
    assert held / tries >= 0.93
