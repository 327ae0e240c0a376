"""What has been said so far, and its file form."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moestream.errors import ConfigError

__all__ = ["Conversation", "Message"]

#: ``{"role": ..., "content": ...}``, as chat templates take it.
Message = dict[str, str]

_ROLES = ("user", "assistant")


@dataclass(slots=True)
class Conversation:
    """Messages of the user and the model in turn, and the system message before them."""

    system: str | None = None
    messages: list[Message] = field(default_factory=list)

    def asking(self, text: str) -> list[Message]:
        """All messages with ``text`` as the user's next; the conversation itself stays."""
        return [*self._head(), *self.messages, {"role": "user", "content": text}]

    def add(self, question: str, answer: str) -> None:
        """A turn that happened."""
        self.messages += [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ]

    def take_back(self) -> tuple[str, str] | None:
        """Remove the last turn; returns its question and answer, ``None`` if there is none."""
        if not self.messages:
            return None
        question, answer = (message["content"] for message in self.messages[-2:])
        del self.messages[-2:]
        return question, answer

    def clear(self) -> None:
        """Forget all turns; the system message stays."""
        self.messages.clear()

    def save(self, path: Path) -> None:
        """Write the conversation as JSON; the file is replaced as a whole."""
        text = json.dumps({"messages": [*self._head(), *self.messages]}, indent=2)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(text + "\n", encoding="utf-8")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> Conversation:
        """Read what :meth:`save` wrote (or a list of messages written by hand).

        Raises:
            ConfigError: it is not a conversation.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is not a saved conversation: {error}") from error
        messages = data.get("messages") if isinstance(data, dict) else data
        if not isinstance(messages, list):
            raise ConfigError(f"{path} is not a saved conversation: it has no list of messages")
        conversation = cls()
        for index, message in enumerate(messages):
            role, content = _parts(path, index, message)
            if role == "system" and index == 0:
                conversation.system = content
                continue
            expected = _ROLES[len(conversation.messages) % 2]
            if role != expected:
                raise ConfigError(
                    f"{path}: message {index + 1} is by {role!r}, expected {expected!r}"
                )
            conversation.messages.append({"role": role, "content": content})
        if len(conversation.messages) % 2:
            raise ConfigError(f"{path}: the last message has no answer")
        return conversation

    def _head(self) -> Sequence[Message]:
        return [] if self.system is None else [{"role": "system", "content": self.system}]


def _parts(path: Path, index: int, message: object) -> tuple[str, str]:
    if isinstance(message, dict):
        role, content = message.get("role"), message.get("content")
        if isinstance(role, str) and isinstance(content, str):
            return role, content
    raise ConfigError(f"{path}: message {index + 1} has no role and content")
