"""A running generation, as the caller holds it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from moestream.engine.events import GenerationSummary, TokenEvent
from moestream.engine.turn import Turn
from moestream.errors import SessionStateError

__all__ = ["Generation"]


class Generation(Iterator[TokenEvent]):
    """The events of one generation. Read it to the end, or close it to stop early."""

    def __init__(
        self,
        turn: Turn,
        lock: AbstractContextManager[bool],
        *,
        check: Callable[[], None],
        ended: Callable[[GenerationSummary], None],
    ) -> None:
        """Made by the session.

        Args:
            turn: what to run.
            lock: held while it runs.
            check: raises where it must not run.
            ended: told once, when it has ended, for whatever reason.
        """
        self._turn = turn
        self._events = turn.events()
        self._lock = lock
        self._check = check
        self._ended = ended
        self._done = False
        self._thread: int | None = None

    @property
    def summary(self) -> GenerationSummary:
        """The generation so far as a whole; final after the last event."""
        return self._turn.summary()

    @property
    def runs_in_this_thread(self) -> bool:
        """Whether this very thread is inside :meth:`__next__`."""
        return self._thread == threading.get_ident()

    def __next__(self) -> TokenEvent:
        """The next event; evaluates one token."""
        if self._done:
            raise StopIteration
        if self._thread is not None:
            raise SessionStateError("this generation is being read by another thread")
        self._check()
        with self._lock:
            if self._done:
                raise StopIteration
            self._thread = threading.get_ident()
            try:
                event = next(self._events)
            except BaseException:
                self._finish()
                raise
            finally:
                self._thread = None
            if event.finish_reason is not None:
                self._events.close()
                self._finish()
            return event

    def close(self) -> None:
        """Stop here. The session is ready for the next prompt."""
        with self._lock:
            if not self._done:
                self._events.close()
                self._finish()

    def text(self) -> str:
        """Read to the end; everything that was generated from here on."""
        return "".join(event.text for event in self)

    def _finish(self) -> None:
        self._done = True
        self._ended(self.summary)

    def __del__(self) -> None:
        """An abandoned generation must not keep its session busy."""
        if not getattr(self, "_done", True):
            self._finish()
