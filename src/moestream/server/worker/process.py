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

#: Longest message: a report with a long chat template, or thousands of tokens at once.
_LINE_BYTES: Final = 1 << 26


class WorkerProcess:
    """A child that opens one model. Its messages go to a handler, in the event loop's thread."""

    def __init__(self, process: asyncio.subprocess.Process, handler: Callable[[Message], None]):
        """Made by :meth:`start`."""
        self._process = process
        self._handler = handler
        self._last_words = ""
        self._expected = False
        #: Ends when the process has, with the reason in words.
        self.ended: asyncio.Task[str] = asyncio.create_task(self._follow())

    @classmethod
    async def start(cls, config: EngineConfig, handler: Callable[[Message], None]) -> WorkerProcess:
        """Start the process and tell it what to open.

        Raises:
            OSError: it cannot be started.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "moestream.server.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
        worker = cls(process, handler)
        worker.send(config_to_json(config))
        return worker

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return self._process.returncode is None

    def send(self, message: Message) -> None:
        """Send a message; to a process that has died it does nothing."""
        stdin = self._process.stdin
        assert stdin is not None
        if not stdin.is_closing():
            stdin.write(encode(message))

    def kill(self) -> None:
        """End it now."""
        self._expected = True
        if self.alive:
            try:
                self._process.kill()
            except ProcessLookupError:
                return

    async def stop(self, timeout: float) -> None:
        """Ask it to end; kill it after ``timeout`` seconds."""
        self._expected = True
        self.send({"t": "exit"})
        try:
            await asyncio.wait_for(asyncio.shield(self.ended), timeout)
        except asyncio.TimeoutError:
            self.kill()
            await asyncio.shield(self.ended)

    async def _follow(self) -> str:
        stdout, stderr = self._process.stdout, self._process.stderr
        assert stdout is not None
        assert stderr is not None
        complaints = asyncio.create_task(self._follow_stderr(stderr))
        try:
            while line := await stdout.readline():
                try:
                    message = decode(line)
                except ValueError:
                    break  # it died in the middle of a line
                self._handle(message)
        except ValueError:
            _LOG.error("the engine sent a message beyond all measure; it is ended")
        if self.alive and not stdout.at_eof():
            self._process.kill()
        code = await self._process.wait()
        # A grandchild could keep the pipe open; nothing here waits for that.
        await asyncio.wait({complaints}, timeout=1.0)
        complaints.cancel()
        stdin = self._process.stdin
        if stdin is not None:
            stdin.close()
        return _reason(code, self._last_words)

    def _handle(self, message: Message) -> None:
        try:
            self._handler(message)
        except Exception:
            _LOG.exception("a message of the engine could not be handled: %s", message.get("t"))

    async def _follow_stderr(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
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
