"""Recordings read back: the CSV of a run here, the trace of its routing next door.

Columns are found by name. A column or a key that this version does not know is no error, and one
that an older version did not write is absent; but a file that says something impossible is
refused with the line that says it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from moestream.telemetry.recorded_lines import Lines, excerpt, open_recording, pairs
from moestream.telemetry.schema import TOKEN_COLUMNS
from moestream.telemetry.trace_reading import RouteTraceFile, read_route_trace

__all__ = ["RouteTraceFile", "RunFile", "read_route_trace", "read_run"]

#: More than any time, size or count in a row can be, and than a group can have.
_ABSURD: Final = 1e15
_ABSURD_GROUP: Final = 1024.0
_OF_GROUPS: Final = ("mtp_batch", "drafted", "accepted")
_SUMMARY: Final = "summary"

_TEXT_COLUMNS: Final = frozenset(c.name for c in TOKEN_COLUMNS if c.form == "text")
_NUMBER_COLUMNS: Final = frozenset(c.name for c in TOKEN_COLUMNS) - _TEXT_COLUMNS
_NEEDED_COLUMNS: Final = ("step", "wall_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """A run's CSV.

    Attributes:
        path: where it was read.
        preamble: the resolved configuration, by key; without a value the empty string.
        columns: numbers by column, one a row; NaN where nothing was measured.
        texts: the same for columns of words; the empty string where there is none.
        trailer: the last summary; ``None`` if the run did not live to write one.
        cut: whether an unfinished last line was left out.
    """

    path: Path
    preamble: Mapping[str, str]
    columns: Mapping[str, NDArray[np.float64]]
    texts: Mapping[str, tuple[str, ...]]
    trailer: Mapping[str, str] | None
    cut: bool

    @property
    def n_rows(self) -> int:
        """Number of rows, one a token."""
        return len(self.columns["step"])

    def column(self, name: str) -> NDArray[np.float64]:
        """The numbers of a column; all NaN if the file does not have it."""
        found = self.columns.get(name)
        return np.full(self.n_rows, np.nan) if found is None else found

    @property
    def decoded(self) -> NDArray[np.bool_]:
        """Which rows are of decodes, not of a prefill."""
        phase = self.texts.get("phase")
        if phase is None:
            return np.ones(self.n_rows, dtype=np.bool_)
        return np.array([word != "prefill" for word in phase], dtype=np.bool_)


def read_run(path: str | os.PathLike[str]) -> RunFile:
    """Read what ``--csv`` wrote.

    Raises:
        ConfigError: the file is no such CSV; the message names the line.
        OSError: it cannot be read.
    """
    path = Path(path)
    with open_recording(path) as stream:
        lines = Lines(path, stream)
        names, comments = lines.header("step")
        for needed in _NEEDED_COLUMNS:
            if needed not in names:
                raise lines.wrong(f"is a header without the column {needed}")
        preamble: dict[str, str] = {}
        for _number, comment in comments:
            preamble |= pairs(comment)
        numbers = [name for name in names if name not in _TEXT_COLUMNS]
        columns: dict[str, list[float]] = {name: [] for name in numbers}
        texts: dict[str, list[str]] = {name: [] for name in names if name in _TEXT_COLUMNS}
        trailer: dict[str, str] | None = None
        for line in lines:
            if line.startswith("#"):
                words = line[1:].split(None, 1)
                if words and words[0] == _SUMMARY:
                    trailer = pairs(line)
            elif line:
                cells = line.split(",")
                if len(cells) != len(names):
                    raise lines.wrong(f"has {len(cells)} fields, but the header has {len(names)}")
                for name, cell in zip(names, cells, strict=True):
                    if name in texts:
                        texts[name].append(cell.strip())
                    else:
                        columns[name].append(_measured(lines, name, cell))
    return RunFile(
        path=path,
        preamble=preamble,
        columns={name: np.array(values, dtype=np.float64) for name, values in columns.items()},
        texts={name: tuple(values) for name, values in texts.items()},
        trailer=trailer,
        cut=lines.cut,
    )


def _measured(lines: Lines, name: str, cell: str) -> float:
    """A cell as a number; NaN where nothing was measured (also written as -1 by others)."""
    text = cell.strip()
    if text == "":
        return np.nan
    try:
        value = float(text)
    except ValueError:
        if name not in _NUMBER_COLUMNS:
            return np.nan
        raise lines.wrong(f"has {excerpt(text)} in {name}, which is no number") from None
    if name in _NUMBER_COLUMNS:
        if value < 0.0:
            return np.nan
        if value > (_ABSURD_GROUP if name in _OF_GROUPS else _ABSURD):
            raise lines.wrong(f"has {excerpt(text)} in {name}, which is no possible value")
    return value
