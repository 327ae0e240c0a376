"""Opening a model in a process of its own, and what is known of it then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moestream.config import EngineConfig
from moestream.errors import MoestreamError, PlatformError
from moestream.server.answer import Dialect, dialect_of
from moestream.server.worker.errors import EngineCrashedError
from moestream.server.worker.process import WorkerProcess
from moestream.server.worker.wire import Message, error_from_json

__all__ = ["Engine", "launch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An open model and its process.

    Attributes:
        worker: the process.
        report: of the load, as JSON.
        dialect: how the model's answers in a conversation are to be read; ``None`` if it has no
            chat template.
    """

    worker: WorkerProcess
    report: Mapping[str, Any]
    dialect: Dialect | None


async def launch(
    config: EngineConfig,
    *,
    progress: Callable[[float], None],
    handler: Callable[[WorkerProcess, Message], None],
) -> Engine:
    """Open a model. Cancelling this ends the process.

    Args:
        config: what to open.
        progress: told the loaded fraction.
        handler: given every message that comes after the model is open.

    Raises:
        EngineCrashedError: the process died.
        MoestreamError: the model cannot be opened, in the engine's words.
    """
    loaded: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    worker: WorkerProcess | None = None

    def receive(message: Message) -> None:
        if message["t"] == "progress":
            progress(message["p"])
        elif message["t"] == "loaded" and not loaded.done():
            loaded.set_result(message)
        elif message["t"] == "failed" and not loaded.done():
            loaded.set_exception(error_from_json(message["error"]))
        elif worker is not None:
            handler(worker, message)

    try:
        worker = await WorkerProcess.start(config, receive)
    except OSError as error:
        raise PlatformError(f"the engine's process cannot be started: {error}") from error
    try:
        waited: set[asyncio.Future[Any]] = {loaded, worker.ended}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not loaded.done():
            raise EngineCrashedError(worker.ended.result())
        message = loaded.result()
    except MoestreamError:
        await worker.stop(5.0)
        raise
    except BaseException:
        worker.kill()
        await asyncio.shield(worker.ended)
        raise
    template = message.get("template")
    return Engine(
        worker=worker,
        report=message["report"],
        dialect=None if template is None else dialect_of(template, accepts_tools=message["tools"]),
    )
