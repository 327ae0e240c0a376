"""Ctrl-C ends a turn, at once and cleanly.

Python runs a signal handler only between two of its own steps, and a decode of a large model is
one long step inside llama.cpp. The byte that the interpreter writes to its wakeup socket arrives
at once, though, and a thread that reads it can cancel the running decode.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from types import FrameType, TracebackType
from typing import Protocol

__all__ = ["LoadInterrupt", "TurnInterrupt"]

#: So many interrupts say that the turn (or the load) does not end; leave without ceremony.
_PATIENCE = 3


class _Cancellable(Protocol):
    def cancel(self) -> None: ...


class LoadInterrupt:
    """While entered, Ctrl-C is remembered until :meth:`check` is called.

    llama.cpp loads a model with calls back into Python, for its log and its progress. An exception
    that a signal handler raises in one of those is lost, and the load goes on.
    """

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._count = 0

    def __enter__(self) -> LoadInterrupt:
        """Take over SIGINT."""
        self._previous = signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give SIGINT back."""
        signal.signal(signal.SIGINT, self._previous)

    def check(self) -> None:
        """Raise :class:`KeyboardInterrupt` if Ctrl-C came."""
        if self._count:
            raise KeyboardInterrupt

    def _remember(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count >= _PATIENCE:
            os._exit(130)


class TurnInterrupt:
    """While entered, Ctrl-C cancels the session's turn; ``requested`` says whether it came."""

    def __init__(self, session: _Cancellable) -> None:
        """Watch for ``session``."""
        self.requested = False
        self._session = session
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._thread = threading.Thread(target=self._watch, name="interrupt", daemon=True)

    def __enter__(self) -> TurnInterrupt:
        """Take over SIGINT."""
        self._previous = signal.signal(signal.SIGINT, self._ignore)
        self._previous_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give SIGINT back."""
        signal.set_wakeup_fd(self._previous_fd)
        signal.signal(signal.SIGINT, self._previous)
        self._writer.close()
        self._thread.join()
        self._reader.close()

    def _ignore(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True

    def _watch(self) -> None:
        count = 0
        while numbers := self._reader.recv(64):
            count += numbers.count(signal.SIGINT)
            if count >= _PATIENCE:
                os._exit(130)
            if count:
                self.requested = True
                self._session.cancel()
