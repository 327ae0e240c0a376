"""Pictures of runs: one run token by token, or several runs compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

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
from moestream.telemetry.run_labels import run_labels, settings_line
from moestream.telemetry.run_series import PARTS, RunSeries

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["GROUP_NOTICE", "plot_runs"]

Values = NDArray[np.float64]

#: What a reader of a speculated run's numbers has to know.
GROUP_NOTICE: Final = (
    "Speculated rows are accounted per group: a verify decode's cost stands on the first row; here "
    "it is spread over the group's tokens."
)

PART_COLOURS: Final = {
    "compute": "#56B4E9",
    "stall": "#D55E00",
    "draft": "#009E73",
    "other": "#BBBBBB",
}
#: Of runs that are compared: told apart from each other, and from the parts.
RUN_COLOURS: Final = ("#0072B2", "#E69F00", "#CC79A7", "#000000", "#8C6D31")
_LINES: Final = ("-", "--", "-.", ":")
#: Columns of the stacked picture at most; beyond that, several tokens share one.
_MOST_COLUMNS: Final = 240
#: A peak of so many times what is usual would press the rest flat, so it is cut off.
_PEAK_OF_STACK, _PEAK_OF_LINE = 2.5, 6.0
#: So few tokens are shown as points.
_FEW: Final = 40


def plot_runs(runs: Sequence[RunSeries], path: Path) -> None:
    """Draw one run, or compare several.

    Args:
        runs: one or more.
        path: of the picture; its suffix says what kind.

    Raises:
        ConfigError: the picture's name has no known suffix.
        PlatformError: matplotlib is not installed.
        OSError: the picture cannot be written.
    """
    check_picture(path)
    with picture_style():
        figure = _one(runs[0]) if len(runs) == 1 else _several(runs)
        save(figure, path)


# ---- one run -------------------------------------------------------------------------------------


def _one(series: RunSeries) -> Figure:
    streamed = not np.isnan(series.mib).all()
    heights = [170, 260, *([130, 130] if streamed else [])]
    sheet = Sheet(
        series.run.preamble.get("model") or series.run.path.name,
        [settings_line(series), _in_words(series)],
        [*heights, *([180] if series.speculated else [])],
        GROUP_NOTICE if series.speculated else "",
    )
    axes = [sheet.axes(i) for i in range(len(heights))]
    window = _window(series.n_tokens)
    _rate(axes[0], series, window)
    _stack(axes[1], series)
    if streamed:
        _hits(axes[2], [series], window, [COLOURS[0]])
        _bytes(axes[3], [series], window, [COLOURS[0]])
    for other in axes:
        _tokens_axis(other, series.n_tokens)
        _turns(other, series, named=other is axes[0])
    axes[-1].set_xlabel("token")
    if series.speculated:
        _drafts(sheet, len(heights), [series], [COLOURS[0]])
    return sheet.figure


def _tokens_axis(axes: Axes, n_tokens: int) -> None:
    axes.set_xlim(0, n_tokens)
    axes.xaxis.get_major_locator().set_params(integer=True)


def _in_words(series: RunSeries) -> str:
    parts = [f"{series.n_tokens} token{'s' if series.n_tokens > 1 else ''} decoded"]
    if series.tok_s is not None and series.decode_tok_s is not None:
        parts.append(
            f"{series.tok_s:.2f} tok/s effective ({series.decode_tok_s:.2f} in decodes alone)"
        )
    if series.hit_pct is not None:
        parts.append(f"{series.hit_pct:.1f} % hits")
    if series.mib_per_token is not None:
        parts.append(f"{series.mib_per_token:.2f} MiB/token")
    if series.acceptance_pct is not None and series.tokens_per_verify is not None:
        parts.append(
            f"{series.acceptance_pct:.1f} % of drafts accepted, "
            f"{series.tokens_per_verify:.2f} tokens per verify"
        )
    return " · ".join(parts)


def _window(n_tokens: int) -> int:
    """Tokens to average over: enough to see a trend, few enough to see a change."""
    return min(max(n_tokens // 12, 4), 64, n_tokens)


def _rate(axes: Axes, series: RunSeries, window: int) -> None:
    alone = series.smooth_rate(window, decode_only=True)
    _draw(axes, alone, GREY, lw=1.2, ls="--", label="decodes alone")
    _draw(axes, series.smooth_rate(window), COLOURS[0], lw=2, label="effective")
    axes.set_ylim(0, _limit(axes, alone, "tok/s", _PEAK_OF_LINE))
    panel(axes, f"Tokens per second{_averaged(window)}", y="tok/s")
    legend_beside_title(axes)


def _averaged(window: int) -> str:
    return f", averaged over {window} tokens" if window > 1 else ""


def _draw(axes: Axes, values: Values, colour: str, **look: Any) -> None:
    """A line over the tokens."""
    marker = "o" if len(values) <= _FEW else ""
    x = np.arange(len(values)) + 0.5
    axes.plot(x, values, color=colour, marker=marker, markersize=4, **{"lw": 1.8, **look})


def _stack(axes: Axes, series: RunSeries) -> None:
    columns = min(series.n_tokens, _MOST_COLUMNS)
    edges = np.unique(np.linspace(0, series.n_tokens, columns + 1).astype(np.intp))
    below = np.zeros(len(edges) - 1)
    for name in PARTS:
        if not series.parts[name].any():
            continue
        height = np.add.reduceat(series.parts[name], edges[:-1]) / np.diff(edges)
        axes.stairs(
            below + height, edges, baseline=below, fill=True, color=PART_COLOURS[name], lw=0,
            label=f"{name} {series.part_ms(name):.1f}",
        )  # fmt: skip
        below = below + height
    axes.set_ylim(0, _limit(axes, below, "ms", _PEAK_OF_STACK))
    mean = float(series.total_ms.mean())
    panel(axes, f"Where a token's time goes, mean {mean:.1f} ms", y="ms per token")
    legend_beside_title(axes)


def _limit(axes: Axes, values: Values, unit: str, peak: float) -> float:
    """Top of the axis; says so in the panel where that cuts off a peak."""
    known = values[~np.isnan(values)]
    if not len(known) or not known.max() > 0:
        return 1.0
    most, usual = float(known.max()), float(np.percentile(known, 97))
    if most <= peak * usual or usual <= 0:
        return 1.08 * most
    axes.text(
        0.995, 0.95, f"peaks up to {most:,.0f} {unit} cut off", transform=axes.transAxes,
        ha="right", va="top", fontsize=9, color=DARK,
        bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 2},
    )  # fmt: skip
    return peak * usual


def _turns(axes: Axes, series: RunSeries, *, named: bool) -> None:
    """A line where a turn begins."""
    starts = series.turn_starts
    for start in starts[:_MOST_COLUMNS]:
        axes.axvline(start, color=DARK, lw=0.8, ls=":")
        if named and len(starts) <= 12:
            axes.annotate(
                f"turn {series.turn[start]:.0f}", (start, 0), xycoords=("data", "axes fraction"),
                xytext=(3, 4), textcoords="offset points", fontsize=8.5, color=DARK,
            )  # fmt: skip


# ---- what one and several share ------------------------------------------------------------------


def _hits(axes: Axes, runs: Sequence[RunSeries], window: int, colours: Sequence[str]) -> None:
    for i, (series, colour) in enumerate(zip(runs, colours, strict=True)):
        _draw(axes, series.smooth_hit_pct(window), colour, ls=_line(i))
    axes.set_ylim(0, 102)
    panel(axes, f"Hit rate of the expert cache{_averaged(window)}", y="%")


def _bytes(axes: Axes, runs: Sequence[RunSeries], window: int, colours: Sequence[str]) -> None:
    every = []
    for i, (series, colour) in enumerate(zip(runs, colours, strict=True)):
        mib = series.smooth_mib(window)
        every.append(mib)
        _draw(axes, mib, colour, ls=_line(i))
    axes.set_ylim(0, _limit(axes, np.concatenate(every), "MiB", _PEAK_OF_LINE))
    panel(axes, f"Experts read{_averaged(window)}", y="MiB per token")


def _drafts(sheet: Sheet, row: int, runs: Sequence[RunSeries], colours: Sequence[str]) -> None:
    """How many tokens verify decodes confirmed, and how far drafts got."""
    left, right = (sheet.axes(row, column=i, columns=2) for i in range(2))
    width = 0.8 / len(runs)
    for i, (series, colour) in enumerate(zip(runs, colours, strict=True)):
        shift = (i - (len(runs) - 1) / 2) * width
        counts = series.confirmed_counts[1:]
        shares = 100 * counts / max(counts.sum(), 1)
        bars = left.bar(np.arange(1, len(counts) + 1) + shift, shares, width * 0.9, color=colour)
        at = series.acceptance_at
        offered = np.array([count for count, _ in at], dtype=np.float64)
        accepted = np.array([count for _, count in at], dtype=np.float64)
        rates = 100 * np.divide(accepted, offered, out=np.zeros(len(at)), where=offered > 0)
        more = right.bar(np.arange(1, len(at) + 1) + shift, rates, width * 0.9, color=colour)
        if len(runs) == 1:
            left.bar_label(bars, [f"{share:.0f} %" for share in shares], fontsize=9, padding=1)
            texts = [f"{r:.0f} % of {o:.0f}" for r, o in zip(rates, offered, strict=True)]
            right.bar_label(more, texts, fontsize=9, padding=1)
    for axes in (left, right):
        axes.grid(visible=False, axis="x")
        axes.xaxis.get_major_locator().set_params(integer=True)
    left.set_ylim(0, 1.15 * max(left.get_ylim()[1] / 1.05, 1))
    right.set_ylim(0, 115)
    right.set_yticks(range(0, 101, 25))
    if not right.patches:
        right.text(0.5, 0.5, "not recorded", transform=right.transAxes, ha="center", color=GREY)
    panel(left, "Tokens confirmed by a verify decode", x="tokens", y="% of verify decodes")
    panel(right, "Acceptance by position, all before it accepted", x="position in the draft", y="%")


def _line(i: int) -> str:
    return _LINES[i // len(RUN_COLOURS) % len(_LINES)]


# ---- several runs --------------------------------------------------------------------------------


def _several(runs: Sequence[RunSeries]) -> Figure:
    labels = run_labels(runs)
    colours = [RUN_COLOURS[i % len(RUN_COLOURS)] for i in range(len(runs))]
    streamed = any(not np.isnan(series.mib).all() for series in runs)
    drafting = [(s, c) for s, c in zip(runs, colours, strict=True) if s.speculated]
    heights = [46 * len(runs) + 8, 200, *([140, 140] if streamed else [])]
    models = {series.run.preamble.get("model", "") for series in runs}
    model = models.pop() if len(models) == 1 else ""
    sheet = Sheet(
        f"{len(runs)} runs{' of ' if model else ''}{model}",
        [],
        [*heights, *([190] if drafting else [])],
        GROUP_NOTICE if drafting else "",
    )
    window = _window(min(series.n_tokens for series in runs))
    _bars(sheet.axes(0), runs, labels, colours)
    over_tokens = [sheet.axes(i) for i in range(1, len(heights))]
    _rates(over_tokens[0], runs, window, colours)
    if streamed:
        _hits(over_tokens[1], runs, window, colours)
        _bytes(over_tokens[2], runs, window, colours)
    for axes in over_tokens:
        _tokens_axis(axes, max(series.n_tokens for series in runs))
    over_tokens[-1].set_xlabel("token")
    if drafting:
        _drafts(sheet, len(heights), [s for s, _ in drafting], [c for _, c in drafting])
    return sheet.figure


def _rates(axes: Axes, runs: Sequence[RunSeries], window: int, colours: Sequence[str]) -> None:
    every = []
    for i, (series, colour) in enumerate(zip(runs, colours, strict=True)):
        rate = series.smooth_rate(window)
        every.append(rate)
        _draw(axes, rate, colour, lw=2, ls=_line(i))
    axes.set_ylim(0, _limit(axes, np.concatenate(every), "tok/s", _PEAK_OF_LINE))
    panel(axes, f"Effective tokens per second{_averaged(window)}", y="tok/s")


def _bars(
    axes: Axes, runs: Sequence[RunSeries], labels: Sequence[str], colours: Sequence[str]
) -> None:
    """Where the time goes, a bar a run; the labels here are the picture's legend."""
    longest = max(float(series.total_ms.mean()) for series in runs) or 1.0
    for name in PARTS:
        if any(series.part_ms(name) > 0 for series in runs):
            axes.barh(0, 0, color=PART_COLOURS[name], label=name)
    for i, (series, label, colour) in enumerate(zip(runs, labels, colours, strict=True)):
        left = 0.0
        for name in PARTS:
            width = series.part_ms(name)
            axes.barh(i, width, 0.42, left=left, color=PART_COLOURS[name])
            left += width
        rate = "" if series.tok_s is None else f"{series.tok_s:.2f} tok/s · "
        axes.text(left + longest / 150, i, f"{rate}{left:.1f} ms", va="center", fontsize=9.5)
        axes.plot([0, longest / 40], [i - 0.42] * 2, color=colour, lw=3.5, ls=_line(i))
        axes.text(longest / 30, i - 0.42, plain(label), va="center", fontsize=10, weight="bold")
    axes.set_ylim(len(runs) - 0.65, -0.75)
    axes.set_xlim(0, 1.17 * longest)
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
    panel(axes, "Where a token's time goes, mean of all tokens", x="ms per token")
    legend_beside_title(axes)
