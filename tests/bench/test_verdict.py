"""Verdicts in words, how often they are right, and tells of contamination."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from moestream.bench.contamination import contamination
from moestream.bench.result import RunResult
from moestream.bench.stats import Estimate
from moestream.bench.verdict import VerdictKind, by_round, percent_range, verdict, verdicts
from tests.bench.simulated import campaign, entry, normal, result, rounds, run, simulate

OFF = [*rounds("off", [10.0, 10.2, 9.9, 10.1, 10.0]), *rounds("off", [10.1, 10.0, 10.0, 9.9, 10.2])]


def estimate(ratio: float, half_width: float | None) -> Estimate:
    return Estimate(rounds=5, log_ratio=math.log(ratio), half_width=half_width)


@pytest.mark.parametrize(
    ("ratio", "half_width", "words"),
    [
        (1.15, 0.026, "faster by 12 to 18 %"),
        (0.90, 0.025, "slower by 8 to 12 %"),
        (1.02, 0.015, "faster by 0.5 to 3.5 %"),
        (0.985, 0.012, "slower by 0.3 to 2.7 %"),
        (1.15, 0.0, "faster by 15.0 %"),
        (2.50, 0.05, "2.4 to 2.6 times as fast"),
        (2.50, 0.0, "2.5 times as fast"),
        (0.20, 0.1, "slower by 78 to 82 %"),
    ],
)
def test_ranges(ratio: float, half_width: float, words: str) -> None:
    assert percent_range(estimate(ratio, half_width)) == words


def judged(rates: list[float | None], off: list[RunResult] | None = None) -> tuple[str, str]:
    said = verdict([*(OFF if off is None else off), *rounds("c", rates)], "c", "prose")
    return said.kind, said.line


def test_words() -> None:
    kind, line = judged([11.5, 11.7, 11.4, 11.6, 11.5])
    assert kind == "faster"
    assert line == "faster by 14 to 16 % (noise floor 1.2 %)"
    kind, line = judged([8.9, 9.1, 9.0, 9.0, 9.2])
    assert kind == "slower"
    assert line == "slower by 9 to 11 % (noise floor 1.3 %)"
    kind, line = judged([10.0, 10.1, 10.0, 10.2, 9.9])
    assert kind == "no difference"
    assert line == "no difference above the 1.5 % floor"
    kind, line = judged([14.0, 8.0, 10.0, 12.0, 8.0])
    assert kind == "no difference"
    assert "which is wide: more rounds" in line


def test_not_enough() -> None:
    assert judged([20.0, 20.0]) == (
        "not enough rounds",
        "not enough rounds: 2, and it takes 3 to tell a difference from noise",
    )


def test_failures() -> None:
    assert judged([None, None]) == ("failed", "failed: killed by signal 9")
    kind, line = judged([11.5, None, 11.4, 11.6, None])
    assert kind == "faster"
    assert "2 runs failed: killed by signal 9" in line
    kind, line = judged([11.5, None, 11.4])
    assert kind == "not enough rounds"
    assert line.endswith("(1 run failed: killed by signal 9)")
    off = [run("off", 0, None), run("off", 0, None)]
    assert judged([10.0, 10.0], off) == ("failed", "failed: off failed: killed by signal 9")
    assert judged([10.0], []) == ("failed", "failed: no run succeeded")


def test_a_rate_of_nothing_is_none() -> None:
    runs = [run("c", 0, 0.0), run("c", 1, 2.0), run("c", 2, 1.0, metrics={"tok_s": None})]
    assert by_round(runs, "c", "prose") == {1: [2.0]}


def test_all_verdicts_in_order() -> None:
    runs = [
        *(r for w in ("prose", "copy") for r in rounds("lanes=1", [10.0] * 3, workload=w)),
        *(r for w in ("prose", "copy") for r in rounds("off", [10.0, 10.1, 9.9], workload=w)),
        *rounds("same", [10.0, 10.0, 10.1]),
    ]
    said = verdicts(result("off,same,lanes=1,lanes=9", runs))
    assert [(v.workload, v.cell) for v in said] == [
        ("prose", "same"), ("prose", "lanes=1"), ("copy", "lanes=1"),
    ]  # fmt: skip
    assert all(json.dumps(v.to_json(), allow_nan=False) for v in said)


def heavy(seed: int, scale: float) -> Callable[[int], np.ndarray]:
    """A bell curve of half the scale, and slow runs."""
    rng = np.random.default_rng(seed)

    def draw(n: int) -> np.ndarray:
        slow = (rng.random(n) < 0.1) * rng.exponential(scale, n)
        return scale / 2 * rng.standard_normal(n) - slow

    return draw


@pytest.mark.parametrize(("draw", "drift"), [(normal, 0.0), (normal, 0.2), (heavy, 0.0)])
@pytest.mark.parametrize("scale", [0.02, 0.03, 0.04])
@pytest.mark.parametrize(
    ("speed", "wanted"), [(1.0, "no difference"), (0.9, "slower"), (1 / 0.9, "faster")]
)
def test_five_rounds_tell_ten_percent_from_nothing(
    draw: Callable[[int, float], Callable[[int], np.ndarray]],
    drift: float,
    scale: float,
    speed: float,
    wanted: VerdictKind,
) -> None:
    plan = campaign("same", rounds=5)
    noise, tries = draw(17, scale), 200
    right = sum(
        verdict(simulate(plan, {"same": speed}, noise, drift), "same", "prose").kind == wanted
        for _ in range(tries)
    )
    assert right >= 19 * tries / 20


# ---- contamination -------------------------------------------------------------------------------


def measured(cell: str, values: list[float], metric: str) -> list[RunResult]:
    return [
        run(cell, i % 5, 10.0, order=i, metrics={"tok_s": 10.0, metric: value})
        for i, value in enumerate(values)
    ]


def tells(cell: str, values: list[float], metric: str) -> list[str]:
    off = measured("off", [50, 51, 50, 49, 50, 50, 50, 51, 50, 50], metric)
    runs = [*off, *measured(cell, values, metric)]
    return [tell.text for tell in contamination(result(f"off,{cell}", runs))]


@pytest.mark.parametrize(
    ("cell", "factor", "told"),
    [
        ("lanes=4", 1.2, True),
        ("lanes=4", 0.8, True),
        ("lanes=4", 1.03, False),
        ("cache=0", 1.2, True),
        ("same", 1.2, True),
        ("drop=0.5", 1.2, True),
        ("drop=0.5", 0.8, False),
        ("serial", 1.2, False),
        ("mtp:3", 1.2, False),
        ("threads=1", 2.0, False),
        ("plain", 2.0, False),
    ],
)
def test_computing_that_moves_though_it_cannot(cell: str, factor: float, told: bool) -> None:
    said = tells(cell, [factor * v for v in (50, 51, 50, 49, 50)], "compute_ms")
    assert len(said) == told
    if told:
        assert f"computing took {100 * (factor - 1):+.0f} % against off" in said[0]


@pytest.mark.parametrize(
    ("cell", "faults", "told"),
    [
        ("lanes=4", 600.0, True),
        ("lanes=4", 300.0, False),
        ("mtp:3", 600.0, True),
        ("plain", 600.0, False),
        ("dense=mmap", 600.0, False),
    ],
)
def test_major_faults_up_tenfold(cell: str, faults: float, told: bool) -> None:
    assert len(tells(cell, [faults] * 5, "majflt_per_token")) == told


def test_a_run_with_ten_times_its_cells_faults_is_named() -> None:
    runs = measured("off", [2.0, 1.5, 40.0, 2.0, 0.0], "majflt_per_token")
    (tell,) = contamination(result("off", runs))
    assert tell.orders == (2,)
    assert tell.text.startswith("run 2 had ten times")
    quiet = measured("off", [0.0, 0.0, 0.5, 0.0, 0.0], "majflt_per_token")
    assert contamination(result("off", quiet)) == ()


def test_gates_that_were_not_passed_are_named() -> None:
    runs = rounds("off", [10.0, 10.0], entry=entry(gate_expired=True))
    (tell,) = contamination(result("off", runs))
    assert "gates were not passed" in tell.text
