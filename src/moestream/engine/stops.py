"""From pieces of bytes to text: whole characters only, and nothing of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from moestream.errors import ConfigError

__all__ = ["TextStream"]


class TextStream:
    """Decodes pieces incrementally and watches for stop strings.

    Text that could still turn out to be the beginning of a stop string is held back until it
    cannot any more.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        """Watch for ``stops``.

        Raises:
            ConfigError: a stop string is empty, which would end every text at once.
        """
        if any(not stop for stop in stops):
            raise ConfigError("a stop string must not be empty")
        self._stops = tuple(stops)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self.stopped = False

    def push(self, piece: bytes) -> str:
        """Text that ``piece`` makes certain; sets :attr:`stopped` at a stop string."""
        if self.stopped:
            return ""
        return self._advance(self._decoder.decode(piece))

    def finish(self) -> str:
        """Everything still held back, at the end of the generation."""
        if self.stopped:
            return ""
        text = self._advance(self._decoder.decode(b"", final=True))
        if self.stopped:
            return text
        rest, self._held = self._held, ""
        return text + rest

    def _advance(self, text: str) -> str:
        self._held += text
        found = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            self.stopped = True
            text, self._held = self._held[: min(found)], ""
            return text
        keep = max((self._overlap(stop) for stop in self._stops), default=0)
        cut = len(self._held) - keep
        text, self._held = self._held[:cut], self._held[cut:]
        return text

    def _overlap(self, stop: str) -> int:
        """Length of the longest end of the held text that begins ``stop``."""
        for size in range(min(len(stop) - 1, len(self._held)), 0, -1):
            if self._held.endswith(stop[:size]):
                return size
        return 0
