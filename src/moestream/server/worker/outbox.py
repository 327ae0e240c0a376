"""Messages on their way to the server, written by a thread of their own.

A token leaves at once unless one has just left; then it waits for the rest of the pause, and shares
a message with whatever comes meanwhile. So a fast model spends next to nothing on messages (each
wakes two processes, which costs more than a token of a small model), and no text waits for a token
that is slow.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from moestream.server.worker.wire import encode

__all__ = ["Outbox", "TokenSource"]

#: Seconds between two messages with tokens: forty a second still look like a flow.
_PAUSE: Final = 0.025


class TokenSource(Protocol):
    """A running turn, as far as its tokens are concerned."""

    def take(self) -> Mapping[str, Any] | None:
        """A message with all tokens since the last one; ``None`` if there are none."""
        ...


class Outbox:
    """Writes to a file descriptor. :meth:`send` and :meth:`ring` may be called from any thread."""

    def __init__(self, descriptor: int, *, lost: Callable[[], None]) -> None:
        """Start the thread; ``lost`` is called when nobody reads any more."""
        self._descriptor = descriptor
        self._lost = lost
        self._lock = threading.Lock()
        self._messages: deque[Mapping[str, Any]] = deque()
        self._source: TokenSource | None = None
        self._collected = False
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Write ``message``, after all tokens that came before it."""
        with self._lock:
            self._collect()
            self._messages.append(message)
        self._hurry.set()
        self._wake.set()

    def attach(self, source: TokenSource | None) -> None:
        """Ask ``source`` for tokens from now on, after the rest of those of the one before."""
        with self._lock:
            self._collect()
            self._source = source
        self._wake.set()

    def ring(self) -> None:
        """The source has a token."""
        if not self._wake.is_set():
            self._wake.set()

    def close(self, timeout: float) -> None:
        """Write what is left, for at most ``timeout`` seconds."""
        self._closing = True
        self._hurry.set()
        self._wake.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._hurry.clear()
            self._wake.clear()
            closing = self._closing
            try:
                tokens = self._drain()
            except OSError:
                self._lost()
                return
            if closing:
                return
            if tokens:
                self._hurry.wait(_PAUSE)

    def _drain(self) -> bool:
        """Write everything; whether there were tokens."""
        with self._lock:
            self._collect()
            messages = list(self._messages)
            self._messages.clear()
            tokens, self._collected = self._collected, False
        if messages:
            self._write(b"".join(encode(message) for message in messages))
        return tokens

    def _collect(self) -> None:
        source = self._source
        tokens = None if source is None else source.take()
        if tokens is not None:
            self._messages.append(tokens)
            self._collected = True

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
