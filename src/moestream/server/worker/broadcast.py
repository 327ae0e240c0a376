"""One value that several readers follow, each at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

__all__ = ["Broadcast"]

T = TypeVar("T")


class Broadcast(Generic[T]):
    """The newest value; a reader that is slow misses what came in between."""

    def __init__(self) -> None:
        """Nobody reads yet."""
        self._readers: set[asyncio.Queue[T | None]] = set()
        self._closed = False

    def send(self, value: T) -> None:
        """Tell all readers."""
        for queue in self._readers:
            self._put(queue, value)

    def close(self) -> None:
        """End all readers."""
        self._closed = True
        for queue in self._readers:
            self._put(queue, None)

    async def read(self, first: T | None = None) -> AsyncGenerator[T, None]:
        """``first``, then the values that are sent from now on."""
        queue: asyncio.Queue[T | None] = asyncio.Queue(maxsize=1)
        self._readers.add(queue)
        try:
            if first is not None:
                yield first
            while not self._closed or not queue.empty():
                value = await queue.get()
                if value is None:
                    return
                yield value
        finally:
            self._readers.discard(queue)

    @staticmethod
    def _put(queue: asyncio.Queue[T | None], value: T | None) -> None:
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(value)
