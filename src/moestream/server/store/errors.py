"""What can go wrong with what the server keeps.

StoreError                something kept could not be read or written
├── StoreFullError        the disk is full
├── StoreBusyError        somebody else holds the database
├── StoreDamagedError     the file is no database, or is damaged
└── NotKeptError          there is no such conversation, message, run or pull
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from pathlib import Path

from moestream.errors import MoestreamError

__all__ = [
    "NotKeptError",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "StoreFullError",
    "file_errors",
    "sqlite_errors",
]


class StoreError(MoestreamError):
    """Something kept could not be read or written."""


class StoreFullError(StoreError):
    """The disk is full."""


class StoreBusyError(StoreError):
    """Somebody else holds the database; it may be free in a moment."""


class StoreDamagedError(StoreError):
    """The file is no database, or is damaged."""


class NotKeptError(StoreError):
    """There is no such conversation, message, run or pull."""


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turns what SQLite raises about the file ``path`` into a :class:`StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise _in_words(path, str(error)) from error


def _in_words(path: Path, reason: str) -> StoreError:
    said = reason.lower()
    if "full" in said:
        return StoreFullError(f"the disk is full: {path} cannot be written to; make room on it")
    if "locked" in said or "busy" in said:
        return StoreBusyError(f"{path} is held by another program; close it, or try again later")
    if "malformed" in said or "not a database" in said or "encrypted" in said:
        return StoreDamagedError(
            f"{path} is damaged ({reason}); move it away to begin anew, or put a copy back"
        )
    return StoreError(f"{path} cannot be used: {reason}; look at its permissions and at the disk")


@contextmanager
def file_errors(doing: str) -> Iterator[None]:
    """Turns an :class:`OSError` into a :class:`StoreError` that begins with ``doing``."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        kind = StoreFullError if error.errno in (ENOSPC, EDQUOT) else StoreError
        raise kind(f"{doing}: {reason}") from error
