"""Runs coroutines against an engine of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from moestream.config import EngineConfig
from moestream.server.worker import EngineClient, TokenDelta, TurnDone, TurnEvent, TurnRequest

T = TypeVar("T")

NANO = EngineConfig(threads=1, n_ctx=512)
PATIENCE = 120.0


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end, which must come."""
    return asyncio.run(asyncio.wait_for(main, PATIENCE))


@asynccontextmanager
async def engine(
    config: EngineConfig = NANO, *, queue_limit: int = 8
) -> AsyncIterator[EngineClient]:
    """An engine with a model open."""
    async with EngineClient(queue_limit=queue_limit) as client:
        await client.load(config)
        yield client


async def turn(client: EngineClient, /, **options: Any) -> tuple[list[TokenDelta], TurnDone]:
    """The deltas of a turn, and how it ended."""
    found: list[TurnEvent] = [event async for event in client.generate(TurnRequest(**options))]
    done = found[-1]
    assert isinstance(done, TurnDone)
    return [event for event in found if isinstance(event, TokenDelta)], done


def text_of(deltas: list[TokenDelta]) -> str:
    """What was said."""
    return "".join(delta.text for delta in deltas)


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait until ``condition`` holds."""
    for _ in range(int(PATIENCE / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"did not happen: {what}")


async def failure(work: Awaitable[Any]) -> Exception:
    """What ``work`` raises."""
    try:
        await work
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")
