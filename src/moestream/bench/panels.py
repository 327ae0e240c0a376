"""Pieces of a campaign's pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moestream.telemetry.figures import COLOURS, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LONGEST", "curve", "from_zero", "geometric_mean", "legend_right"]

#: Names longer than this are cut.
LONGEST: Final = 30

_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")


def curve(axes: Axes, k: int, x: Sequence[float], y: Sequence[float], name: str) -> None:
    """The ``k``-th line of a panel."""
    axes.plot(
        x, y, color=COLOURS[k % len(COLOURS)], marker=_MARKERS[k % len(_MARKERS)], lw=1.8,
        ls="-" if k < len(COLOURS) else "--", markersize=6, label=plain(name)[:LONGEST], zorder=3,
        clip_on=False,
    )  # fmt: skip


def from_zero(axes: Axes, top: float | None) -> None:
    """The axis from 0 to ``top``, or to a little above what is drawn."""
    axes.set_ylim(0, top if top is not None else 1.08 * max(axes.get_ylim()[1], 1e-9))


def legend_right(axes: Axes, share: float = 0.78) -> None:
    """Beside the panel, in room that is taken from it."""
    box = axes.get_position()
    axes.set_position((box.x0, box.y0, box.width * share, box.height))
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), fontsize=8.5, handlelength=1.6)


def geometric_mean(values: Sequence[float]) -> float | None:
    """Of the positive ones; ``None`` if there are none."""
    positive = [value for value in values if value > 0]
    return math.exp(sum(map(math.log, positive)) / len(positive)) if positive else None
