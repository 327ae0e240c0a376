"""Campaigns: which cell runs when, what is left to do after an interruption, and campaign files.

The order of runs is what makes a comparison fair. Every round runs every cell once, so that a slow
hour hits all of them; every other round runs backwards, so that what drifts within a round does not
favour whoever comes first; and ``off`` runs at both ends of a round and between, so that each round
carries its own scale and its own noise. The order is a pure function of the campaign.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from moestream.bench.cells import OFF, Cell
from moestream.bench.result import RunResult
from moestream.bench.workloads import Workload
from moestream.errors import ConfigError

__all__ = ["OFF_EVERY", "Campaign", "PlannedRun"]

#: Most cells that run between two runs of ``off``.
OFF_EVERY: Final = 6

_MOST_ROUNDS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run that is to be made; the fields are those of :class:`RunResult`."""

    order: int
    round: int
    workload: str
    cell: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What is compared, on what, how often.

    Attributes:
        name: what the results are called.
        cells: ``off`` is put in front if it is missing.
        workloads: every cell runs each of them once a round.
        rounds: how often.
        tokens: tokens to generate in a run.
    """

    name: str
    cells: tuple[Cell, ...]
    workloads: tuple[Workload, ...]
    rounds: int
    tokens: int

    def __post_init__(self) -> None:
        names = [cell.name for cell in self.cells]
        if OFF not in names:
            object.__setattr__(self, "cells", (Cell(OFF, {}), *self.cells))
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"cell {twice[0]!r} is there twice; rename one of them, or drop it")
        off = next(cell for cell in self.cells if cell.name == OFF)
        if off.kind != "engine" or off.overrides:
            raise ConfigError(
                f"{OFF!r} is the campaign's own configuration and changes nothing; "
                "give the cell another name"
            )
        if not self.workloads:
            raise ConfigError("a campaign needs a workload, such as prose")
        if not 1 <= self.rounds <= _MOST_ROUNDS:
            raise ConfigError(f"rounds must lie in 1..{_MOST_ROUNDS}, got {self.rounds}")
        if self.tokens < 2:
            raise ConfigError(
                f"a run must generate at least 2 tokens (the first is the prompt's), "
                f"got {self.tokens}"
            )

    def cell(self, name: str) -> Cell:
        """The cell of that name."""
        return next(cell for cell in self.cells if cell.name == name)

    def plan(self) -> tuple[PlannedRun, ...]:
        """All runs, in their order. More rounds add to the end and change nothing before it."""
        runs: list[PlannedRun] = []
        for number in range(self.rounds):
            for workload, cell in self._round(number):
                runs.append(PlannedRun(order=len(runs), round=number, workload=workload, cell=cell))
        return tuple(runs)

    def _round(self, number: int) -> Iterator[tuple[str, str]]:
        workloads = [workload.name for workload in self.workloads]
        cells = _with_off([cell.name for cell in self.cells if cell.name != OFF])
        if number % 2:
            workloads.reverse()
            cells.reverse()
        return ((workload, cell) for workload in workloads for cell in cells)

    def missing(self, results: Iterable[RunResult]) -> tuple[PlannedRun, ...]:
        """What is left of the plan, given what was measured before an interruption.

        A run that failed was made: its reason is its result.

        Raises:
            ConfigError: a result is not of this plan.
        """
        plan = self.plan()
        done: set[int] = set()
        for result in results:
            planned = plan[result.order] if result.order < len(plan) else None
            if planned is None or (result.round, result.workload, result.cell) != (
                planned.round,
                planned.workload,
                planned.cell,
            ):
                raise ConfigError(
                    f"run {result.order} of the results is {result.cell!r} on "
                    f"{result.workload!r} in round {result.round}, which is not what this "
                    "campaign runs there: go on with the same cells and workloads and as many "
                    "rounds at least, or begin in a new directory"
                )
            done.add(result.order)
        return tuple(run for run in plan if run.order not in done)


def _with_off(cells: Sequence[str]) -> list[str]:
    """``off`` first, last, and between: in the middle, or after :data:`OFF_EVERY` cells at most.

    All cells share the reference, so its runs are well spent: a third one takes a tenth off every
    noise floor.
    """
    stretches = max(-(-len(cells) // OFF_EVERY), min(len(cells), 2), 1)
    order = [OFF]
    for i in range(stretches):
        begin, end = (len(cells) * k // stretches for k in (i, i + 1))
        order += [*cells[begin:end], OFF]
    return order
