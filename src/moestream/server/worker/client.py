"""The engine as the server sees it: load, unload, generate; a crash is an error, not an end."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any, Final

from moestream.config import EngineConfig
from moestream.errors import MoestreamError
from moestream.server.answer import Dialect
from moestream.server.worker.broadcast import Broadcast
from moestream.server.worker.counters import EngineCounters
from moestream.server.worker.errors import (
    EngineBusyError,
    EngineCrashedError,
    EngineUnavailableError,
)
from moestream.server.worker.launch import Engine, launch
from moestream.server.worker.process import WorkerProcess
from moestream.server.worker.queue import FairQueue
from moestream.server.worker.turn import Turn
from moestream.server.worker.turns import (
    EnginePhase,
    EngineState,
    QueueState,
    TokenDelta,
    TurnEvent,
    TurnMetrics,
    TurnRequest,
)
from moestream.server.worker.wire import Message
from moestream.telemetry.probes import MemoryProbe

__all__ = ["EngineClient"]

_LOG: Final = logging.getLogger("moestream.server.engine")

#: Seconds that a process has to free a model and end.
_STOP_SECONDS: Final = 10.0
#: Crashes without a finished turn in between, after which the model is given up.
_MOST_CRASHES: Final = 5
_BACKOFF: Final = (0.0, 0.5, 2.0, 5.0, 10.0)
#: Seconds after which to ask a server again that is about to be ready.
_SOON: Final = 2.0
_MIB: Final = 2**20


class EngineClient:
    """Runs the engine in a process of its own. Lives in one event loop.

        async with EngineClient(queue_limit=32) as engine:
            await engine.load(EngineConfig())
            async for event in engine.generate(TurnRequest(prompt="Once upon a time")):
                ...

    Attributes:
        counters: what the engine has done so far.
    """

    def __init__(self, *, queue_limit: int = 32) -> None:
        """Start nothing yet. ``queue_limit`` turns may wait for the one that runs."""
        self.counters = EngineCounters()
        self._queue = FairQueue(queue_limit)
        self._state = EngineState()
        self._states: Broadcast[EngineState] = Broadcast()
        self._numbers: Broadcast[TurnMetrics] = Broadcast()
        self._engine: Engine | None = None
        self._turn: Turn | None = None
        self._ids = itertools.count(1)
        # One load, unload or restart at a time; a later one makes an earlier one give up.
        self._change = asyncio.Lock()
        self._epoch = 0
        self._engine_epoch = 0
        self._launching: asyncio.Task[Engine] | None = None
        self._restarts: asyncio.Task[None] | None = None
        self._crashes = 0
        self._closed = False

    @property
    def state(self) -> EngineState:
        """What the engine is doing now."""
        return self._state

    @property
    def queue(self) -> QueueState:
        """How busy it is."""
        queue = self._queue
        return QueueState(running=queue.running, waiting=queue.waiting, limit=queue.limit)

    @property
    def worker_pid(self) -> int | None:
        """Process id of the engine; ``None`` while no model is open."""
        return None if self._engine is None else self._engine.worker.pid

    @property
    def dialect(self) -> Dialect | None:
        """How the open model marks thinking and tool calls; ``None`` if it cannot chat."""
        return None if self._engine is None else self._engine.dialect

    def memory(self) -> Mapping[str, Any]:
        """Memory in MiB: ``budget_mib`` of the expert cache, ``used_mib`` by the engine's
        process, ``available_mib`` on the machine; ``None`` for what is not known."""
        engine = self._engine
        status = "" if engine is None else f"/proc/{engine.worker.pid}/status"
        probe = MemoryProbe(status=status)
        try:
            sample = probe.sample()
        finally:
            probe.close()
        streamed = engine is not None and engine.report["streamed"]
        return {
            "budget_mib": engine.report["cache_bytes"] / _MIB if engine and streamed else None,
            "used_mib": sample.rss,
            "available_mib": sample.available,
        }

    async def load(self, config: EngineConfig, *, cancel: bool = False) -> None:
        """Open a model in place of the one that is open, if any; returns when it is ready.

        Turns that wait in the queue run with the new model. A load that is under way is given up.

        Args:
            config: what to open.
            cancel: end the running turn instead of waiting for it.

        Raises:
            MoestreamError: the model cannot be opened, in the engine's words; the state says so
                too, and what was open before is closed.
            EngineUnavailableError: another load or unload came in between, or the client is closed.
        """
        config.validate()
        epoch = await self._supersede(cancel=cancel)
        async with self._change, self._queue.hold():
            self._check_epoch(epoch)
            self._crashes = 0
            await self._stop_engine()
            self._set(EngineState(phase="loading", progress=0.0, config=config))
            try:
                await self._launch(config, epoch)
            except MoestreamError as error:
                self._check_epoch(epoch)
                self._failed(str(error), config)
                raise
            except asyncio.CancelledError:
                self._set(EngineState())
                raise

    async def unload(self, *, cancel: bool = False) -> None:
        """Close the model and end the engine's process; turns that wait are refused.

        Args:
            cancel: end the running turn instead of waiting for it.
        """
        await self._supersede(cancel=cancel)
        async with self._change:
            self._queue.refuse(EngineUnavailableError("the model has been unloaded"))
            async with self._queue.hold():
                await self._stop_engine()
                self._set(EngineState())
                self._queue.refuse(EngineUnavailableError("the model has been unloaded"))

    def subscribe(self) -> AsyncIterator[EngineState]:
        """The current state first, then every change; a slow reader misses states in between.

        Ends when the client is closed.
        """
        return self._states.read(self._state)

    def watch(self) -> AsyncIterator[TurnMetrics]:
        """Live numbers of whatever turn runs, at most about ten times a second.

        A slow reader misses some. Ends when the client is closed.
        """
        return self._numbers.read()

    async def generate(self, request: TurnRequest) -> AsyncGenerator[TurnEvent, None]:
        """Run a turn: ``TurnStarted``, some ``TokenDelta``, ``TurnDone``.

        Closing the iterator (``aclose``, or cancelling the task that reads it) ends the turn
        within a token and makes room for the next one.

        Raises:
            EngineBusyError: too many turns wait already; on the first step.
            EngineUnavailableError: no model is ready, or (:class:`EngineCrashedError`) the engine
                died; at any step.
            MoestreamError: of the engine: the prompt does not fit, the template refuses the
                conversation, ...
        """
        self._check_open()
        arrived = monotonic()
        try:
            ticket = await self._queue.acquire(request.client)
        except EngineBusyError:
            self.counters.rejected += 1
            raise
        try:
            engine = self._ready()
            turn = self._begin(engine, request, ticket.release)
        except BaseException:
            ticket.release()
            raise
        self.counters.queue_s.observe(monotonic() - arrived)
        try:
            while (event := await turn.next()) is not None:
                yield event
        finally:
            # The engine is free when it says so; nothing here may wait for that, for a task that
            # is being cancelled is cancelled again wherever it waits.
            turn.abandoned = True
            self._end_early(turn)

    async def cancel(self) -> bool:
        """End the running turn, which then says ``cancelled``; whether there was one."""
        turn = self._turn
        if turn is None or turn.ended:
            return False
        self._end_early(turn)
        return True

    async def drain(self, seconds: float) -> None:
        """Take no more turns; end the running one if it takes longer than ``seconds``."""
        self._closed = True
        self._queue.refuse(EngineUnavailableError("the server is shutting down"))
        try:
            await asyncio.wait_for(self._queue.idle(), seconds)
        except asyncio.TimeoutError:
            await self.cancel()

    async def close(self) -> None:
        """End the running turn and the engine's process. May be called again."""
        self._closed = True
        await self._supersede(cancel=True)
        closed = EngineUnavailableError("the server is shutting down")
        self._queue.refuse(closed)
        async with self._change:
            await self._stop_engine()
            if self._turn is not None:
                self._turn.fail(closed)
            self._set(EngineState())
        self._states.close()
        self._numbers.close()

    async def __aenter__(self) -> EngineClient:
        """The client itself."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""
        await self.close()

    async def _supersede(self, *, cancel: bool) -> int:
        """Make every change that is under way give up; the epoch of the next one."""
        self._epoch += 1
        epoch = self._epoch
        if cancel and self._turn is not None:
            self._end_early(self._turn)
        for task in (self._launching, self._restarts):
            if task is not None and not task.done():
                task.cancel()
        return epoch

    def _check_epoch(self, epoch: int) -> None:
        if self._epoch != epoch:
            raise EngineUnavailableError(
                "another load or unload came in between", retry_after=_SOON
            )

    async def _launch(self, config: EngineConfig, epoch: int) -> None:
        """Start the engine's process; the state says ``ready`` afterwards."""
        task = asyncio.create_task(launch(config, progress=self._progress, handler=self._receive))
        self._launching = task
        try:
            engine = await task
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            self._check_epoch(epoch)
            raise
        finally:
            self._launching = None
        self._engine, self._engine_epoch = engine, epoch
        engine.worker.ended.add_done_callback(lambda ended: self._ended(engine, ended))
        self._set(
            EngineState(
                phase="ready", model=engine.report["model"], config=config, report=engine.report
            )
        )

    async def _stop_engine(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.worker.stop(_STOP_SECONDS)

    def _ended(self, engine: Engine, ended: asyncio.Future[str]) -> None:
        """The process has ended; unless it was told to, that is a crash."""
        if self._engine is not engine or ended.cancelled():
            return
        self._engine = None
        reason = ended.result()
        if self._closed:
            if self._turn is not None:
                self._turn.fail(EngineCrashedError(reason))
            return
        self._crashes += 1
        self.counters.crashes += 1
        config = self._state.config
        assert config is not None
        _LOG.error("%s; it is started again", reason)
        self._set(
            EngineState(phase="restarting", error=reason, model=self._state.model, config=config)
        )
        if self._turn is not None:
            self._turn.fail(EngineCrashedError(f"{reason}; it is started again", retry_after=_SOON))
        # A load or unload that waits for the turn is the next change; the old model is not wanted.
        if self._epoch == self._engine_epoch:
            self._restarts = asyncio.create_task(self._restart(config, self._epoch))

    async def _restart(self, config: EngineConfig, epoch: int) -> None:
        async with self._change, self._queue.hold():
            while self._epoch == epoch:
                if self._crashes > _MOST_CRASHES:
                    reason = f"it crashed {self._crashes} times in a row: {self._state.error}"
                    return self._failed(reason, config)
                await asyncio.sleep(_BACKOFF[min(max(self._crashes, 1), len(_BACKOFF)) - 1])
                try:
                    return await self._launch(config, epoch)
                except EngineCrashedError as error:
                    self._crashes += 1
                    self.counters.crashes += 1
                    _LOG.error("%s; it is started again", error)
                    self._set(replace(self._state, error=str(error)))
                except MoestreamError as error:
                    if self._epoch == epoch:
                        self._failed(str(error), config)
                    return None

    def _failed(self, reason: str, config: EngineConfig) -> None:
        _LOG.error("the model cannot be used: %s", reason)
        self._set(EngineState(phase="failed", error=reason, config=config))
        self._queue.refuse(self._unavailable("failed"))

    def _progress(self, fraction: float) -> None:
        if self._state.phase in ("loading", "restarting"):
            self._set(replace(self._state, progress=fraction))

    def _set(self, state: EngineState) -> None:
        self._state = state
        self._states.send(state)

    def _ready(self) -> Engine:
        engine = self._engine
        if engine is None or self._state.phase != "ready":
            raise self._unavailable(self._state.phase)
        return engine

    def _check_open(self) -> None:
        if self._closed:
            raise EngineUnavailableError("the server is shutting down")
        if self._state.phase != "ready":
            raise self._unavailable(self._state.phase)

    def _unavailable(self, phase: EnginePhase) -> EngineUnavailableError:
        if phase == "failed":
            return EngineUnavailableError(f"the model could not be loaded: {self._state.error}")
        if phase == "unloaded":
            return EngineUnavailableError("no model is loaded; load one first")
        words = {
            "loading": "the model is being loaded; try again in a moment",
            "restarting": f"the engine is being started again ({self._state.error})",
        }
        return EngineUnavailableError(
            words.get(phase, "the engine is not ready"), retry_after=_SOON
        )

    def _begin(self, engine: Engine, request: TurnRequest, release: Any) -> Turn:
        started = monotonic()

        def ended(turn: Turn) -> None:
            self._turn = None
            self._count(turn, monotonic() - started)
            release()

        turn = Turn(
            next(self._ids),
            request,
            engine.dialect if request.messages is not None else None,
            on_end=ended,
            on_enough=self._end_early,
        )
        engine.worker.send(turn.command)
        self._turn = turn
        return turn

    def _count(self, turn: Turn, seconds: float) -> None:
        counters = self.counters
        counters.turn_s.observe(seconds)
        if turn.first_s is not None:
            counters.first_token_s.observe(turn.first_s)
        if turn.done is None:
            counters.finished["error"] += 1
            return
        self._crashes = 0
        counters.add(turn.done.summary, turn.done.finish_reason)

    def _end_early(self, turn: Turn) -> None:
        engine = self._engine
        if engine is not None and not turn.ended:
            engine.worker.send({"t": "cancel", "id": turn.id})

    def _receive(self, worker: WorkerProcess, message: Message) -> None:
        if message["t"] == "warning":
            _LOG.warning("%s", message["text"])
            return
        turn = self._turn
        if turn is None or turn.id != message["id"]:
            return
        delta = turn.feed(message)
        if isinstance(delta, TokenDelta) and delta.metrics is not None:
            self._numbers.send(delta.metrics)
