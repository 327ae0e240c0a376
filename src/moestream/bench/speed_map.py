"""The map of a campaign with synthetic acceptance, as tables and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moestream.bench.markdown import table
from moestream.bench.result import CampaignResult
from moestream.bench.synthetic_grid import (
    BreakEven,
    GridPoint,
    break_even,
    synthetic_grid,
)
from moestream.telemetry.figures import COLOURS, DARK, Sheet, panel, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_map", "has_map", "map_sections"]

_TICKS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 4, 6, 10)
_ACCEPTANCE: Final = "speculation.synthetic_acceptance"

Group = tuple[str, tuple[GridPoint, ...], tuple[BreakEven, ...]]


def has_map(result: CampaignResult) -> bool:
    """Whether any cell of the campaign forces acceptance and has run."""
    ran = {run.cell for run in result.runs}
    return any(
        _ACCEPTANCE in cell.get("overrides", {}) and cell.get("name") in ran
        for cell in result.cells
    )


def map_sections(result: CampaignResult) -> list[str]:
    """Markdown: a table a workload and cache, acceptance down and width across."""
    parts = []
    for title, points, crossings in _groups(result):
        widths = sorted({point.width for point in points})
        at = {(p.acceptance, p.width): p for p in points}
        rows = [
            [f"{acceptance:g}", *(_ratio(at.get((acceptance, width))) for width in widths)]
            for acceptance in sorted({point.acceptance for point in points})
        ]
        crossing = {c.width: c.words for c in crossings}
        rows.append(["break-even", *(crossing.get(width, "") for width in widths)])
        parts += [
            f"### {title}",
            table(["acceptance", *(f"width {width}" for width in widths)], rows),
        ]
    if parts:
        parts.insert(0, _LEGEND)
    return parts


_LEGEND: Final = (
    "Speed of drafting relative to the same configuration without it, with 95 % intervals; above 1 "
    "drafting pays. Acceptance is the probability with which each draft was confirmed, by chance."
)


def _ratio(point: GridPoint | None) -> str:
    if point is None or point.speed is None:
        return "-"
    estimate = point.speed
    if estimate.low is None or estimate.high is None:
        return f"{estimate.ratio:.2f}"
    return f"{estimate.ratio:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _groups(result: CampaignResult) -> list[Group]:
    points = synthetic_grid(result)
    found: dict[tuple[str, str, str], list[GridPoint]] = {}
    for point in points:
        found.setdefault((point.workload, point.reference, point.source), []).append(point)
    crossings = break_even(points)
    groups: list[Group] = []
    for key, members in found.items():
        workload, reference, source = key
        own = tuple(c for c in crossings if (c.workload, c.reference, c.source) == key)
        hits = next((p.hit_pct for p in members if p.hit_pct is not None), None)
        title = f"{workload}, {source} drafting against {reference}"
        if hits is not None:
            title += f" (which hits {hits:.0f} %)"
        groups.append((title, tuple(members), own))
    return groups


def draw_map(result: CampaignResult, lines: Sequence[str]) -> Figure | None:
    """A panel a workload and cache: speed over acceptance, a line a width; ``None`` without."""
    groups = [
        (title, [p for p in points if p.speed is not None], crossings)
        for title, points, crossings in _groups(result)
    ]
    groups = [group for group in groups if group[1]]
    if not groups:
        return None
    sheet = Sheet(
        "When drafting pays here",
        lines,
        [240] * len(groups),
        "Acceptance is forced, whatever the model says. Above the line drafting pays; bars are "
        "95 % intervals, and rings are where a width breaks even.",
    )
    for i, (title, points, crossings) in enumerate(groups):
        axes = sheet.axes(i)
        box = axes.get_position()
        axes.set_position((box.x0, box.y0, box.width * 0.86, box.height))
        widths = sorted({point.width for point in points})
        for k, width in enumerate(widths):
            colour = COLOURS[k % len(COLOURS)]
            own = sorted((p for p in points if p.width == width), key=lambda p: p.acceptance)
            x = [p.acceptance for p in own]
            y = [p.speed.ratio for p in own if p.speed is not None]
            axes.plot(x, y, color=colour, marker="o", lw=1.8, label=f"width {width}")
            for point in own:
                estimate = point.speed
                if estimate is not None and estimate.low and estimate.high:
                    shift = point.acceptance + 0.004 * (k - (len(widths) - 1) / 2)
                    axes.plot((shift, shift), (estimate.low, estimate.high), color=colour, lw=4,
                              alpha=0.3, solid_capstyle="butt")  # fmt: skip
            for crossing in crossings:
                if crossing.width == width and crossing.crossing == "at":
                    axes.plot([crossing.acceptance], [1.0], "o", color=colour, fillstyle="none",
                              markersize=11, markeredgewidth=2, zorder=4)  # fmt: skip
        axes.axhline(1.0, color=DARK, lw=1.2)
        _logarithmic(axes, [p.speed.ratio for p in points if p.speed is not None])
        panel(axes, plain(title), x="acceptance of a draft", y="speed, as a ratio")
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02))
    return sheet.figure


def _logarithmic(axes: Axes, ratios: Sequence[float]) -> None:
    """Twice and half as fast are as far from 1; intervals that know nothing are cut off."""
    low, high = min(*ratios, 0.8) / 1.25, max(*ratios, 1.25) * 1.25
    axes.set_yscale("log", base=2)
    axes.set_ylim(low, high)
    ticks = [t for t in _TICKS if low <= t <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks([], minor=True)
