"""Reading what a person types: whole messages, over several lines where they say so."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

__all__ = [
    "MessageReader",
    "history_path",
    "load_readline",
    "piped_line",
    "save_history",
    "terminal_line",
]

_QUOTES = '"""'
_HISTORY_LENGTH = 1000


class MessageReader:
    """Joins lines to messages.

    A line that ends in a backslash goes on in the next one; after ``\"\"\"`` everything up to the
    next ``\"\"\"`` is one message.
    """

    def __init__(self, read_line: Callable[[str], str]) -> None:
        """Take lines from ``read_line(prompt)``, which raises ``EOFError`` at the end."""
        self._read_line = read_line

    def read(self) -> str:
        """The next message.

        Raises:
            EOFError: there is none.
        """
        line = self._read_line(">>> ")
        if line.lstrip().startswith(_QUOTES):
            return self._quoted(line.lstrip().removeprefix(_QUOTES))
        parts = []
        while line.endswith("\\"):
            parts.append(line[:-1])
            line = self._next("... ")
        return "\n".join([*parts, line])

    def _quoted(self, line: str) -> str:
        parts = []
        while _QUOTES not in line:
            parts.append(line)
            try:
                line = self._read_line("... ")
            except EOFError:
                return "\n".join(parts)
        parts.append(line[: line.index(_QUOTES)])
        return "\n".join(parts).strip("\n")

    def _next(self, prompt: str) -> str:
        try:
            return self._read_line(prompt)
        except EOFError:
            return ""


def terminal_line(prompt: str) -> str:
    """A line from the terminal."""
    return input(prompt)


def piped_line(_prompt: str) -> str:
    """A line from a pipe or a file, without a prompt."""
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\r\n")


def history_path() -> Path:
    """Where the lines typed in earlier chats are kept."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "moestream" / "chat_history"


def load_readline() -> ModuleType | None:
    """Line editing with the history of earlier chats, where the platform has it."""
    try:
        import readline
    except ImportError:
        return None
    path = history_path()
    readline.set_history_length(_HISTORY_LENGTH)
    with suppress(OSError):
        readline.read_history_file(path)
    return readline


def save_history(readline: ModuleType | None) -> None:
    """Keep the history for the next chat, readable by its owner only."""
    if readline is None:
        return
    path = history_path()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        readline.write_history_file(path)
