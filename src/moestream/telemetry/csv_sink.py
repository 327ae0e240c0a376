"""The recording as CSV: ``#`` preamble, a row per token, ``# summary`` trailer.

Every line is written at once and whole, so that a process that dies leaves a file that can be
read up to its last token.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path

from moestream.errors import ConfigError
from moestream.telemetry.column import Value
from moestream.telemetry.record import TokenRecord
from moestream.telemetry.schema import (
    DONE_KEYS,
    PREAMBLE_KEYS,
    TOKEN_COLUMNS,
    csv_header,
    text_values,
)

__all__ = ["CsvSink", "check_target"]


def check_target(path: Path, protected: Sequence[Path]) -> None:
    """Refuse to write to ``path`` what could not be written, or would destroy a model.

    Raises:
        ConfigError: it is a directory, or one of the ``protected`` files.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a directory; name a file to record to")
    for file in protected:
        with suppress(OSError):  # it may not exist
            if path.samefile(file):
                raise ConfigError(f"{path} is the model itself; record to another file")


class CsvSink:
    """Writes one CSV file; replaces what the file held when the recording begins."""

    def __init__(self, path: Path, *, protected: Sequence[Path] = ()) -> None:
        """Open ``path``. Nothing of it is overwritten before :meth:`begin`.

        Args:
            path: a file, or something else that can be written to, such as a pipe.
            protected: files that it must not be.

        Raises:
            ConfigError: the path cannot be written to, or must not be.
        """
        self._path = path
        self._length = 0
        try:
            check_target(path, protected)
            self._made = not path.exists()
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigError(
                f"cannot record to {path}: {reason}; name a file in a directory that exists "
                "and can be written to"
            ) from error
        self._file = FileIO(descriptor, "w")
        self._regular = stat.S_ISREG(os.fstat(descriptor).st_mode)

    @property
    def label(self) -> str:
        """What it writes, for messages."""
        return f"the recording to {self._path}"

    def begin(self, preamble: Mapping[str, Value]) -> None:
        """Empty the file; write the preamble and the header."""
        if self._regular:
            self._file.truncate(0)
        self._made = False
        lines = [f"# {name}={value}" for name, value in text_values(PREAMBLE_KEYS, preamble)]
        self._write("\n".join([*lines, csv_header()]))

    def token(self, record: TokenRecord) -> None:
        """A row."""
        self._write(",".join(value for _, value in text_values(TOKEN_COLUMNS, record.values())))

    def turn(self, done: Mapping[str, Value]) -> None:
        """A comment with the numbers of the turn."""
        self._write(_done_line("turn", done))

    def end(self, done: Mapping[str, Value]) -> None:
        """The trailer."""
        self._write(_done_line("summary", done))

    def close(self) -> None:
        """Close the file; one that was made for a recording that never began is removed."""
        if self._made and not self._file.closed:
            with suppress(OSError):
                self._path.unlink()
        self._made = False
        self._file.close()

    def _write(self, line: str) -> None:
        data = f"{line}\n".encode("utf-8", "replace")
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
        except OSError:
            if self._regular:  # half a row is worse than none
                with suppress(OSError):
                    self._file.truncate(self._length)
            raise
        self._length += len(data)


def _done_line(kind: str, done: Mapping[str, Value]) -> str:
    return " ".join([f"# {kind}", *(f"{n}={value}" for n, value in text_values(DONE_KEYS, done))])
