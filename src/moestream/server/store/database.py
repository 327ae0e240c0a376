"""SQLite, opened so that a killed server loses nothing it has confirmed.

One connection, one lock: what the server keeps is small, and writers would wait for each other
anyway. Calls block; the server makes them in threads.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from moestream.server.store.errors import StoreDamagedError, StoreError, sqlite_errors

__all__ = ["Database", "Row"]

Row = sqlite3.Row

#: How long to wait for another program that holds the file, in milliseconds.
_PATIENCE_MS: Final = 2000

#: Step ``i`` brings a database of version ``i`` to ``i + 1``. Steps are only ever added.
_STEPS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE conversations (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        named INTEGER NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL
    );
    CREATE TABLE messages (
        id TEXT PRIMARY KEY,
        conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
        content TEXT NOT NULL,
        reasoning TEXT NOT NULL,
        created REAL NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('complete', 'running', 'stopped', 'failed')),
        stats TEXT,
        UNIQUE (conversation, position)
    );
    CREATE TABLE pulls (
        id TEXT PRIMARY KEY,
        reference TEXT NOT NULL,
        state TEXT NOT NULL,
        bytes_total INTEGER,
        bytes_done INTEGER NOT NULL,
        files TEXT NOT NULL,
        path TEXT,
        error TEXT,
        created REAL NOT NULL,
        updated REAL NOT NULL
    );
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        name TEXT,
        imported INTEGER NOT NULL,
        stamp TEXT,
        facts TEXT
    );
    """,
)


class Database:
    """The database of a data directory."""

    def __init__(self, path: Path) -> None:
        """Open ``path``, make it if it is not there, and bring it to today's shape.

        Raises:
            StoreError: it cannot be opened, is damaged, held by another program, or newer than
                this version.
        """
        self.path = path
        self._lock = threading.RLock()
        with sqlite_errors(path):
            self._connection = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=_PATIENCE_MS / 1e3
            )
            self._connection.row_factory = sqlite3.Row
        try:
            with sqlite_errors(path):
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    @contextmanager
    def writing(self) -> Iterator[Database]:
        """A transaction: all of what is in the block, or nothing.

        Raises:
            StoreError: it could not be written; nothing has changed.
        """
        with self._lock, sqlite_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def execute(self, statement: str, *values: Any) -> int:
        """Run one statement; returns the number of rows it changed."""
        with self._lock, sqlite_errors(self.path):
            return self._connection.execute(statement, values).rowcount

    def rows(self, statement: str, *values: Any) -> Sequence[Row]:
        """What a query finds."""
        with self._lock, sqlite_errors(self.path):
            found: Sequence[Row] = self._connection.execute(statement, values).fetchall()
            return found

    def row(self, statement: str, *values: Any) -> Row | None:
        """The first row a query finds."""
        found = self.rows(statement, *values)
        return found[0] if found else None

    def close(self) -> None:
        """Close the file. May be called again."""
        with self._lock, sqlite_errors(self.path):
            self._connection.close()

    def _prepare(self) -> None:
        run = self._connection.execute
        # The log is written ahead and survives a killed process. It waits for the disk only at
        # checkpoints: a power cut may cost the last moments, never the file.
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run("PRAGMA foreign_keys = ON")
        verdict = run("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise StoreDamagedError(
                f"{self.path} is damaged ({' '.join(str(verdict).split())}); move it away to "
                "begin anew, or put a copy back"
            )
        version = run("PRAGMA user_version").fetchone()[0]
        if version > len(_STEPS):
            raise StoreError(
                f"{self.path} was written by a newer version of moestream (its shape is number "
                f"{version}, this version knows {len(_STEPS)}); update moestream, or give another "
                "--data-dir"
            )
        for number in range(version, len(_STEPS)):
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {_STEPS[number]}; PRAGMA user_version = {number + 1}; COMMIT"
            )
