"""The decode loop and the choice of tokens as the verify loop's target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moestream.engine.loop import DecodeLoop
from moestream.engine.sampling import Chooser
from moestream.llama.logits import LogitRows, Logits

__all__ = ["ChoosingTarget", "LogitsObserver"]

#: Told the position of the row's token and a view of its logits, which the next decode overwrites.
LogitsObserver = Callable[[int, Logits], None]


class ChoosingTarget:
    """A :class:`~moestream.speculation.verify.Target`: evaluates, and chooses after each row."""

    def __init__(self, loop: DecodeLoop, chooser: Chooser, observer: LogitsObserver | None) -> None:
        """Choose with ``chooser``; ``observer`` sees the logits of every token that is said."""
        self._loop = loop
        self._chooser = chooser
        self._observer = observer
        self._logits: LogitRows | None = None

    def first(self) -> int:
        """The token after the prompt."""
        logits = self._loop.logits(1)
        if self._observer is not None:
            self._observer(len(self._loop.history) - 1, logits.array()[0])
        return self._chooser.choose(self._loop.context, logits)[0]

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        """Ask the draft source."""
        return self._loop.propose(confirmed, width)

    def evaluate(self, tokens: Sequence[int]) -> Sequence[int]:
        """Decode, and choose after each row; greedily, when the choice is asked for."""
        loop = self._loop
        loop.evaluate(tokens)
        self._logits = loop.logits(len(tokens))
        return self._chooser.choose(loop.context, self._logits)

    def keep(self, rows: int) -> None:
        """Show the observer what led to a token, then let the loop go back."""
        if self._observer is not None and self._logits is not None:
            logits = self._logits.array()
            for row in range(rows):
                self._observer(len(self._loop.history) + row, logits[row])
        self._loop.keep(rows)
