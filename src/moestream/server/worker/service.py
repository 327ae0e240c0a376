"""The engine's process: opens one model, runs turns until its input ends."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from time import monotonic
from typing import Any, BinaryIO, Final

from moestream.engine.session import Session
from moestream.errors import MoestreamError
from moestream.server.worker.outbox import Outbox
from moestream.server.worker.running import RunningTurn
from moestream.server.worker.wire import (
    Message,
    config_from_json,
    decode,
    error_to_json,
    report_to_json,
    request_from_json,
)
from moestream.telemetry.probes import MemoryProbe

__all__ = ["Service"]

#: Seconds that a running turn has to end in when the server has gone.
_LAST_WORDS: Final = 5.0
_PROGRESS_EVERY: Final = 0.05


class Service:
    """Reads commands on one thread, runs turns on the main thread, writes on a third."""

    def __init__(self, commands: BinaryIO, answers: int) -> None:
        """Commands come from a file, answers go to a descriptor."""
        self._commands = commands
        self._outbox = Outbox(answers, lost=lambda: os._exit(1))
        self._turns: SimpleQueue[Message | None] = SimpleQueue()
        self._session: Session | None = None
        self._cancelled: set[int] = set()
        self._probe = MemoryProbe()
        self._told_at = 0.0

    def run(self) -> int:
        """Until the input ends; the exit code."""
        line = self._commands.readline()
        if not line:
            return 0
        threading.Thread(target=self._listen, name="commands", daemon=True).start()
        try:
            session = Session(config_from_json(decode(line)), progress=self._progress)
        except Exception as error:
            self._outbox.send({"t": "failed", "error": _words(error)})
            self._outbox.close(_LAST_WORDS)
            return 0
        self._session = session
        self._outbox.send(self._loaded(session))
        with session:
            while (command := self._turns.get()) is not None:
                self._turn(session, command)
        self._outbox.close(_LAST_WORDS)
        return 0

    def _loaded(self, session: Session) -> Mapping[str, Any]:
        message: dict[str, Any] = {"t": "loaded", "report": report_to_json(session.load_report)}
        try:
            template = session.chat_template
        except MoestreamError as error:
            message["no_chat"] = str(error)
        else:
            message["template"] = template.source
            message["tools"] = "tools" in template.variables
        return message

    def _turn(self, session: Session, command: Message) -> None:
        turn_id = int(command["id"])
        try:
            request = request_from_json(command["request"])
            turn = RunningTurn(session, turn_id, request, probe=self._probe)
            turn.run(
                self._outbox,
                markers=tuple(command["markers"]),
                is_cancelled=lambda: turn_id in self._cancelled,
                warn=lambda text: self._outbox.send({"t": "warning", "text": text}),
            )
        except Exception as error:
            self._outbox.send({"t": "error", "id": turn_id, "error": _words(error)})
        finally:
            # Of earlier turns too: a cancel may have come after the end.
            old = [each for each in list(self._cancelled) if each <= turn_id]
            self._cancelled.difference_update(old)

    def _listen(self) -> None:
        handlers: dict[str, Callable[[Message], None]] = {
            "turn": self._turns.put,
            "cancel": self._cancel,
        }
        try:
            for line in self._commands:
                command = decode(line)
                if command["t"] == "exit":
                    break
                handlers[command["t"]](command)
        finally:
            self._leave()

    def _cancel(self, command: Message) -> None:
        # Either the generation exists, and is told; or it will, and looks at the set then.
        self._cancelled.add(int(command["id"]))
        if self._session is not None:
            self._session.cancel()

    def _leave(self) -> None:
        """Nobody asks for anything any more; end, whatever is going on."""
        if self._session is None:
            os._exit(0)
        self._turns.put(None)
        timer = threading.Timer(_LAST_WORDS, os._exit, (1,))
        timer.daemon = True
        timer.start()
        self._session.cancel()

    def _progress(self, fraction: float) -> None:
        now = monotonic()
        if now - self._told_at >= _PROGRESS_EVERY or fraction >= 1.0:
            self._told_at = now
            self._outbox.send({"t": "progress", "p": fraction})


def _words(error: Exception) -> Mapping[str, Any]:
    if isinstance(error, MoestreamError):
        return error_to_json(error)
    traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, MemoryError):
        return {"kind": "MemoryBudgetError", "message": "the engine ran out of memory"}
    return {
        "kind": "unexpected",
        "message": f"unexpected {type(error).__name__} in the engine: {error} (this is a bug; "
        "the server's log has more)",
    }
