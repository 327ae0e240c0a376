"""Conversations: titles, and messages of the user and the model in turn."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from moestream.server.store.database import Database, Row
from moestream.server.store.errors import NotKeptError

__all__ = ["Conversation", "Conversations", "Message", "MessageState", "Role", "new_id"]

Role = Literal["user", "assistant"]

#: ``running`` answers grow; a server that died in the middle of one leaves it ``stopped``.
MessageState = Literal["complete", "running", "stopped", "failed"]

UNNAMED: Final = "New conversation"
_TITLE_LENGTH: Final = 60


def new_id() -> str:
    """An id that nobody guesses and nobody else has."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one of the two has said.

    Attributes:
        created: seconds since the epoch.
        reasoning: what the model thought aloud first; empty if it did not.
        state: whether it is all there.
        stats: what an answer cost; ``None`` if that is not known.
    """

    id: str
    role: Role
    content: str
    reasoning: str = ""
    created: float
    state: MessageState = "complete"
    stats: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation without its messages; times in seconds since the epoch."""

    id: str
    title: str
    created: float
    updated: float


class Conversations:
    """All conversations of a database."""

    def __init__(self, database: Database) -> None:
        """Answers that a killed server left running are marked as stopped."""
        self._database = database
        database.execute("UPDATE messages SET state = 'stopped' WHERE state = 'running'")

    def all(self) -> list[Conversation]:
        """All of them, the one with the latest word first."""
        rows = self._database.rows("SELECT * FROM conversations ORDER BY updated DESC, id")
        return [_conversation(row) for row in rows]

    def create(self, title: str | None = None) -> Conversation:
        """Begin one; without a title, it is called after the first question."""
        now = time.time()
        made = Conversation(id=new_id(), title=title or UNNAMED, created=now, updated=now)
        self._database.execute(
            "INSERT INTO conversations VALUES (?, ?, ?, ?, ?)",
            made.id, made.title, title is not None, now, now,
        )  # fmt: skip
        return made

    def get(self, conversation: str) -> Conversation:
        """One of them.

        Raises:
            NotKeptError: there is none with this id.
        """
        row = self._database.row("SELECT * FROM conversations WHERE id = ?", conversation)
        if row is None:
            raise NotKeptError(f"there is no conversation {conversation!r}")
        return _conversation(row)

    def rename(self, conversation: str, title: str) -> Conversation:
        """Give it a title.

        Raises:
            NotKeptError: there is no such conversation.
        """
        self._database.execute(
            "UPDATE conversations SET title = ?, named = 1 WHERE id = ?", title, conversation
        )
        return self.get(conversation)

    def delete(self, conversation: str) -> None:
        """Forget it and all that was said in it.

        Raises:
            NotKeptError: there is no such conversation.
        """
        if not self._database.execute("DELETE FROM conversations WHERE id = ?", conversation):
            raise NotKeptError(f"there is no conversation {conversation!r}")

    def messages(self, conversation: str) -> list[Message]:
        """What was said, oldest first."""
        rows = self._database.rows(
            "SELECT * FROM messages WHERE conversation = ? ORDER BY position", conversation
        )
        return [_message(row) for row in rows]

    def extend(self, conversation: str, messages: list[Message], *, keep: int) -> None:
        """Cut everything behind the first ``keep`` messages, and put ``messages`` there.

        Raises:
            NotKeptError: there is no such conversation.
        """
        with self._database.writing() as database:
            self._touch(conversation)
            database.execute(
                "DELETE FROM messages WHERE conversation = ? AND position >= ?", conversation, keep
            )
            for position, message in enumerate(messages, keep):
                database.execute(
                    "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    message.id, conversation, position, message.role, message.content,
                    message.reasoning, message.created, message.state, _stats(message),
                )  # fmt: skip
            first = next((m.content for m in messages if m.role == "user"), None)
            if keep == 0 and first is not None:
                database.execute(
                    "UPDATE conversations SET title = ? WHERE id = ? AND NOT named",
                    title_of(first), conversation,
                )  # fmt: skip

    def update(self, message: Message) -> bool:
        """Write an answer as far as it has come; ``False`` if it was deleted meanwhile."""
        with self._database.writing() as database:
            return bool(
                database.execute(
                    "UPDATE messages SET content = ?, reasoning = ?, state = ?, stats = ? "
                    "WHERE id = ?",
                    message.content,
                    message.reasoning,
                    message.state,
                    _stats(message),
                    message.id,
                )
            )

    def _touch(self, conversation: str) -> None:
        if not self._database.execute(
            "UPDATE conversations SET updated = ? WHERE id = ?", time.time(), conversation
        ):
            raise NotKeptError(f"there is no conversation {conversation!r}")


def title_of(question: str) -> str:
    """A title out of a first question: its beginning, on one line."""
    words = " ".join("".join(c if c.isprintable() else " " for c in question).split())
    if len(words) <= _TITLE_LENGTH:
        return words or UNNAMED
    return words[: _TITLE_LENGTH - 1].rstrip() + "…"


def _stats(message: Message) -> str | None:
    return None if message.stats is None else json.dumps(message.stats)


def _conversation(row: Row) -> Conversation:
    return Conversation(
        id=row["id"], title=row["title"], created=row["created"], updated=row["updated"]
    )


def _message(row: Row) -> Message:
    return Message(
        id=row["id"],
        role=row["role"],
        content=row["content"],
        reasoning=row["reasoning"],
        created=row["created"],
        state=row["state"],
        stats=json.loads(row["stats"]) if row["stats"] else None,
    )
