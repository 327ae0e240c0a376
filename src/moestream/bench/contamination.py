"""Tells that something else was measured than what was meant.

A number alone does not show that the machine was busy, hot or short of memory while it was made.
Other numbers do: settings of reading cannot change how long computing takes, and page faults of
another order of magnitude mean that memory was short for a time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from moestream.bench.cells import OFF, Cell
from moestream.bench.result import CampaignResult, RunResult
from moestream.bench.stats import paired_estimate
from moestream.bench.verdict import by_round

__all__ = ["Tell", "contamination"]

#: Settings that decide when bytes are read, and nothing about the arithmetic. Overlap is none of
#: them: with it, waiting is an upper bound, and so computing a lower one.
_READING: Final = frozenset(
    f"streaming.{name}"
    for name in ("cache_mb", "cache_ceil_mb", "io_threads", "o_direct", "prefetch")
)
#: Dropping experts can only save arithmetic.
_DROPPING: Final = frozenset({"streaming.drop_cold_experts", "streaming.drop_in_prefill"})
#: Settings that put weights where pages are faulted in: many faults are what they do.
_MAPPING: Final = frozenset({"streaming.dense_weights", "streaming.moe_stream"})

#: Computing has moved if it did so by more than its noise and by more than this.
_LEAST_SHIFT: Final = math.log(1.05)
_FAULT_FACTOR: Final = 10.0
_LEAST_FAULTS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Why a cell's numbers are doubtful.

    Attributes:
        cell: name of the cell.
        workload: name of the workload.
        orders: the runs that it is about; empty if it is about all of the cell's.
        text: what was seen and what it means.
    """

    cell: str
    workload: str
    orders: tuple[int, ...]
    text: str


def contamination(result: CampaignResult) -> tuple[Tell, ...]:
    """Every tell that the runs of a campaign show."""
    cells = [Cell.from_json(cell) for cell in result.cells]
    tells: list[Tell] = []
    for workload in dict.fromkeys(run.workload for run in result.runs):
        runs = [r for r in result.runs if r.workload == workload and r.failure is None]
        for cell in cells:
            tells += _compute(runs, cell, workload)
            tells += _faults_against_off(runs, cell, workload)
            tells += _faults_against_itself(runs, cell, workload)
            tells += _gates(runs, cell, workload)
    return tuple(tells)


def _compute(runs: list[RunResult], cell: Cell, workload: str) -> Iterable[Tell]:
    changed = frozenset(cell.overrides)
    if cell.name == OFF or cell.kind != "engine" or changed - _READING - _DROPPING:
        return
    ours, off = (by_round(runs, name, workload, "compute_ms") for name in (cell.name, OFF))
    estimate = paired_estimate(ours, off)
    if estimate is None or not estimate.differs or abs(estimate.log_ratio) < _LEAST_SHIFT:
        return
    if estimate.log_ratio < 0 and changed & _DROPPING:
        return  # fewer experts, less to compute
    moved = 100 * math.expm1(estimate.log_ratio)
    yield Tell(
        cell=cell.name,
        workload=workload,
        orders=(),
        text=(
            f"computing took {moved:+.0f} % against off (noise floor {estimate.floor_pct:.1f} %), "
            "which this cell's settings cannot cause: the processor was slower or shared in part "
            "of the runs"
        ),
    )


def _faults_against_off(runs: list[RunResult], cell: Cell, workload: str) -> Iterable[Tell]:
    if cell.name == OFF or cell.kind != "engine" or frozenset(cell.overrides) & _MAPPING:
        return
    ours, off = (_faults(runs, name) for name in (cell.name, OFF))
    if not ours or not off:
        return
    here, there = statistics.median(ours.values()), statistics.median(off.values())
    if here > _LEAST_FAULTS and here >= _FAULT_FACTOR * there:
        yield Tell(
            cell=cell.name,
            workload=workload,
            orders=(),
            text=(
                f"{here:.1f} major faults per token where off has {there:.1f}: memory was short "
                "for this cell, and the difference in speed may be that"
            ),
        )


def _faults_against_itself(runs: list[RunResult], cell: Cell, workload: str) -> Iterable[Tell]:
    faults = _faults(runs, cell.name)
    if len(faults) < 3:
        return
    usual = statistics.median(faults.values())
    orders = tuple(
        order
        for order, value in faults.items()
        if value > _LEAST_FAULTS and value >= _FAULT_FACTOR * usual
    )
    if orders:
        yield Tell(
            cell=cell.name,
            workload=workload,
            orders=orders,
            text=(
                f"{_runs(orders)} had ten times the major faults of the cell's other runs "
                f"({usual:.1f} per token): memory was short for a time"
            ),
        )


def _gates(runs: list[RunResult], cell: Cell, workload: str) -> Iterable[Tell]:
    orders = tuple(
        run.order
        for run in runs
        if run.cell == cell.name and run.entry is not None and run.entry.gate_expired
    )
    if orders:
        yield Tell(
            cell=cell.name,
            workload=workload,
            orders=orders,
            text=f"{_runs(orders)} began although the gates were not passed in time",
        )


def _faults(runs: list[RunResult], cell: str) -> Mapping[int, float]:
    return {
        run.order: value
        for run in runs
        if run.cell == cell and (value := run.metric("majflt_per_token")) is not None
    }


def _runs(orders: tuple[int, ...]) -> str:
    numbers = ", ".join(str(order) for order in orders)
    return f"run {numbers}" if len(orders) == 1 else f"runs {numbers}"
