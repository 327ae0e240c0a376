"""Who gets the engine next: clients take turns, and no more than so many requests wait."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final

from moestream.server.worker.errors import EngineBusyError, EngineError

__all__ = ["FairQueue", "Ticket"]

_MOST_SECONDS: Final = 120.0
#: Weight of the newest turn in the average of how long turns take.
_NEWEST: Final = 0.2


@dataclass(slots=True)
class Ticket:
    """The right to use the engine; release it once, or again without effect."""

    _queue: FairQueue
    _since: float

    def release(self) -> None:
        """Let the next one have it."""
        self._queue._released(self)


class FairQueue:
    """Hands the engine to one at a time, round robin over clients. Lives in one event loop.

    When it is full, whoever has the most requests waiting gives up the newest of them to a client
    that has fewer; so nobody can fill it for the others.
    """

    def __init__(self, limit: int) -> None:
        """At most ``limit`` requests wait; 0 refuses whatever cannot run at once."""
        self.limit = limit
        self._waiting: OrderedDict[str, deque[asyncio.Future[Ticket]]] = OrderedDict()
        self._running: Ticket | None = None
        self._holds = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._seconds = 1.0

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return sum(len(line) for line in self._waiting.values())

    @property
    def running(self) -> int:
        """Requests that have the engine: 0 or 1."""
        return 0 if self._running is None else 1

    def retry_after(self) -> float:
        """Seconds after which there may be room: about one turn."""
        return min(max(self._seconds, 1.0), _MOST_SECONDS)

    async def acquire(self, client: str) -> Ticket:
        """Wait for the engine.

        Raises:
            EngineBusyError: too many wait already.
            EngineError: what :meth:`refuse` was given.
        """
        if self._running is None and not self._holds and not self._waiting:
            return self._grant()
        if self.waiting >= self.limit:
            self._make_room(client)
        future: asyncio.Future[Ticket] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                future.result().release()
            self._forget(client, future)
            raise

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """For the time of the block nobody has the engine; waits for whoever has it."""
        self._holds += 1
        try:
            await self._idle.wait()
            yield
        finally:
            self._holds -= 1
            self._next()

    async def idle(self) -> None:
        """Wait until nobody has the engine."""
        await self._idle.wait()

    def refuse(self, error: EngineError) -> None:
        """Send everybody who waits away."""
        lines = list(self._waiting.values())
        self._waiting.clear()
        for future in (future for line in lines for future in line):
            if not future.done():
                future.set_exception(error)

    def _grant(self) -> Ticket:
        self._running = Ticket(self, monotonic())
        self._idle.clear()
        return self._running

    def _released(self, ticket: Ticket) -> None:
        if self._running is not ticket:
            return
        self._seconds += _NEWEST * (monotonic() - ticket._since - self._seconds)
        self._running = None
        self._idle.set()
        self._next()

    def _next(self) -> None:
        while self._running is None and not self._holds and self._waiting:
            client, line = next(iter(self._waiting.items()))
            future = line.popleft()
            if line:
                self._waiting.move_to_end(client)
            else:
                del self._waiting[client]
            if not future.done():
                future.set_result(self._grant())

    def _make_room(self, client: str) -> None:
        error = EngineBusyError(
            f"{self.waiting} requests wait for the engine already; try again later, or start the "
            "server with a longer --queue-limit",
            retry_after=self.retry_after(),
        )
        greediest = max(self._waiting, key=lambda key: len(self._waiting[key]), default=None)
        own = len(self._waiting.get(client, ()))
        if greediest is None or len(self._waiting[greediest]) <= own + 1:
            raise error
        newest = self._waiting[greediest].pop()
        if not newest.done():
            newest.set_exception(error)

    def _forget(self, client: str, future: asyncio.Future[Ticket]) -> None:
        line = self._waiting.get(client)
        if line is not None and future in line:
            line.remove(future)
            if not line:
                del self._waiting[client]
