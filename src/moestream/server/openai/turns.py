"""Turns of one request, ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import TypeVar

from starlette.types import Receive

from moestream.server.worker import EngineClient, TurnEvent, TurnRequest

__all__ = ["ClientGoneError", "Turns", "until_gone", "while_there"]

T = TypeVar("T")


class ClientGoneError(Exception):
    """Nobody waits for the answer any more."""


class Turns:
    """The turns that a request causes, one after the other."""

    def __init__(self, engine: EngineClient, requests: Sequence[TurnRequest]) -> None:
        """Nothing is asked for yet."""
        self._generations = [engine.generate(request) for request in requests]

    async def begin(self) -> None:
        """Wait until the engine has taken the first one, which is all its first event says.

        Raises:
            MoestreamError: it has not.
        """
        await anext(self._generations[0])

    def events(self) -> list[AsyncIterator[TurnEvent]]:
        """The further events of each."""
        return list(self._generations)

    async def close(self) -> None:
        """End what runs."""
        for generation in self._generations:
            await generation.aclose()


async def until_gone(receive: Receive) -> None:
    """Wait until the client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_there(receive: Receive, work: Awaitable[T]) -> T:
    """The result of ``work``, which is cancelled if the client goes away.

    Raises:
        ClientGoneError: it did.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(until_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.wait({task, gone})
