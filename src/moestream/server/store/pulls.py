"""Pulls as they are remembered: a stopped one can go on after the server was started anew."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from typing import Literal

from moestream.models.reference import RepoFile
from moestream.server.store.conversations import new_id
from moestream.server.store.database import Database, Row
from moestream.server.store.errors import NotKeptError

__all__ = ["ENDED", "Pull", "PullState", "Pulls"]

#: ``interrupted``: the server was stopped meanwhile.
PullState = Literal["waiting", "listing", "fetching", "done", "cancelled", "failed", "interrupted"]

ENDED: frozenset[PullState] = frozenset(("done", "cancelled", "failed", "interrupted"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """A model that is fetched, or was.

    Attributes:
        reference: ``OWNER/NAME[:QUANT]`` as it was asked for.
        bytes_total: of all files; ``None`` before they are known.
        bytes_done: of them, what is on the disk.
        files: what makes up the model; empty before that is known.
        path: the model, once it is done.
        error: why it failed.
        created: seconds since the epoch.
        updated: the same, of the last change of ``state``.
    """

    id: str
    reference: str
    state: PullState
    bytes_total: int | None = None
    bytes_done: int = 0
    files: tuple[RepoFile, ...] = field(default=())
    path: str | None = None
    error: str | None = None
    created: float
    updated: float

    @property
    def ended(self) -> bool:
        """Whether nothing is fetched, nor will be, unless somebody asks."""
        return self.state in ENDED


class Pulls:
    """All pulls of a database."""

    def __init__(self, database: Database) -> None:
        """Pulls that a stopped server left behind are marked as interrupted."""
        self._database = database
        database.execute(
            "UPDATE pulls SET state = 'interrupted' "
            "WHERE state IN ('waiting', 'listing', 'fetching')"
        )

    def all(self) -> list[Pull]:
        """All of them, newest first."""
        rows = self._database.rows("SELECT * FROM pulls ORDER BY created DESC, id")
        return [_pull(row) for row in rows]

    def get(self, pull: str) -> Pull:
        """One of them.

        Raises:
            NotKeptError: there is none with this id.
        """
        row = self._database.row("SELECT * FROM pulls WHERE id = ?", pull)
        if row is None:
            raise NotKeptError(f"there is no pull {pull!r}")
        return _pull(row)

    def add(self, reference: str) -> Pull:
        """A new one, waiting."""
        now = time.time()
        pull = Pull(id=new_id(), reference=reference, state="waiting", created=now, updated=now)
        self.save(pull)
        return pull

    def save(self, pull: Pull) -> None:
        """Remember ``pull`` as it is now."""
        files = json.dumps([[file.name, file.size, file.digest] for file in pull.files])
        self._database.execute(
            "INSERT OR REPLACE INTO pulls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            pull.id, pull.reference, pull.state, pull.bytes_total, pull.bytes_done, files,
            pull.path, pull.error, pull.created, pull.updated,
        )  # fmt: skip

    def delete(self, pull: str) -> None:
        """Forget it; what was fetched stays.

        Raises:
            NotKeptError: there is no such pull.
        """
        if not self._database.execute("DELETE FROM pulls WHERE id = ?", pull):
            raise NotKeptError(f"there is no pull {pull!r}")


def moved(pull: Pull, state: PullState, *, error: str | None = None) -> Pull:
    """``pull`` in another state, from now on."""
    return replace(pull, state=state, error=error, updated=time.time())


def _pull(row: Row) -> Pull:
    return Pull(
        id=row["id"],
        reference=row["reference"],
        state=row["state"],
        bytes_total=row["bytes_total"],
        bytes_done=row["bytes_done"],
        files=tuple(RepoFile(*file) for file in json.loads(row["files"])),
        path=row["path"],
        error=row["error"],
        created=row["created"],
        updated=row["updated"],
    )
