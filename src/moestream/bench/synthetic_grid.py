"""When speculation would pay here: the map acceptance x width x hit rate -> speed.

With synthetic acceptance the map does not depend on a head or a text. Each drafting cell is
compared with the cell that is configured alike but does not draft, in the same rounds; where the
ratio crosses 1 is the break-even acceptance of that width and cache.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from moestream.bench.cell_grammar import parse_cells
from moestream.bench.cells import OFF, Cell, Setting
from moestream.bench.result import CampaignResult, RunResult
from moestream.bench.stats import Estimate, paired_estimate
from moestream.bench.verdict import by_round, estimate_numbers
from moestream.config import SpeculationConfig
from moestream.errors import ConfigError

__all__ = [
    "BreakEven",
    "GridPoint",
    "break_even",
    "synthetic_cells",
    "synthetic_grid",
]

_ACCEPTANCE: Final = "speculation.synthetic_acceptance"
_DRAFT: Final = "speculation.draft"
_SOURCE: Final = "speculation.source"

Crossing = Literal["at", "below", "above"]


def synthetic_cells(
    acceptances: Sequence[float],
    widths: Sequence[int],
    caches: Sequence[int | str] = (),
    source: str = "ngram",
) -> tuple[Cell, ...]:
    """The cells of a map: every acceptance with every width, in every cache, and each cache alone.

    Args:
        acceptances: probabilities with which a draft is confirmed.
        widths: tokens drafted.
        caches: sizes in MiB, or ``"auto"``; empty leaves the campaign's own.
        source: ``"mtp"`` includes what the model's own head costs, ``"ngram"`` drafts for nothing.

    Raises:
        ConfigError: a value is out of range, or there is none.
    """
    if not acceptances or not widths:
        raise ConfigError("a map needs an acceptance and a width at least")
    origin = "" if source == "ngram" else f"@source={source}"
    cells = [OFF]
    for cache in caches or ("",):
        place = f"@cache={cache}" if cache != "" else ""
        if place:
            cells.append(place[1:])
        for width in widths:
            cells += [f"synth:{value:g}@draft={width}{origin}{place}" for value in acceptances]
    return parse_cells(",".join(cells))


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPoint:
    """A drafting cell of the map on a workload.

    Attributes:
        cell: its name.
        reference: name of the cell that is configured alike and does not draft.
        workload: name of the workload.
        source: who drafted.
        acceptance: probability with which a draft was confirmed.
        width: tokens drafted.
        tok_s: effective rate, mean over the rounds.
        hit_pct: hit rate of the reference, which says how the cache does without speculation.
        draft_hit_pct: hit rate while drafting.
        mib_per_token: MiB read per token while drafting.
        tokens_per_verify: tokens that a verify decode confirmed.
        speed: ratio to the reference.
    """

    cell: str
    reference: str
    workload: str
    source: str
    acceptance: float
    width: int
    tok_s: float | None
    hit_pct: float | None
    draft_hit_pct: float | None
    mib_per_token: float | None
    tokens_per_verify: float | None
    speed: Estimate | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "cell": self.cell,
            "reference": self.reference,
            "workload": self.workload,
            "source": self.source,
            "acceptance": self.acceptance,
            "width": self.width,
            "tok_s": self.tok_s,
            "hit_pct": self.hit_pct,
            "draft_hit_pct": self.draft_hit_pct,
            "mib_per_token": self.mib_per_token,
            "tokens_per_verify": self.tokens_per_verify,
            **estimate_numbers(self.speed),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """The acceptance from which on a width pays.

    Attributes:
        reference: name of the cell that does not draft.
        workload: name of the workload.
        source: who drafted.
        width: tokens drafted.
        crossing: ``"at"`` the acceptance; ``"below"`` it if the width pays everywhere that was
            measured, ``"above"`` it if it pays nowhere.
        acceptance: the acceptance, interpolated; otherwise the last one measured on that side.
        hit_pct: hit rate of the reference.
    """

    reference: str
    workload: str
    source: str
    width: int
    crossing: Crossing
    acceptance: float
    hit_pct: float | None

    @property
    def words(self) -> str:
        """``pays from an acceptance of 0.63 on`` and the like."""
        return {
            "at": f"pays from an acceptance of {self.acceptance:.2f} on",
            "below": f"pays at {self.acceptance:g} already",
            "above": f"does not pay up to {self.acceptance:g}",
        }[self.crossing]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "reference": self.reference,
            "workload": self.workload,
            "source": self.source,
            "width": self.width,
            "crossing": self.crossing,
            "acceptance": self.acceptance,
            "hit_pct": self.hit_pct,
            "words": self.words,
        }


def synthetic_grid(result: CampaignResult) -> tuple[GridPoint, ...]:
    """The points of the map, by workload, reference, source, width and acceptance.

    Raises:
        ConfigError: no cell of the campaign has synthetic acceptance, or one has no reference.
    """
    cells = [Cell.from_json(cell) for cell in result.cells]
    drafting = [cell for cell in cells if _ACCEPTANCE in cell.overrides]
    if not drafting:
        raise ConfigError(
            f"campaign {result.name!r} has no cell with synthetic acceptance, so there is no map; "
            "add some, such as synth:0.4/0.6/0.8@draft=3"
        )
    order = {cell.name: i for i, cell in enumerate(cells)}
    points = [
        _point(result.runs, cell, _reference(cell, cells), workload)
        for workload in dict.fromkeys(run.workload for run in result.runs)
        for cell in drafting
        if any(run.cell == cell.name and run.workload == workload for run in result.runs)
    ]
    workloads = list(dict.fromkeys(point.workload for point in points))
    return tuple(
        sorted(
            points,
            key=lambda p: (
                workloads.index(p.workload),
                order[p.reference],
                p.source,
                p.width,
                p.acceptance,
            ),
        )
    )


def _reference(cell: Cell, cells: Iterable[Cell]) -> str:
    wanted = cell.without("speculation")
    for other in cells:
        if other.kind == "engine" and dict(other.overrides) == wanted:
            return other.name
    settings = ", ".join(f"{key}={value}" for key, value in wanted.items())
    raise ConfigError(
        f"cell {cell.name!r} has nothing to be compared with: add a cell with {settings} and no "
        "drafting"
    )


def _number(values: Mapping[str, Setting], key: str, default: float) -> float:
    value = values.get(key, default)
    return float(value) if isinstance(value, int | float) else default


def _point(runs: Iterable[RunResult], cell: Cell, reference: str, workload: str) -> GridPoint:
    runs = tuple(runs)
    rates = by_round(runs, cell.name, workload)
    return GridPoint(
        cell=cell.name,
        reference=reference,
        workload=workload,
        source=str(cell.overrides[_SOURCE]),
        acceptance=_number(cell.overrides, _ACCEPTANCE, 0.0),
        width=int(_number(cell.overrides, _DRAFT, SpeculationConfig().draft)),
        tok_s=_mean(rates),
        hit_pct=_metric(runs, reference, workload, "hit_pct"),
        draft_hit_pct=_metric(runs, cell.name, workload, "hit_pct"),
        mib_per_token=_metric(runs, cell.name, workload, "mib_per_token"),
        tokens_per_verify=_metric(runs, cell.name, workload, "tokens_per_verify"),
        speed=paired_estimate(
            rates, by_round(runs, reference, workload), by_round(runs, OFF, workload)
        ),
    )


def _mean(rates: Mapping[int, Sequence[float]]) -> float | None:
    logs = [math.log(value) for values in rates.values() for value in values]
    return math.exp(statistics.fmean(logs)) if logs else None


def _metric(runs: Iterable[RunResult], cell: str, workload: str, name: str) -> float | None:
    values = [
        value
        for run in runs
        if (run.cell, run.workload, run.failure) == (cell, workload, None)
        and (value := run.metric(name)) is not None
    ]
    return statistics.fmean(values) if values else None


def break_even(points: Iterable[GridPoint]) -> tuple[BreakEven, ...]:
    """The break-even acceptance of each width, source, reference and workload.

    More acceptance cannot make drafting slower, so where noise says it does the neighbours are
    averaged until it does not; the crossing is interpolated between the logarithms of the ratios.
    """
    groups: dict[tuple[str, str, str, int], list[GridPoint]] = {}
    for point in points:
        if point.speed is not None:
            key = (point.workload, point.reference, point.source, point.width)
            groups.setdefault(key, []).append(point)
    return tuple(_crossing(group) for group in groups.values())


def _crossing(group: list[GridPoint]) -> BreakEven:
    group = sorted(group, key=lambda point: point.acceptance)
    at = [point.acceptance for point in group]
    logs = _rising([point.speed.log_ratio for point in group if point.speed is not None])
    crossing: Crossing = "at"
    if logs[0] >= 0:
        crossing, acceptance = "below", at[0]
    elif logs[-1] < 0:
        crossing, acceptance = "above", at[-1]
    else:
        i = next(k for k, value in enumerate(logs) if value >= 0)
        share = -logs[i - 1] / (logs[i] - logs[i - 1])
        acceptance = at[i - 1] + share * (at[i] - at[i - 1])
    first = group[0]
    return BreakEven(
        reference=first.reference,
        workload=first.workload,
        source=first.source,
        width=first.width,
        crossing=crossing,
        acceptance=acceptance,
        hit_pct=first.hit_pct,
    )


def _rising(values: Sequence[float]) -> list[float]:
    """The nearest sequence that does not fall (least squares: pool adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for value in values:
        mean, size = value, 1
        while pools and pools[-1][0] > mean:
            before, count = pools.pop()
            mean = (mean * size + before * count) / (size + count)
            size += count
        pools.append((mean, size))
    return [mean for mean, size in pools for _ in range(size)]
