"""The recording as lines for programs: a word that says what follows, and one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from moestream.telemetry.column import Column, Value
from moestream.telemetry.record import TokenRecord
from moestream.telemetry.schema import DONE_KEYS, PREAMBLE_KEYS, TOKEN_COLUMNS, plain_values

__all__ = ["DONE", "LOAD", "PROGRESS", "JsonLinesSink"]

LOAD: Final = "BMOE_LOAD"
PROGRESS: Final = "BMOE_PROGRESS"
DONE: Final = "BMOE_DONE"


class JsonLinesSink:
    """Writes a line when the session is loaded, one per token, and one at the end of each turn."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """``write`` is given whole lines, line ends included."""
        self._emit = write

    @property
    def label(self) -> str:
        """What it writes, for messages."""
        return "the progress output"

    def begin(self, preamble: Mapping[str, Value]) -> None:
        """The session as it was resolved."""
        self._write(LOAD, PREAMBLE_KEYS, preamble)

    def token(self, record: TokenRecord) -> None:
        """A token."""
        self._write(PROGRESS, TOKEN_COLUMNS, record.values())

    def turn(self, done: Mapping[str, Value]) -> None:
        """The numbers of a turn."""
        self._write(DONE, DONE_KEYS, done)

    def end(self, done: Mapping[str, Value]) -> None:
        """Nothing: every turn has said its own."""

    def close(self) -> None:
        """Nothing is held."""

    def _write(self, word: str, table: Sequence[Column], values: Mapping[str, Value]) -> None:
        text = json.dumps(plain_values(table, values), separators=(",", ":"), allow_nan=False)
        self._emit(f"{word} {text}\n")
