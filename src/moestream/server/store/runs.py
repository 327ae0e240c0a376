"""Recorded runs: CSV files in a folder, and what is known about them without reading them again.

The files are the truth. One that was put into the folder by hand is listed like any other, and
one that is gone is forgotten.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moestream.server.store.database import Database
from moestream.server.store.errors import NotKeptError, StoreError, file_errors

__all__ = ["Run", "Runs"]

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Files that are looked at; a folder of more is not ours.
_MOST_FILES: Final = 10_000

#: What a file says about itself, as plain JSON types.
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A recorded run.

    Attributes:
        name: what a person calls it.
        imported: it was recorded elsewhere.
        modified: when the file was written last, in seconds since the epoch.
        size: of the file, in bytes.
        facts: what it says about itself.
    """

    id: str
    name: str
    path: Path
    imported: bool
    modified: float
    size: int
    facts: Facts


class Runs:
    """The runs of a data directory."""

    def __init__(
        self, database: Database, folder: Path, summarize: Callable[[Path], Facts]
    ) -> None:
        """Look after the CSV files in ``folder``.

        Args:
            summarize: reads a file and says what is in it; must not fail because of what it says.
        """
        self._database = database
        self._folder = folder
        self._summarize = summarize
        for left_over in folder.glob(".import-*"):
            left_over.unlink(missing_ok=True)

    def all(self) -> list[Run]:
        """All of them, newest first.

        Raises:
            StoreError: the folder cannot be read.
        """
        files = self._files()
        known = {row["id"]: row for row in self._database.rows("SELECT * FROM runs")}
        for gone in known.keys() - files.keys():
            self._remember("DELETE FROM runs WHERE id = ?", gone)
        runs = []
        for run, path in files.items():
            try:
                runs.append(self._run(run, path, known.get(run)))
            except FileNotFoundError:
                continue  # deleted since the folder was read
        return sorted(runs, key=lambda run: (-run.modified, run.id))

    def get(self, run: str) -> Run:
        """One of them.

        Raises:
            NotKeptError: there is none with this id.
        """
        path = self._path(run)
        row = self._database.row("SELECT * FROM runs WHERE id = ?", run)
        try:
            return self._run(run, path, row)
        except FileNotFoundError:
            raise _unknown(run) from None

    def rename(self, run: str, name: str) -> Run:
        """Call it ``name``.

        Raises:
            NotKeptError: there is no such run.
        """
        self._path(run)
        self._database.execute(
            "INSERT INTO runs (id, name, imported) VALUES (?, ?, 0) "
            "ON CONFLICT (id) DO UPDATE SET name = excluded.name",
            run, name,
        )  # fmt: skip
        return self.get(run)

    def delete(self, run: str) -> None:
        """Delete its file.

        Raises:
            NotKeptError: there is no such run.
            StoreError: the file cannot be deleted.
        """
        path = self._path(run)
        with file_errors(f"cannot delete {path.name}"):
            path.unlink(missing_ok=True)
        self._database.execute("DELETE FROM runs WHERE id = ?", run)

    def new_path(self) -> Path:
        """Where to record a new run; no file is made."""
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime())
        return self._folder / f"{stamp}-{secrets.token_hex(2)}.csv"

    def import_path(self) -> Path:
        """Where to put a file that is being imported, before :meth:`take`."""
        return self._folder / f".import-{secrets.token_hex(8)}"

    def take(self, file: Path, name: str) -> Run:
        """Keep ``file``, made at :meth:`import_path`, as a run called ``name``.

        Raises:
            StoreError: it cannot be kept.
        """
        path = self.new_path()
        with file_errors("cannot keep the imported run"):
            os.replace(file, path)
        self._database.execute(
            "INSERT INTO runs (id, name, imported) VALUES (?, ?, 1)", path.stem, name
        )
        return self.get(path.stem)

    def _files(self) -> dict[str, Path]:
        doing = f"cannot read the folder of runs, {self._folder}"
        with file_errors(doing), os.scandir(self._folder) as entries:
            names = [
                entry.name
                for entry, _ in zip(entries, range(_MOST_FILES), strict=False)
                if entry.name.endswith(".csv")
                and not entry.name.startswith(".")
                and entry.is_file()
            ]
        return {_id(name): self._folder / name for name in names}

    def _path(self, run: str) -> Path:
        path = self._files().get(run)
        if path is None:
            raise _unknown(run)
        return path

    def _run(self, run: str, path: Path, row: Any) -> Run:
        stat = path.stat()
        stamp = f"{stat.st_mtime_ns}:{stat.st_size}"
        if row is not None and row["stamp"] == stamp:
            facts = json.loads(row["facts"])
        else:
            facts = self._summarize(path)
            self._remember(
                "INSERT INTO runs (id, imported, stamp, facts) VALUES (?, 0, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET stamp = excluded.stamp, facts = excluded.facts",
                run, stamp, json.dumps(facts),
            )  # fmt: skip
        return Run(
            id=run,
            name=(row["name"] if row is not None else None) or _readable(path.stem),
            path=path,
            imported=bool(row is not None and row["imported"]),
            modified=stat.st_mtime,
            size=stat.st_size,
            facts=facts,
        )

    def _remember(self, statement: str, *values: Any) -> None:
        """Write what only saves time: a full disk is no reason not to show what there is."""
        with suppress(StoreError):
            self._database.execute(statement, *values)


def _id(name: str) -> str:
    """The file's name without its ending, where that can stand in an address."""
    stem = name.removesuffix(".csv")
    if _PLAIN_NAME.fullmatch(stem):
        return stem
    return "file-" + hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def _readable(name: str) -> str:
    """A file's name as text; what is no text in it becomes question marks."""
    return os.fsencode(name).decode("utf-8", "replace")


def _unknown(run: str) -> NotKeptError:
    return NotKeptError(f"there is no run {run!r}")
