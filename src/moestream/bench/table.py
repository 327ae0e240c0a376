"""Cells of a campaign as rows of numbers: medians of the runs that succeeded."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from moestream.bench.cells import OFF, Cell
from moestream.bench.result import CampaignResult, RunResult
from moestream.bench.verdict import Verdict, verdicts

__all__ = ["PARTS", "Row", "rows_of", "workloads_of"]

#: Metrics whose sum is the wall time of a token, in the order in which they are stacked.
PARTS: Final = ("compute_ms", "stall_ms", "draft_ms", "other_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A cell on a workload.

    Attributes:
        cell: the cell.
        runs: its runs, failed ones too.
        verdict: against ``off``; ``None`` of ``off`` itself.
    """

    cell: Cell
    runs: tuple[RunResult, ...]
    verdict: Verdict | None

    @property
    def good(self) -> tuple[RunResult, ...]:
        """The runs that succeeded."""
        return tuple(run for run in self.runs if run.failure is None)

    @property
    def failure(self) -> str | None:
        """Why a run failed; the first reason."""
        return next((run.failure for run in self.runs if run.failure is not None), None)

    def values(self, metric: str) -> tuple[float, ...]:
        """A metric of all runs that measured it."""
        found = (run.metric(metric) for run in self.good)
        return tuple(value for value in found if value is not None)

    def median(self, metric: str) -> float | None:
        """The median of a metric; ``None`` if no run measured it."""
        values = self.values(metric)
        return statistics.median(values) if values else None

    def mean(self, metric: str) -> float | None:
        """The mean of a metric: of parts it sums as they do."""
        values = self.values(metric)
        return statistics.fmean(values) if values else None

    @property
    def peak_bytes(self) -> int | None:
        """Most memory ever charged to a run."""
        return max((r.peak_bytes for r in self.runs if r.peak_bytes is not None), default=None)

    def at_positions(self) -> tuple[tuple[int, int], ...]:
        """How often each draft position was offered and accepted, over all runs."""
        n = max((len(run.offered_at) for run in self.good), default=0)
        return tuple(
            (_sum_at(i, [r.offered_at for r in self.good]),
             _sum_at(i, [r.accepted_at for r in self.good]))
            for i in range(n)
        )  # fmt: skip


def workloads_of(result: CampaignResult) -> tuple[str, ...]:
    """Names of the workloads, in the order in which they first ran."""
    return tuple(dict.fromkeys(run.workload for run in result.runs))


def rows_of(result: CampaignResult, workload: str) -> tuple[Row, ...]:
    """``off`` first, then the other cells that ran, in the order in which they were given."""
    said = {verdict.cell: verdict for verdict in verdicts(result) if verdict.workload == workload}
    cells = sorted(map(Cell.from_json, result.cells), key=lambda cell: cell.name != OFF)
    rows = []
    for cell in cells:
        runs = [r for r in result.runs if r.cell == cell.name and r.workload == workload]
        if runs:
            rows.append(Row(cell=cell, runs=tuple(runs), verdict=said.get(cell.name)))
    return tuple(rows)


def _sum_at(i: int, rows: Sequence[Sequence[int]]) -> int:
    return sum(row[i] for row in rows if i < len(row))
