"""What may be said about a cell: one verdict per cell and workload, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from moestream.bench.cells import OFF
from moestream.bench.result import CampaignResult, RunResult
from moestream.bench.stats import LEAST_ROUNDS, Estimate, paired_estimate

__all__ = ["WIDE_PCT", "Verdict", "VerdictKind", "by_round", "percent_range", "verdict", "verdicts"]

VerdictKind = Literal["faster", "slower", "no difference", "not enough rounds", "failed"]

#: A noise floor above this hides differences that matter; the verdict says so.
WIDE_PCT: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A cell against ``off``.

    Attributes:
        cell: name of the cell.
        workload: name of the workload.
        kind: the verdict as one word for programs.
        estimate: the ratio of the rates; ``None`` if no round has both.
        failure: why a run of the cell failed, if one did.
        failed_runs: how many did.
    """

    cell: str
    workload: str
    kind: VerdictKind
    estimate: Estimate | None
    failure: str | None
    failed_runs: int

    @property
    def words(self) -> str:
        """``faster by 12 to 18 %`` and the like."""
        return verdict_words(self.kind, self.estimate, self.failure)

    @property
    def line(self) -> str:
        """The words, with the noise floor and the failed runs."""
        notes = []
        if self.kind in ("faster", "slower") and self.estimate is not None:
            notes.append(f"noise floor {_percent(self.estimate.floor_pct or 0.0)} %")
        if self.failed_runs and self.kind != "failed":
            runs = "run" if self.failed_runs == 1 else "runs"
            notes.append(f"{self.failed_runs} {runs} failed: {self.failure}")
        return f"{self.words} ({'; '.join(notes)})" if notes else self.words

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; ratios are of rates, above 1 is faster."""
        return {
            "cell": self.cell,
            "workload": self.workload,
            "kind": self.kind,
            "words": self.words,
            "failure": self.failure,
            "failed_runs": self.failed_runs,
            **estimate_numbers(self.estimate),
        }


def estimate_numbers(estimate: Estimate | None) -> dict[str, Any]:
    """An estimate as plain JSON types."""
    if estimate is None:
        return {"rounds": 0, "ratio": None, "low": None, "high": None, "floor_pct": None}
    return {
        "rounds": estimate.rounds,
        "ratio": estimate.ratio,
        "low": estimate.low,
        "high": estimate.high,
        "floor_pct": estimate.floor_pct,
    }


def verdict_words(kind: VerdictKind, estimate: Estimate | None, failure: str | None) -> str:
    """A verdict in words."""
    if kind == "failed" or estimate is None:
        return f"failed: {failure or 'no run succeeded'}"
    if kind == "not enough rounds":
        return (
            f"not enough rounds: {estimate.rounds}, and it takes {LEAST_ROUNDS} to tell "
            "a difference from noise"
        )
    if kind == "no difference":
        floor = estimate.floor_pct or 0.0
        text = f"no difference above the {_percent(floor)} % floor"
        if floor > WIDE_PCT:
            text += ", which is wide: more rounds or a quieter machine would tell more"
        return text
    return percent_range(estimate)


def percent_range(estimate: Estimate) -> str:
    """The interval of a difference that there is, in words."""
    low, high = estimate.low or 0.0, estimate.high or 0.0
    if estimate.log_ratio < 0:
        return f"slower by {_percents(100 * (1 - high), 100 * (1 - low))} %"
    if low >= 2:
        return f"{_span(f'{low:.1f}', f'{high:.1f}')} times as fast"
    return f"faster by {_percents(100 * (low - 1), 100 * (high - 1))} %"


def _percent(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _percents(low: float, high: float) -> str:
    whole = (f"{low:.0f}", f"{high:.0f}")
    if whole[0] != whole[1] and low >= 0.5:
        return _span(*whole)
    return _span(f"{low:.1f}", f"{high:.1f}")


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def by_round(
    runs: Iterable[RunResult], cell: str, workload: str, metric: str = "tok_s"
) -> dict[int, list[float]]:
    """A metric of a cell's runs that succeeded and measured it, by round; zero is no rate."""
    found: dict[int, list[float]] = {}
    for run in runs:
        value = run.metric(metric)
        wanted = run.cell == cell and run.workload == workload and run.failure is None
        if wanted and value is not None and value > 0:
            found.setdefault(run.round, []).append(value)
    return found


def verdict(runs: Iterable[RunResult], cell: str, workload: str, off: str = OFF) -> Verdict:
    """The verdict on a cell, of all runs of a campaign, against the cell called ``off``."""
    runs = tuple(runs)
    estimate = paired_estimate(by_round(runs, cell, workload), by_round(runs, off, workload))
    failures = [
        run.failure
        for run in runs
        if run.cell == cell and run.workload == workload and run.failure is not None
    ]
    failure = failures[0] if failures else None
    if estimate is None and failure is None:
        off_failed = (r.failure for r in runs if r.cell == off and r.workload == workload)
        reason = next((text for text in off_failed if text is not None), None)
        failure = f"{off} failed: {reason}" if reason else None
    return Verdict(
        cell=cell,
        workload=workload,
        kind=kind_of(estimate),
        estimate=estimate,
        failure=failure,
        failed_runs=len(failures),
    )


def kind_of(estimate: Estimate | None) -> VerdictKind:
    """The verdict that an estimate of a ratio of rates allows."""
    if estimate is None:
        return "failed"
    if estimate.half_width is None:
        return "not enough rounds"
    if not estimate.differs:
        return "no difference"
    return "faster" if estimate.log_ratio > 0 else "slower"


def verdicts(result: CampaignResult) -> tuple[Verdict, ...]:
    """The verdicts on all cells but ``off``, by workload, in the order in which they were given.

    A cell that has no run yet has no verdict.
    """
    names = [str(cell["name"]) for cell in result.cells if "name" in cell]
    workloads = dict.fromkeys(run.workload for run in result.runs)
    there = {(run.workload, run.cell) for run in result.runs}
    return tuple(
        verdict(result.runs, name, workload)
        for workload in workloads
        for name in names
        if name != OFF and (workload, name) in there
    )
