"""llama.cpp's log, kept in a bounded buffer so that an error can quote its own words."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from dataclasses import dataclass
from typing import Final

__all__ = ["LogBuffer", "LogLine"]

_LEVEL_ERROR: Final = 4
_LEVEL_WARN: Final = 3
_LEVEL_CONTINUE: Final = 5
_MAX_TEXT: Final = 1000

_logger = logging.getLogger("moestream.llama")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line as llama.cpp wrote it."""

    number: int
    level: int
    text: str


class LogBuffer:
    """Bounded record of log lines, safe to append to from any thread.

    Appending takes no lock: llama.cpp may log while a garbage collection frees a model in the
    very thread that is reading the buffer, and a lock would then wait for itself.
    """

    def __init__(self, capacity: int = 2000) -> None:
        """Keep the last ``capacity`` pieces of log."""
        self._lines: deque[LogLine] = deque(maxlen=capacity)
        self._numbers = itertools.count(1)
        self._last_number = 0
        #: A Ctrl-C that arrived inside a callback, to be raised once the C frames are left.
        self.interrupt: BaseException | None = None

    def append(self, level: int, text: str) -> None:
        """Record a piece of log; progress dots are dropped."""
        stripped = text.strip()
        if not stripped or (level == _LEVEL_CONTINUE and not stripped.strip(".")):
            return
        number = next(self._numbers)
        self._last_number = number
        self._lines.append(LogLine(number, level, stripped[:_MAX_TEXT]))
        if _logger.isEnabledFor(logging.DEBUG):
            _logger.debug("%s", stripped)

    def mark(self) -> int:
        """Position to hand to :meth:`since` later."""
        return self._last_number

    def since(self, mark: int) -> list[LogLine]:
        """Lines recorded after ``mark``, as far as they are still kept."""
        return [line for line in tuple(self._lines) if line.number > mark]

    def complaint(self, mark: int, *, limit: int = 3) -> str:
        """The last errors after ``mark`` in one line (warnings where there are no errors)."""
        lines = self.since(mark)
        chosen = [line for line in lines if line.level == _LEVEL_ERROR]
        if not chosen:
            chosen = [line for line in lines if line.level == _LEVEL_WARN]
        unique = list(dict.fromkeys(line.text for line in chosen))
        return "; ".join(unique[-limit:])
