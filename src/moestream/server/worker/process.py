"""The engine's process, as its parent holds it."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from typing import Final

from moestream.config import EngineConfig
from moestream.server.worker.wire import Message, config_to_json, decode, encode

__all__ = ["WorkerProcess"]

_LOG: Final = logging.getLogger("moestream.server.engine")

#: Seconds that pipes of a dead process may stay open: something it has started may hold them.
_LEFT_OPEN_S: Final = 1.0


class WorkerProcess(asyncio.SubprocessProtocol):
    """A child that opens one model. Its messages go to a handler, in the event loop's thread.

    Messages are handled where the event loop reads them, without streams and tasks in between: a
    fast model sends forty a second, and the time they take is taken from its neighbour on the
    processor, the decode.
    """

    def __init__(self, handler: Callable[[Message], None]) -> None:
        """Made by :meth:`start`."""
        self._handler = handler
        self._transport: asyncio.SubprocessTransport | None = None
        self._begun = {1: b"", 2: b""}
        self._last_words = ""
        #: Done when the process has ended, with the reason in words.
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @classmethod
    async def start(cls, config: EngineConfig, handler: Callable[[Message], None]) -> WorkerProcess:
        """Start the process and tell it what to open.

        Raises:
            OSError: it cannot be started.
        """
        worker = cls(handler)
        await asyncio.get_running_loop().subprocess_exec(
            lambda: worker, sys.executable, "-m", "moestream.server.worker"
        )
        worker.send(config_to_json(config))
        return worker

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._transport is not None
        return self._transport.get_pid()

    def send(self, message: Message) -> None:
        """Send a message; to a process that has died it does nothing."""
        assert self._transport is not None
        stdin = self._transport.get_pipe_transport(0)
        if isinstance(stdin, asyncio.WriteTransport) and not stdin.is_closing():
            stdin.write(encode(message))

    def kill(self) -> None:
        """End it now."""
        assert self._transport is not None
        if self._transport.get_returncode() is None:
            try:
                self._transport.kill()
            except ProcessLookupError:
                return

    async def stop(self, timeout: float) -> None:
        """Ask it to end; kill it after ``timeout`` seconds."""
        self.send({"t": "exit"})
        try:
            await asyncio.wait_for(asyncio.shield(self.ended), timeout)
        except asyncio.TimeoutError:
            self.kill()
            await asyncio.shield(self.ended)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process has started."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Whole lines are messages, or words for the log; the rest waits for its end."""
        *lines, self._begun[fd] = (self._begun[fd] + data).split(b"\n")
        take = self._take_message if fd == 1 else self._take_words
        for line in lines:
            take(line)

    def process_exited(self) -> None:
        """It has ended; what it has written may still be in the pipes."""
        asyncio.get_running_loop().call_later(_LEFT_OPEN_S, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, and everything is read."""
        self._end()

    def _end(self) -> None:
        if self.ended.done():
            return
        assert self._transport is not None
        self._take_words(self._begun[2])
        code = self._transport.get_returncode()
        self._transport.close()
        self.ended.set_result(_reason(0 if code is None else code, self._last_words))

    def _take_message(self, line: bytes) -> None:
        try:
            message = decode(line)
        except ValueError:
            _LOG.error("the engine sent what is no message; it is ended")
            self.kill()
            return
        try:
            self._handler(message)
        except Exception:
            _LOG.exception("a message of the engine could not be handled: %s", message.get("t"))

    def _take_words(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        if text:
            self._last_words = text
            _LOG.warning("%s", text)


def _reason(code: int, last_words: str) -> str:
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        how = f"was killed by {name}"
        if -code == signal.SIGKILL:
            how += " (the system kills like this when memory runs out)"
    else:
        how = f"ended with code {code}"
    return f"the engine's process {how}" + (f": {last_words}" if last_words else "")
