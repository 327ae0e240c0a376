"""How often a verdict of `moestream bench` is right, at the noise that runs have.

    python -m benchmarks.verdict_power [--tries 2000] [--rounds 5] [--save NAME]
    python -m benchmarks.verdict_power --results A.json [B.json ...]

Simulated campaigns go through the product's own plan and verdict. An A/A pair, which is a cell that
is `off` once more, must be called "no difference" in at least 19 of 20 tries, and an injected
slowdown of 10 % must be found in as many. Noise of a run, in percent, is drawn as:

    normal      a bell curve
    outliers    a bell curve, and one run of ten that something else slowed down
    drift       a bell curve, on a machine that loses a fifth of its speed over the campaign
    noisy cell  a bell curve, twice as wide for the cell as for `off`
    FILE        drawn from what the runs of `off` in a results file differ by within a round

`--results` takes files of real campaigns that have the cell `same`: every `--rounds` rounds of a
workload are one try of either kind, as measured and with a tenth taken from the cell's speed.

The second table is why the interval is not a bootstrap: how often each kind holds the truth.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import report
from moestream.bench.campaign import Campaign
from moestream.bench.cells import OFF, SAME, Cell
from moestream.bench.result import CampaignResult, RunResult
from moestream.bench.stats import bootstrap_interval, paired_estimate, student_quantile
from moestream.bench.verdict import by_round, verdict
from moestream.bench.workloads import Workload

SLOWDOWN = 0.9
LEVELS = (2.0, 3.0, 4.0)
WANTED = 0.95
PROSE = Workload("prose", "Once")

Floats = NDArray[np.float64]
Draw = Callable[[int], Floats]


def outliers(rng: np.random.Generator, n: int) -> Floats:
    """A bell curve with slow runs, scaled to a standard deviation of about 1."""
    slow = (rng.random(n) < 0.1) * rng.exponential(5.0, n)
    return (rng.standard_normal(n) - slow + 0.5) / 2.4


def campaign_of(rounds: int) -> Campaign:
    return Campaign(
        name="simulated", cells=(Cell(SAME, {}),), workloads=(PROSE,), rounds=rounds, tokens=2
    )


def simulate(
    campaign: Campaign, draw: Draw, *, speed: float, drift: float = 0.0, wider: float = 1.0
) -> list[RunResult]:
    """Runs of a campaign whose cell has ``speed`` times the speed of `off`."""
    plan = campaign.plan()
    noise = draw(len(plan))
    runs = []
    for planned, error in zip(plan, noise.tolist(), strict=True):
        ours = planned.cell != OFF
        logarithm = error * (wider if ours else 1.0) - drift * planned.order / len(plan)
        rate = 10.0 * math.exp(logarithm) * (speed if ours else 1.0)
        runs.append(
            RunResult(
                cell=planned.cell,
                workload=planned.workload,
                round=planned.round,
                order=planned.order,
                failure=None,
                entry=None,
                metrics={"tok_s": rate},
                accepted_at=(),
                offered_at=(),
                csv=None,
                peak_bytes=None,
            )
        )
    return runs


def rates(campaign: Campaign, draw: Draw, tries: int, **shape: float) -> dict[str, float]:
    """Shares of tries whose verdict is right, without a difference and with one."""
    right = {"no difference": 0, "slower": 0}
    floors = []
    for speed, wanted in ((1.0, "no difference"), (SLOWDOWN, "slower")):
        for _ in range(tries):
            said = verdict(simulate(campaign, draw, speed=speed, **shape), SAME, PROSE.name)
            right[wanted] += said.kind == wanted
            if said.estimate is not None and said.estimate.floor_pct is not None:
                floors.append(said.estimate.floor_pct)
    return {
        "aa": right["no difference"] / tries,
        "found": right["slower"] / tries,
        "floor_pct": report.median(floors),
    }


def kinds(rng: np.random.Generator) -> list[tuple[str, float, Draw, dict[str, float]]]:
    table: list[tuple[str, float, Draw, dict[str, float]]] = []
    for percent in LEVELS:
        scale = percent / 100

        def normal(n: int, scale: float = scale) -> Floats:
            return scale * rng.standard_normal(n)

        def heavy(n: int, scale: float = scale) -> Floats:
            return scale * outliers(rng, n)

        table += [
            ("normal", percent, normal, {}),
            ("outliers", percent, heavy, {}),
            ("drift", percent, normal, {"drift": 0.2}),
            ("noisy cell", percent, normal, {"wider": 2.0}),
        ]
    return table


def residuals(result: CampaignResult) -> Floats:
    """What runs of `off` differ by within a round, scaled up for the mean taken out."""
    found: list[float] = []
    for workload in dict.fromkeys(run.workload for run in result.runs):
        for values in by_round(result.runs, OFF, workload).values():
            if len(values) > 1:
                logs = np.log(values)
                k = len(values)
                found += ((logs - logs.mean()) * math.sqrt(k / (k - 1))).tolist()
    return np.array(found)


def real_tries(results: list[CampaignResult], rounds: int) -> list[list[object]]:
    """Verdicts on the cells `same` that were measured, and on the same with a tenth taken off."""
    rows: list[list[object]] = []
    for result in results:
        blocks: dict[tuple[str, int], list[RunResult]] = {}
        for run in result.runs:
            blocks.setdefault((run.workload, run.round // rounds), []).append(run)
        for (workload, block), runs in blocks.items():
            said = [verdict(each, SAME, workload) for each in (runs, [*map(slowed, runs)])]
            estimate = said[0].estimate
            if estimate is not None and estimate.rounds == rounds:
                first = f"{block * rounds} to {(block + 1) * rounds - 1}"
                rows.append([result.name, workload, first, said[0].line, said[1].line])
    return rows


def slowed(run: RunResult) -> RunResult:
    """The run with a tenth taken off its rate, if it is of the cell `same`."""
    rate = run.metric("tok_s")
    if run.cell != SAME or rate is None:
        return run
    return replace(run, metrics={**run.metrics, "tok_s": SLOWDOWN * rate})


def coverage(rng: np.random.Generator, tries: int) -> list[list[object]]:
    """How often intervals of the paired difference hold the truth."""
    rows: list[list[object]] = []
    for name in ("normal", "outliers"):
        for n in (3, 5, 8, 10):
            held = np.zeros(4)
            for _ in range(tries):
                draw = rng.standard_normal if name == "normal" else lambda k: outliers(rng, k)
                noise = 0.03 * draw(3 * n)
                off, cell = noise[: 2 * n].reshape(n, 2), noise[2 * n :]
                pairs = cell - off.mean(axis=1)
                held += [low <= 0 <= high for low, high in intervals(cell, off, pairs, rng)]
            rows.append([name, n, *(held / tries).tolist()])
    return rows


def intervals(
    cell: Floats, off: Floats, pairs: Floats, rng: np.random.Generator
) -> list[tuple[float, float]]:
    n, mean = len(pairs), float(pairs.mean())
    ours = paired_estimate(
        {i: [math.exp(value)] for i, value in enumerate(cell.tolist())},
        {i: np.exp(values).tolist() for i, values in enumerate(off)},
    )
    assert ours is not None
    assert ours.half_width is not None
    error = float(pairs.std(ddof=1)) / math.sqrt(n)
    student = student_quantile(n - 1) * error
    samples = pairs[rng.integers(0, n, (1000, n))]
    spread = samples.std(axis=1, ddof=1) / math.sqrt(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.nan_to_num(
            (samples.mean(axis=1) - mean) / spread, posinf=np.inf, neginf=-np.inf
        )
    low, high = np.quantile(scores, (0.025, 0.975), method="nearest")
    return [
        (ours.log_ratio - ours.half_width, ours.log_ratio + ours.half_width),
        (mean - student, mean + student),
        bootstrap_interval(pairs.tolist(), resamples=1000),
        (mean - float(high) * error, mean - float(low) * error),
    ]


def read(path: Path) -> CampaignResult:
    return CampaignResult.from_json(json.loads(path.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--results", nargs="*", type=Path, default=[])
    parser.add_argument("--save", metavar="NAME")
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    state = report.entry_state()
    campaign = campaign_of(args.rounds)
    results = [read(path) for path in args.results]

    table = kinds(rng)
    for path, result in zip(args.results, results, strict=True):
        pool = residuals(result)
        if len(pool) > 1:

            def resampled(n: int, pool: Floats = pool) -> Floats:
                return rng.choice(pool, n)

            table.append((path.stem, 100 * float(pool.std()), resampled, {}))
    raw: dict[str, Any] = {"state": state, "tries": args.tries, "rounds": args.rounds, "cells": []}
    rows: list[list[object]] = []
    for name, percent, draw, shape in table:
        cell = rates(campaign, draw, args.tries, **shape)
        raw["cells"].append({"noise": name, "percent": percent, **cell})
        good = [cell[key] >= WANTED for key in ("aa", "found")]
        rows.append(
            [name, percent, f"{100 * cell['aa']:.1f} {'' if good[0] else '(!)'}".strip(),
             f"{100 * cell['found']:.1f} {'' if good[1] else '(!)'}".strip(), cell["floor_pct"]]
        )  # fmt: skip
    text = report.markdown(
        ["noise", "% per run", "A/A no difference, %", "10 % slower found, %", "median floor, %"],
        rows,
    )
    text += f"\n\n{args.rounds} rounds, {args.tries} tries of each; (!) is below 19 of 20\n\n"
    if results:
        real = real_tries(results, args.rounds)
        raw["real"] = real
        header = ["campaign", "workload", "rounds", "A/A", "with a tenth taken off"]
        text += report.markdown(header, real) + "\n\n"
        right = [
            sum(str(row[i]).startswith(w) for row in real) for i, w in ((3, "no"), (4, "slow"))
        ]
        text += f"{right[0]} and {right[1]} of {len(real)} are right\n\n"
    covered = coverage(rng, args.tries)
    raw["coverage"] = covered
    text += report.markdown(
        ["noise", "rounds", "pooled Student (ours)", "Student", "bootstrap", "bootstrap-t"],
        covered,
    )
    text += "\n\nShare of 95 % intervals that hold the truth."
    report.publish(args.save or "verdict-power", text, raw, save=bool(args.save))


if __name__ == "__main__":
    main()
