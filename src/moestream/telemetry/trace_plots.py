"""The picture of a route trace: cache sizes, popularity, and the layers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from moestream.telemetry.figures import (
    COLOURS,
    DARK,
    GREY,
    Sheet,
    check_picture,
    legend_beside_title,
    panel,
    picture_style,
    save,
)
from moestream.telemetry.trace_counts import POPULARITY_STEPS, LayerRouting
from moestream.telemetry.trace_report import TraceReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_trace"]

MIB: Final = 2**20
_HIT, _REUSE, _DRAFT = COLOURS[0], COLOURS[4], COLOURS[3]

_SERIES: Final[tuple[tuple[str, str, Callable[[LayerRouting], float | None]], ...]] = (
    ("hit rate", _HIT, lambda layer: layer.hit_rate),
    ("shared with the token before", _REUSE, lambda layer: layer.reuse),
)


def plot_trace(report: TraceReport, path: Path) -> None:
    """Draw what a trace says.

    Raises:
        ConfigError: the picture's name has no known suffix.
        PlatformError: matplotlib is not installed.
        OSError: the picture cannot be written.
    """
    check_picture(path)
    with picture_style():
        save(_figure(report), path)


def _figure(report: TraceReport) -> Figure:
    main = report.phases[-1]
    facts = [f"{main.tokens:,} tokens of {main.phase}", f"{report.rows:,} routings in all"]
    if main.hit_rate is not None:
        facts.append(f"{100 * main.hit_rate:.1f} % hits")
    if main.mib_per_token is not None:
        facts.append(f"{main.mib_per_token:.2f} MiB/token read")
    if main.dropped:
        facts.append(f"{100 * main.dropped:.1f} % of routings dropped")
    sheet = Sheet(
        report.model or "Route trace",
        [" · ".join(facts)],
        [280, 180, 150],
        "Routing was traced, which costs time: no speed can be told from this.",
    )
    _cache(sheet.axes(0, columns=2), report)
    _popularity(sheet.axes(0, column=1, columns=2), main.layers)
    _shares(sheet.axes(1), main.layers + main.draft_layers)
    _bytes(sheet.axes(2), main.layers + main.draft_layers, main.tokens)
    return sheet.figure


def _cache(axes: Axes, report: TraceReport) -> None:
    panel(axes, f"Hit rate of an LRU cache, {report.cache_phase}", x="cache size, MiB", y="% hits")
    axes.set_ylim(0, 102)
    if not report.curve:
        axes.text(
            0.5, 0.5, "the trace does not say how big experts are", transform=axes.transAxes,
            ha="center", color=DARK,
        )  # fmt: skip
        return
    x = [point.cache_bytes / MIB for point in report.curve]
    axes.plot(x, [100 * point.hit_rate for point in report.curve], color=_HIT, lw=2.2)
    axes.set_xlim(0, max(x[-1], 1e-3))
    if report.ceiling is not None:
        axes.axhline(100 * report.ceiling, color=GREY, lw=1, ls="--")
        axes.annotate(
            f"{100 * report.ceiling:.1f} %: all but first uses", (0.06, 100 * report.ceiling),
            xycoords=("axes fraction", "data"), xytext=(0, -12 if report.ceiling > 0.9 else 4),
            textcoords="offset points", fontsize=9, color=DARK,
        )  # fmt: skip
    if report.token_bytes is not None:
        axes.axvline(report.token_bytes / MIB, color=GREY, lw=1, ls=":")
        axes.annotate(
            f"one token: {report.token_bytes / MIB:,.3g} MiB", (report.token_bytes / MIB, 0.5),
            xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points",
            rotation=90, va="center", fontsize=9, color=DARK,
        )  # fmt: skip


def _popularity(axes: Axes, layers: tuple[LayerRouting, ...]) -> None:
    x = np.linspace(0, 100, POPULARITY_STEPS + 1)
    curves = 100 * np.array([layer.popularity for layer in layers])
    axes.plot([0, 100], [0, 100], color=GREY, lw=1, ls="--", label="even")
    if len(curves):
        axes.fill_between(
            x, curves.min(axis=0), curves.max(axis=0), color=_HIT, alpha=0.18, lw=0, label="range"
        )
        axes.plot(x, np.median(curves, axis=0), color=_HIT, lw=2.2, label="median layer")
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 102)
    panel(axes, "Popularity of experts", x="most popular experts, %", y="% of routings")
    legend_beside_title(axes)


def _shares(axes: Axes, layers: tuple[LayerRouting, ...]) -> None:
    """Hit rate and reuse, by layer; those of the draft context apart."""
    trunk = [layer for layer in layers if not layer.draft]
    drafts = [layer for layer in layers if layer.draft]
    dot = "o" if len(layers) < 100 else ""
    for label, colour, value in _SERIES:
        for members, marker, size in ((trunk, dot, 4), (drafts, "D", 6)):
            known = [
                (layer.layer, 100 * share)
                for layer in members
                if (share := value(layer)) is not None
            ]
            if known:
                axes.plot(
                    *zip(*known, strict=True), color=colour, lw=1.8, marker=marker,
                    markersize=size, label=label if members is trunk else "",
                )  # fmt: skip
    _mark_drafts(axes, layers)
    _layer_axis(axes, layers)
    axes.set_ylim(0, 102)
    panel(axes, "Hit rate and reuse by layer", y="%")
    legend_beside_title(axes)


def _bytes(axes: Axes, layers: tuple[LayerRouting, ...], tokens: int) -> None:
    axes.bar(
        [layer.layer for layer in layers],
        [layer.read_bytes / MIB / max(tokens, 1) for layer in layers],
        color=[_DRAFT if layer.draft else _HIT for layer in layers],
    )
    _mark_drafts(axes, layers)
    _layer_axis(axes, layers)
    panel(axes, "Experts read by layer", x="layer", y="MiB per token")


def _mark_drafts(axes: Axes, layers: tuple[LayerRouting, ...]) -> None:
    drafts = [layer.layer for layer in layers if layer.draft]
    if drafts:
        axes.axvspan(min(drafts) - 0.5, max(drafts) + 0.5, color=_DRAFT, alpha=0.12, lw=0)
        axes.annotate(
            "draft context", (min(drafts) - 0.5, 1), xycoords=("data", "axes fraction"),
            xytext=(-4, -4), textcoords="offset points", ha="right", va="top", fontsize=9,
            color=DARK,
        )  # fmt: skip


def _layer_axis(axes: Axes, layers: tuple[LayerRouting, ...]) -> None:
    numbers = [layer.layer for layer in layers]
    axes.set_xlim(min(numbers) - 0.6, max(numbers) + 0.6)
    axes.xaxis.get_major_locator().set_params(integer=True)
