"""Where output goes: answers and data to stdout, everything else to stderr.

Rich is used only on a terminal, and text that came from a file or a model never reaches a
terminal with control characters in it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "note",
    "printable",
    "progress_bytes",
    "status",
    "stderr",
    "table",
    "write",
    "write_json",
    "write_text",
]

#: C0 and C1 control characters, newline and tab excepted; they could drive a terminal.
_CONTROL = {code: None for code in [*range(0x20), *range(0x7F, 0xA0)] if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """``text`` without control characters (newline and tab stay) and lone surrogates."""
    clean = text.translate(_CONTROL)
    return clean.encode("utf-8", "replace").decode("utf-8")


def stderr() -> Console:
    """A console on stderr; plain when that is not a terminal."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def note(message: str, *, style: str = "dim") -> None:
    """One line on stderr; where that cannot be written to, the answer matters more."""
    text = printable(message)
    with suppress(OSError):
        if sys.stderr.isatty():
            stderr().print(text, style=style, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)


def write(text: str) -> None:
    """A piece of an answer to stdout, at once."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def write_text(text: str) -> None:
    """A line (or several) to stdout."""
    write(text if text.endswith("\n") else text + "\n")


def write_json(value: Mapping[str, Any], *, compact: bool = False) -> None:
    """One JSON object to stdout; on one line if ``compact``."""
    indent = None if compact else 2
    print(json.dumps(value, indent=indent, ensure_ascii=False), flush=True)


def table(
    rows: Sequence[Sequence[str]],
    *,
    header: Sequence[str] = (),
    title: str = "",
    right: Sequence[int] = (),
) -> None:
    """Rows to stdout: a rich table on a terminal, aligned plain columns elsewhere."""
    cells = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(cells, header=header, title=title, right=right)
        return
    if title:
        write_text(title)
    lines = [list(header), *cells] if header else cells
    if not lines:
        return
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        padded = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        write_text(("  " if title else "") + "  ".join(padded).rstrip())


def _rich_table(
    rows: Sequence[Sequence[str]], *, header: Sequence[str], title: str, right: Sequence[int]
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    grid = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD if header else None,
        show_header=bool(header),
        padding=(0, 2, 0, 0),
    )
    columns = len(header) or max((len(row) for row in rows), default=0)
    for i in range(columns):
        grid.add_column(
            header[i] if header else "",
            justify="right" if i in right else "left",
            style="cyan" if i == 0 else "",
            overflow="fold",
        )
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    console.print(grid)


@contextmanager
def status(message: str) -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal's stderr for the time of the block; silent elsewhere.

    Yields a function that changes the text.
    """
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.text import Text

    with stderr().status(Text(printable(message))) as spinner:
        yield lambda text: spinner.update(Text(printable(text)))


@contextmanager
def progress_bytes(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """One bar over ``total`` bytes on a terminal's stderr; a line at each tenth elsewhere.

    Yields a function that takes the number of bytes done so far.
    """
    if not sys.stderr.isatty():
        yield _TenthsReporter(label, total)
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=stderr(),
    ) as progress:
        task = progress.add_task(printable(label), total=total)
        yield lambda done: progress.update(task, completed=done)


class _TenthsReporter:
    """Says on stderr when another tenth is done."""

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = total
        self._said = 0

    def __call__(self, done: int) -> None:
        tenth = 10 * done // self._total if self._total > 0 else 10
        if tenth > self._said:
            self._said = tenth
            note(f"{self._label}: {min(tenth, 10) * 10} %")
