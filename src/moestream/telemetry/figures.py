"""Pictures in general: matplotlib where it is installed, colours, a frame, a file.

Matplotlib is an extra, ``pip install 'moestream[plot]'``; nothing here is imported before a
picture is asked for. No display is needed, and no global state of matplotlib is touched.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moestream.errors import ConfigError, PlatformError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "DARK",
    "GREY",
    "WIDTH_PX",
    "Sheet",
    "check_picture",
    "legend_beside_title",
    "panel",
    "picture_style",
    "plain",
    "save",
]

#: Okabe and Ito's palette, which people tell apart whatever their colour vision.
COLOURS: Final = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31",
)  # fmt: skip
GREY: Final = "#9A9A9A"

#: For text that explains.
DARK: Final = "#444444"

WIDTH_PX: Final = 1200
_DPI: Final = 100
# In pixels: around the sheet, and of lines of text on it.
_LEFT, _RIGHT, _MARGIN, _TITLE, _TEXT_LINE, _NOTICE = 76, 24, 16, 36, 21, 26
# Between panels in a row; above one, for its title; and between two rows in all.
_BETWEEN, _ABOVE, _GAP = 84, 32, 80

_SUFFIXES: Final = (".png", ".svg", ".pdf")

_STYLE: Final[dict[str, Any]] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.dpi": _DPI,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.8,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "savefig.dpi": _DPI,
    "svg.hashsalt": "moestream",
    "text.parse_math": False,  # a dollar in a model's name is a dollar
    "text.usetex": False,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
}

#: As many as fit beside each other.
_MOST_CHARACTERS: Final = 148


def check_picture(path: Path) -> None:
    """Refuse what :func:`save` could not write, before any work is done.

    Raises:
        ConfigError: the name does not end like a picture's.
        PlatformError: matplotlib is not installed.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise ConfigError(
            f"cannot make a picture called {path}; its name must end in {', '.join(_SUFFIXES)}"
        )
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise PlatformError(
            "pictures need matplotlib, which is not installed here; "
            "install it with: pip install 'moestream[plot]'"
        ) from error


@contextmanager
def picture_style() -> Iterator[None]:
    """Our look for the time of the block, whatever a matplotlibrc says."""
    from matplotlib import style

    with style.context(["default", _STYLE]), warnings.catch_warnings():
        # A letter that the font does not have becomes a box, which says as much as a warning.
        warnings.filterwarnings("ignore", ".*missing from")
        yield


class Sheet:
    """An empty picture: title and lines, rows of panels, and a notice at the bottom.

    Everything is placed in pixels, so that text has the room it needs whatever is on the sheet.
    """

    def __init__(
        self, title: str, lines: Sequence[str], heights: Sequence[int], notice: str = ""
    ) -> None:
        """Lay it out.

        Args:
            title: largest line.
            lines: below it.
            heights: of the rows, in pixels, without their titles and axis labels.
            notice: what a reader has to know.
        """
        from matplotlib.figure import Figure

        head = _MARGIN + _TITLE + _TEXT_LINE * len(lines)
        self._height = head + sum(heights) + _GAP * len(heights) + (_NOTICE if notice else 0)
        self._rows: list[tuple[float, int]] = []
        self.figure = Figure(figsize=(WIDTH_PX / _DPI, self._height / _DPI))
        y = _MARGIN + _TITLE // 2
        self._text(y, title, fontsize=15, fontweight="bold")
        y += _TITLE // 2 - _TEXT_LINE // 2
        for line in lines:
            y += _TEXT_LINE
            self._text(y, line, fontsize=10, color=DARK)
        y = head
        for height in heights:
            y += _ABOVE + height
            self._rows.append((y, height))
            y += _GAP - _ABOVE
        if notice:
            self._text(y + _NOTICE // 2, notice, fontsize=9.5, color=DARK, style="italic")

    def _text(self, y: float, text: str, **look: Any) -> None:
        x = _LEFT / WIDTH_PX
        self.figure.text(x, 1 - y / self._height, plain(text), va="center", **look)

    def axes(self, row: int, *, column: int = 0, columns: int = 1) -> Axes:
        """A panel: a row, or one of equal parts of it."""
        bottom, height = self._rows[row]
        width = (WIDTH_PX - _LEFT - _RIGHT - _BETWEEN * (columns - 1)) / columns
        left = _LEFT + column * (width + _BETWEEN)
        return self.figure.add_axes(
            (left / WIDTH_PX, 1 - bottom / self._height, width / WIDTH_PX, height / self._height)
        )


def panel(axes: Axes, title: str, *, x: str = "", y: str = "") -> None:
    """Title and axis labels of a panel, with their units."""
    axes.set_title(plain(title))
    axes.set_xlabel(plain(x))
    axes.set_ylabel(plain(y))


def legend_beside_title(axes: Axes) -> None:
    """The legend on the title's line, at the right, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    axes.legend(
        handles, labels, loc="lower right", bbox_to_anchor=(1.0, 0.985), ncols=8, borderaxespad=0.0,
        handlelength=1.6, columnspacing=1.4,
    )  # fmt: skip


def plain(text: str) -> str:
    """``text`` on one line that fits, without what cannot be drawn."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return clean if len(clean) <= _MOST_CHARACTERS else clean[: _MOST_CHARACTERS - 1] + "…"


def save(figure: Figure, path: Path) -> None:
    """Write the picture.

    Raises:
        OSError: it cannot be written.
    """
    # A fixed date, so that the same numbers make the same file.
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    figure.savefig(path, metadata=metadata)
