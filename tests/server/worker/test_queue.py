"""Who gets the engine next, and who is sent away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from moestream.server.worker import EngineBusyError, EngineUnavailableError
from moestream.server.worker.queue import FairQueue, Ticket

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(main, 60.0))


class Line:
    """Clients that wait, and the order in which they are served."""

    def __init__(self, queue: FairQueue) -> None:
        self.queue = queue
        self.served: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, *names: str) -> None:
        for name in names:
            self.tasks.append(asyncio.create_task(self._wait(name)))
            await asyncio.sleep(0)

    async def _wait(self, name: str) -> None:
        ticket = await self.queue.acquire(name[0])
        self.served.append(name)
        await asyncio.sleep(0)
        ticket.release()

    async def outcomes(self) -> list[type[BaseException] | None]:
        found = await asyncio.gather(*self.tasks, return_exceptions=True)
        return [None if each is None else type(each) for each in found]


def test_clients_take_turns_however_much_each_asks_for() -> None:
    async def main() -> None:
        queue = FairQueue(100)
        ticket = await queue.acquire("x")
        line = Line(queue)
        await line.ask("a1", "a2", "a3", "a4", "b1", "b2", "c1")
        assert (queue.running, queue.waiting) == (1, 7)
        ticket.release()
        assert await line.outcomes() == [None] * 7
        assert line.served == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
        assert (queue.running, queue.waiting) == (0, 0)

    run(main())


def test_when_it_is_full_the_greediest_gives_way() -> None:
    async def main() -> None:
        queue = FairQueue(3)
        ticket = await queue.acquire("x")
        line = Line(queue)
        await line.ask("a1", "a2", "a3", "a4", "b1", "b2", "c1")
        ticket.release()
        busy = EngineBusyError
        # a4 finds it full; b1 takes the place of a3; b2 would only turn the tables; c1 takes a2's.
        assert await line.outcomes() == [None, busy, busy, busy, None, busy, None]
        assert line.served == ["a1", "b1", "c1"]

    run(main())


def test_nobody_waits_where_the_limit_is_zero() -> None:
    async def main() -> None:
        queue = FairQueue(0)
        ticket = await queue.acquire("a")
        with pytest.raises(EngineBusyError) as caught:
            await queue.acquire("b")
        assert caught.value.retry_after is not None
        ticket.release()
        (await queue.acquire("b")).release()

    run(main())


def test_whoever_stops_waiting_leaves_no_trace() -> None:
    async def main() -> None:
        queue = FairQueue(10)
        ticket = await queue.acquire("x")
        waiting = asyncio.create_task(queue.acquire("a"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert queue.waiting == 0
        # Given the engine and cancelled in the same breath: it must not be lost.
        late = asyncio.create_task(queue.acquire("a"))
        await asyncio.sleep(0)
        ticket.release()
        late.cancel()
        await asyncio.wait({late})
        assert queue.running == 0
        (await queue.acquire("b")).release()

    run(main())


def test_a_ticket_is_released_once() -> None:
    async def main() -> None:
        queue = FairQueue(10)
        first = await queue.acquire("a")
        first.release()
        second = await queue.acquire("b")
        first.release()
        assert queue.running == 1
        second.release()
        assert queue.running == 0

    run(main())


def test_holding_waits_for_the_running_one_and_keeps_the_others_waiting() -> None:
    async def main() -> None:
        queue = FairQueue(10)
        ticket = await queue.acquire("a")
        held = asyncio.Event()

        async def hold() -> None:
            async with queue.hold():
                held.set()
                await asyncio.sleep(0.01)
                assert queue.running == 0

        holding = asyncio.create_task(hold())
        waiting = asyncio.create_task(queue.acquire("b"))
        await asyncio.sleep(0.01)
        assert not held.is_set()
        ticket.release()
        await held.wait()
        assert not waiting.done()
        await holding
        found: Ticket = await waiting
        found.release()

    run(main())


def test_refusing_ends_all_waiting() -> None:
    async def main() -> None:
        queue = FairQueue(10)
        ticket = await queue.acquire("x")
        line = Line(queue)
        await line.ask("a1", "b1")
        queue.refuse(EngineUnavailableError("gone"))
        assert await line.outcomes() == [EngineUnavailableError] * 2
        assert queue.waiting == 0
        ticket.release()

    run(main())
