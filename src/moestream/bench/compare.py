"""Two campaigns against each other, cell by cell: another version, another machine, another limit.

They were not measured side by side, so whatever changed between them is in the ratio; that is why
each cell stands there twice: its own speed in both, and its speed relative to ``off`` in both, from
which the machine's mood cancels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from moestream.bench.cells import OFF
from moestream.bench.result import CampaignResult
from moestream.bench.stats import Estimate, paired_estimate, unpaired_estimate
from moestream.bench.verdict import by_round, estimate_numbers, kind_of, verdict_words
from moestream.errors import ConfigError

__all__ = ["CampaignComparison", "ComparedCell", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCell:
    """A cell that both campaigns have, on a workload that both have.

    Attributes:
        cell: name of the cell.
        workload: name of the workload.
        tok_s: mean rates in the first and in the second; ``None`` where no run succeeded.
        speed: second over first.
        against_off: second over first, each relative to its own ``off``; ``None`` for ``off``.
    """

    cell: str
    workload: str
    tok_s: tuple[float | None, float | None]
    speed: Estimate | None
    against_off: Estimate | None

    @property
    def words(self) -> str:
        """The verdict on the second campaign's speed."""
        return verdict_words(kind_of(self.speed), self.speed, "not measured in both")

    @property
    def words_against_off(self) -> str:
        """The verdict on what the cell brings against ``off``."""
        if self.cell == OFF:
            return ""
        kind = kind_of(self.against_off)
        return verdict_words(kind, self.against_off, "not measured in both")


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignComparison:
    """What changed from the first campaign to the second.

    Attributes:
        names: names of the campaigns.
        cells: what both have.
        notes: what else differs between them, and what was left out.
    """

    names: tuple[str, str]
    cells: tuple[ComparedCell, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; ratios are second over first, of rates."""
        return {
            "first": self.names[0],
            "second": self.names[1],
            "notes": list(self.notes),
            "cells": [
                {
                    "cell": row.cell,
                    "workload": row.workload,
                    "first_tok_s": row.tok_s[0],
                    "second_tok_s": row.tok_s[1],
                    "speed": {**estimate_numbers(row.speed), "words": row.words},
                    "against_off": (
                        None
                        if row.cell == OFF
                        else {**estimate_numbers(row.against_off), "words": row.words_against_off}
                    ),
                }
                for row in self.cells
            ],
        }

    def markdown(self) -> str:
        """A table a cell and workload, and the notes under it."""
        first, second = (_plain(name) for name in self.names)
        lines = [
            f"| workload | cell | {first} tok/s | {second} tok/s | ratio | {second} is "
            "| against off, it is |",
            "|---|---|---:|---:|---:|---|---|",
        ]
        lines += [
            f"| {_plain(row.workload)} | {_plain(row.cell)} | {_rate(row.tok_s[0])} "
            f"| {_rate(row.tok_s[1])} | {_ratio(row.speed)} | {row.words} "
            f"| {row.words_against_off} |"
            for row in self.cells
        ]
        lines += ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines)


def _plain(text: str) -> str:
    """Text that cannot end a table's column."""
    return text.replace("|", "\\|")


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _ratio(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.ratio:.3f}"
    return f"{estimate.ratio:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def compare(
    first: CampaignResult, second: CampaignResult, *, force: bool = False
) -> CampaignComparison:
    """Compare two campaigns on the same model.

    Args:
        first: what is compared with.
        second: what is judged.
        force: compare different models all the same.

    Raises:
        ConfigError: the models differ, or no cell was run in both.
    """
    notes = [*_model_notes(first, second, force), *_setting_notes(first, second)]
    changed = _changed_cells(first, second)
    rows = [
        _row(first, second, cell, workload)
        for workload, cell in _common(first, second)
        if cell not in changed
    ]
    notes += [
        f"cell {name!r} is configured differently in the two, and left out"
        for name in sorted(changed)
    ]
    alone = sorted(_cells(first) ^ _cells(second))
    if alone:
        notes.append(f"only one of them has {', '.join(alone)}")
    if not rows:
        raise ConfigError(
            f"no cell was run on the same workload in both campaigns: {first.name!r} has "
            f"{', '.join(sorted(_cells(first))) or 'no runs'}, {second.name!r} has "
            f"{', '.join(sorted(_cells(second))) or 'no runs'}"
        )
    return CampaignComparison(names=_names(first, second), cells=tuple(rows), notes=tuple(notes))


def _names(first: CampaignResult, second: CampaignResult) -> tuple[str, str]:
    if first.name != second.name:
        return first.name, second.name
    return f"{first.name} (first)", f"{second.name} (second)"


def _cells(result: CampaignResult) -> set[str]:
    return {run.cell for run in result.runs}


def _common(first: CampaignResult, second: CampaignResult) -> Iterator[tuple[str, str]]:
    """Workloads and cells that both have, in the first one's order."""
    there = {(run.workload, run.cell) for run in second.runs}
    workloads = dict.fromkeys(run.workload for run in first.runs)
    cells = dict.fromkeys(str(cell.get("name")) for cell in first.cells)
    here = {(run.workload, run.cell) for run in first.runs}
    for workload in workloads:
        for cell in cells:
            if (workload, cell) in here & there:
                yield workload, cell


def _changed_cells(first: CampaignResult, second: CampaignResult) -> set[str]:
    mine, theirs = ({c.get("name"): dict(c) for c in result.cells} for result in (first, second))
    return {str(name) for name in mine.keys() & theirs.keys() if mine[name] != theirs[name]}


def _row(first: CampaignResult, second: CampaignResult, cell: str, workload: str) -> ComparedCell:
    ours, theirs = (by_round(result.runs, cell, workload) for result in (first, second))
    against = [
        paired_estimate(by_round(result.runs, cell, workload), by_round(result.runs, OFF, workload))
        for result in (first, second)
    ]
    return ComparedCell(
        cell=cell,
        workload=workload,
        tok_s=(_mean(ours), _mean(theirs)),
        speed=unpaired_estimate(theirs, ours),
        against_off=None if cell == OFF else _quotient(against[1], against[0]),
    )


def _mean(values: dict[int, list[float]]) -> float | None:
    logs = [math.log(value) for rates in values.values() for value in rates]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _quotient(above: Estimate | None, below: Estimate | None) -> Estimate | None:
    """The ratio of two independent ratios."""
    if above is None or below is None:
        return None
    half_width = None
    if above.half_width is not None and below.half_width is not None:
        half_width = math.hypot(above.half_width, below.half_width)
    return Estimate(
        rounds=min(above.rounds, below.rounds),
        log_ratio=above.log_ratio - below.log_ratio,
        half_width=half_width,
    )


def _model_notes(first: CampaignResult, second: CampaignResult, force: bool) -> Iterator[str]:
    mine, theirs = first.model, second.model
    if (mine.size_bytes, mine.arch) == (theirs.size_bytes, theirs.arch):
        return
    text = (
        f"{first.name!r} measured {mine.path} ({mine.arch}, {mine.size_bytes} bytes), "
        f"{second.name!r} measured {theirs.path} ({theirs.arch}, {theirs.size_bytes} bytes)"
    )
    if not force:
        raise ConfigError(
            f"the campaigns are of different models: {text}; a ratio of their speeds says "
            "nothing about settings. Use --force to compare them all the same"
        )
    yield f"different models: {text}"


def _setting_notes(first: CampaignResult, second: CampaignResult) -> Iterator[str]:
    mine, theirs = first.machine, second.machine
    if mine != theirs:
        differences = ", ".join(
            f"{name} {here} / {there}"
            for name, here, there in (
                ("processor", mine.cpu, theirs.cpu),
                ("cores", mine.cores, theirs.cores),
                ("kernel", mine.kernel, theirs.kernel),
                ("RAM in MiB", mine.ram_mib, theirs.ram_mib),
            )
            if here != there
        )
        yield f"different machines: {differences}"
    if first.version != second.version:
        yield f"different versions of moestream: {first.version} / {second.version}"
    if first.regime != second.regime:
        yield f"different memory limits: {_limit(first.regime)} / {_limit(second.regime)}"
    failed = [sum(run.failure is not None for run in r.runs) for r in (first, second)]
    if any(failed):
        yield f"failed runs, left out: {failed[0]} / {failed[1]}"


def _limit(regime: int | None) -> str:
    return "none" if regime is None else f"{regime / 2**30:.2f} GiB"
