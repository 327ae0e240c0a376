"""Pictures of a campaign: speed, time, acceptance, and what wider drafts and larger caches do."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moestream.bench.cells import OFF
from moestream.bench.panels import LONGEST, curve, from_zero, geometric_mean, legend_right
from moestream.bench.result import CampaignResult
from moestream.bench.speed_map import draw_map, has_map
from moestream.bench.table import PARTS, Row, rows_of, workloads_of
from moestream.telemetry.figures import (
    COLOURS,
    DARK,
    GREY,
    Sheet,
    check_picture,
    legend_beside_title,
    panel,
    picture_style,
    plain,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_campaign"]

_PART_COLOURS: Final = dict(zip(PARTS, ("#56B4E9", "#D55E00", "#009E73", "#BBBBBB"), strict=True))
_VERDICT_COLOURS: Final = {"faster": "#009E73", "slower": "#D55E00"}
_ROW: Final = 27
_MOST_ROWS: Final = 60
#: Room for names of cells at the left, as a share of a panel.
_NAMES: Final = 0.2

Table = tuple[tuple[str, tuple[Row, ...]], ...]


def plot_campaign(result: CampaignResult, directory: Path) -> tuple[str, ...]:
    """Draw what there is to draw; the names of the files.

    Raises:
        PlatformError: matplotlib is not installed.
        OSError: a picture cannot be written.
    """
    check_picture(Path("speed.png"))
    table: Table = tuple((w, rows_of(result, w)[:_MOST_ROWS]) for w in workloads_of(result))
    made = []
    with picture_style():
        for name, draw in _PICTURES:
            figure = draw(result, table)
            if figure is not None:
                save(figure, directory / f"{name}.png")
                made.append(f"{name}.png")
    return tuple(made)


def _title(result: CampaignResult) -> list[str]:
    model = result.model
    limit = "" if result.regime is None else f" in {result.regime / 2**30:.2f} GiB"
    return [
        f"{result.name}: {model.path} ({model.arch}, {model.size_bytes / 2**30:.2f} GiB){limit}",
        f"{result.machine.cpu}, {result.machine.cores} cores",
    ]


# ---- tok/s and time per token, a line a cell -----------------------------------------------------


def _speed(result: CampaignResult, table: Table) -> Figure | None:
    shown = [(w, [row for row in rows if row.values("tok_s")]) for w, rows in table]
    shown = [(w, rows) for w, rows in shown if rows]
    if not shown:
        return None
    sheet = Sheet(
        "Tokens per second, effective",
        _title(result),
        [_ROW * len(rows) + 16 for _, rows in shown],
        "Dots are runs, numbers their medians. Bars are 95 % intervals of the ratio to off, within "
        "a round; a bar that meets the line is no difference.",
    )
    for i, (workload, rows) in enumerate(shown):
        _intervals(_lines(sheet, i, rows, words=0.22), rows, workload)
    return sheet.figure


def _intervals(axes: Axes, rows: Sequence[Row], workload: str) -> None:
    off = next((row for row in rows if row.cell.name == OFF), None)
    scale = geometric_mean(off.values("tok_s")) if off is not None else None
    most = max(max(row.values("tok_s")) for row in rows)
    for y, row in enumerate(rows):
        values = row.values("tok_s")
        axes.scatter(values, [y] * len(values), s=14, color=GREY, alpha=0.7, zorder=2, lw=0)
        centre = statistics.median(values)
        colour, words = COLOURS[0], f"{centre:.2f}"
        if row.verdict is None:
            centre = scale or centre
        else:
            colour = _VERDICT_COLOURS.get(row.verdict.kind, DARK)
            words += f" · {_short(row)}"
        estimate = None if row.verdict is None else row.verdict.estimate
        if estimate is not None and scale is not None:
            centre = scale * estimate.ratio
            if estimate.low is not None and estimate.high is not None:
                ends = (scale * estimate.low, scale * estimate.high)
                axes.plot(ends, (y, y), color=colour, lw=5, alpha=0.45, solid_capstyle="butt")
                most = max(most, min(ends[1], 2 * most))
        axes.plot([centre], [y], "|", color=colour, markersize=14, markeredgewidth=2.5, zorder=3)
        axes.annotate(
            plain(words), (1.0, y), xycoords=("axes fraction", "data"), xytext=(8, 0),
            textcoords="offset points", va="center", fontsize=9, color=colour,
        )  # fmt: skip
    if scale is not None:
        axes.axvline(scale, color=COLOURS[0], lw=1.2, zorder=1)
    axes.set_xlim(0, 1.05 * most or 1.0)
    panel(axes, workload, x="tok/s")


def _short(row: Row) -> str:
    """A verdict in as few words as fit beside a bar."""
    verdict = row.verdict
    assert verdict is not None
    if verdict.kind == "no difference" and verdict.estimate is not None:
        return f"no difference above {verdict.estimate.floor_pct:.1f} %"
    return verdict.kind if verdict.kind in ("not enough rounds", "failed") else verdict.words


def _time(result: CampaignResult, table: Table) -> Figure | None:
    shown = [(w, [row for row in rows if row.values(PARTS[0])]) for w, rows in table]
    shown = [(w, rows) for w, rows in shown if rows]
    if not shown:
        return None
    sheet = Sheet(
        "Where a token's time goes",
        _title(result),
        [_ROW * len(rows) + 16 for _, rows in shown],
        "Means over runs. Where reads overlap compute, the stall is an upper bound: it contains "
        "waits for other compute threads.",
    )
    for i, (workload, rows) in enumerate(shown):
        axes = _lines(sheet, i, rows, words=0.0)
        for part in PARTS:
            if any((row.mean(part) or 0) > 0 for row in rows):
                axes.barh(0, 0, color=_PART_COLOURS[part], label=part.removesuffix("_ms"))
        most = 0.0
        for y, row in enumerate(rows):
            left = 0.0
            for part in PARTS:
                width = row.mean(part) or 0.0
                axes.barh(y, width, 0.62, left=left, color=_PART_COLOURS[part])
                left += width
            most = max(most, left)
            axes.annotate(
                f"{left:.1f} ms", (left, y), xytext=(5, 0), textcoords="offset points",
                va="center", fontsize=9, color=DARK,
            )  # fmt: skip
        axes.set_xlim(0, 1.12 * most or 1.0)
        panel(axes, workload, x="ms per token")
        legend_beside_title(axes)
    return sheet.figure


def _lines(sheet: Sheet, i: int, rows: Sequence[Row], *, words: float) -> Axes:
    """A panel with a line a cell, room for names at the left and for words at the right.

    ``words`` is that room's share of the panel.
    """
    axes = sheet.axes(i)
    box = axes.get_position()
    left = box.width * _NAMES
    right = box.width * words
    axes.set_position((box.x0 + left, box.y0, box.width - left - right, box.height))
    axes.set_yticks(range(len(rows)), [_name(row) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    return axes


def _name(row: Row) -> str:
    name = plain(row.cell.name)
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


# ---- speculation ---------------------------------------------------------------------------------


def _acceptance(result: CampaignResult, table: Table) -> Figure | None:
    shown = [(w, [row for row in rows if any(o for o, _ in row.at_positions())])
             for w, rows in table]  # fmt: skip
    shown = [(w, rows) for w, rows in shown if rows]
    if not shown:
        return None
    sheet = Sheet("Acceptance by position in the draft", _title(result), [230] * len(shown),
                  "Of the drafts that reached a position, all before it confirmed, how many were "
                  "confirmed there.")  # fmt: skip
    for i, (workload, rows) in enumerate(shown):
        axes = sheet.axes(i)
        widest = 1
        for k, row in enumerate(rows):
            at = row.at_positions()
            points = [(p, 100 * a / o) for p, (o, a) in enumerate(at, start=1) if o]
            widest = max(widest, *(p for p, _ in points))
            curve(axes, k, [p for p, _ in points], [r for _, r in points], row.cell.name)
        axes.set_ylim(0, 104)
        axes.set_xlim(0.8, widest + 0.2)
        axes.set_xticks(range(1, widest + 1))
        panel(axes, workload, x="position", y="%")
        legend_right(axes)
    return sheet.figure


@dataclass(frozen=True, slots=True)
class _Series:
    """Cells that differ in one setting only, in its order."""

    name: str
    points: tuple[tuple[float, Row], ...]


def _width(result: CampaignResult, table: Table) -> Figure | None:
    shown = [(w, _by_width(rows)) for w, rows in table]
    shown = [(w, series) for w, series in shown if series]
    if not shown:
        return None
    sheet = Sheet("What a wider draft costs in bytes", _title(result), [220] * len(shown),
                  "Width 0 is the same without drafting. Medians over runs.")  # fmt: skip
    for i, (workload, series) in enumerate(shown):
        for column, (metric, title, unit) in enumerate(
            (
                ("hit_pct", "hit rate of the expert cache", "%"),
                ("mib_per_token", "experts read", "MiB per token"),
            )
        ):
            axes = sheet.axes(i, column=column, columns=2)
            for k, one in enumerate(series):
                points = [(x, y) for x, row in one.points if (y := row.median(metric)) is not None]
                curve(axes, k, [x for x, _ in points], [y for _, y in points], one.name)
            from_zero(axes, 104 if metric == "hit_pct" else None)
            axes.xaxis.get_major_locator().set_params(integer=True)
            panel(axes, f"{workload}: {title}", x="tokens drafted at most", y=unit)
            if column == 1:
                legend_right(axes, 0.6)
    return sheet.figure


def _by_width(rows: Sequence[Row]) -> list[_Series]:
    groups: dict[str, list[tuple[float, Row]]] = {}
    for row in rows:
        overrides = row.cell.overrides
        width = overrides.get("speculation.draft")
        if width is not None and row.values("mib_per_token"):
            rest = {k: v for k, v in overrides.items() if k != "speculation.draft"}
            groups.setdefault(_words(rest), []).append((float(width), row))
    series = []
    for name, points in groups.items():
        alike = _without_drafting(points[0][1], rows)
        none = [] if alike is None else [(0.0, alike)]
        if len(points) + len(none) > 1:
            series.append(_Series(name, (*none, *sorted(points, key=lambda point: point[0]))))
    return series


def _without_drafting(drafting: Row, rows: Sequence[Row]) -> Row | None:
    """The cell that is configured alike and does not draft."""
    wanted = drafting.cell.without("speculation")
    for row in rows:
        alike = row.cell.kind == "engine" and dict(row.cell.overrides) == dict(wanted)
        if alike and row.values("mib_per_token"):
            return row
    return None


#: Settings as a legend has them, where their own names are long.
_SHORT: Final = {
    "synthetic_acceptance": "accepts",
    "cache_mb": "cache",
    "io_threads": "lanes",
    "ngram_min_match": "min",
    "mtp_p_min": "p",
    "drop_cold_experts": "drop",
}


def _words(overrides: dict[str, int | float | str | bool]) -> str:
    """Settings in a legend: what drafts by its name, the rest as name and value."""
    source = overrides.pop("speculation.source", "")
    forced = "speculation.synthetic_acceptance" in overrides
    parts = [str(source)] if source and not (forced and source == "ngram") else []
    for key, value in overrides.items():
        name = key.rpartition(".")[2]
        parts.append(f"{_SHORT.get(name, name)} {value}")
    return ", ".join(parts) or OFF


# ---- the cache -----------------------------------------------------------------------------------


def _cache(result: CampaignResult, table: Table) -> Figure | None:
    shown = [(w, rows, _by_cache(rows)) for w, rows in table]
    shown = [(w, rows, series) for w, rows, series in shown if series]
    if not shown:
        return None
    notice = (
        "Bars are 95 % intervals of the ratio to off. The line across is off, the diamond its size."
    )
    sheet = Sheet("What a larger cache brings", _title(result), [240] * len(shown), notice)
    for i, (workload, rows, series) in enumerate(shown):
        left, right = (sheet.axes(i, column=column, columns=2) for column in range(2))
        off = next((row for row in rows if row.cell.name == OFF), None)
        scale = geometric_mean(off.values("tok_s")) if off is not None else None
        for k, one in enumerate(series):
            rates = [row.median("tok_s") or math.nan for _, row in one.points]
            curve(left, k, [x for x, _ in one.points], rates, one.name)
            if scale is not None:
                _error_bars(left, one, scale, COLOURS[k % len(COLOURS)])
            hits = [(x, y) for x, row in one.points if (y := row.median("hit_pct")) is not None]
            curve(right, k, [x for x, _ in hits], [y for _, y in hits], one.name)
        if scale is not None and off is not None:
            left.axhline(scale, color=GREY, lw=1.0, zorder=1)
            size = off.median("cache_mib")
            if size is not None:
                left.plot([size], [scale], "D", color=GREY, markersize=7)
        most = max(rate for one in series for _, row in one.points for rate in row.values("tok_s"))
        from_zero(left, min(1.05 * left.get_ylim()[1], 1.25 * max(most, scale or 0.0)))
        from_zero(right, 104)
        for axes in (left, right):
            axes.set_xlim(left=0)
        panel(left, f"{workload}: speed", x="memory for experts in MiB", y="tok/s")
        panel(right, f"{workload}: hit rate", x="memory for experts in MiB", y="%")
        if len(series) > 1:
            legend_right(right, 0.6)
    return sheet.figure


def _error_bars(axes: Axes, series: _Series, scale: float, colour: str) -> None:
    for x, row in series.points:
        estimate = None if row.verdict is None else row.verdict.estimate
        if estimate is not None and estimate.low is not None and estimate.high is not None:
            axes.plot((x, x), (scale * estimate.low, scale * estimate.high), color=colour, lw=4,
                      alpha=0.35, solid_capstyle="butt")  # fmt: skip


def _by_cache(rows: Sequence[Row]) -> list[_Series]:
    groups: dict[str, list[tuple[float, Row]]] = {}
    for row in rows:
        overrides = row.cell.overrides
        size = row.median("cache_mib")
        if "streaming.cache_mb" in overrides and size is not None and row.values("tok_s"):
            rest = {k: v for k, v in overrides.items() if k != "streaming.cache_mb"}
            groups.setdefault(_words(rest), []).append((size, row))
    return [
        _Series(name, tuple(sorted(points, key=lambda point: point[0])))
        for name, points in groups.items()
        if len(points) > 1
    ]


def _map(result: CampaignResult, table: Table) -> Figure | None:
    del table
    return draw_map(result, _title(result)) if has_map(result) else None


_PICTURES: Final[tuple[tuple[str, Callable[[CampaignResult, Table], Figure | None]], ...]] = (
    ("speed", _speed),
    ("time", _time),
    ("acceptance", _acceptance),
    ("width", _width),
    ("cache", _cache),
    ("map", _map),
)
