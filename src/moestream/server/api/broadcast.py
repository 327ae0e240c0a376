"""What goes on, told to everybody who listens; a slow listener gets the latest, not everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

__all__ = ["Broadcast", "Event"]

#: Name of an event and its data.
Event = tuple[str, Any]

#: Sent when nothing happens: otherwise nobody would notice that a listener is gone.
PING: Final[Event] = ("ping", None)
_QUIET_S: Final = 15.0


class Broadcast:
    """Tells events to any number of listeners, without ever waiting for one."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._listeners: set[_Listener] = set()
        self._closed = False

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def tell(self, name: str, data: Any, *, about: str = "") -> None:
        """Tell an event; what a listener has not taken yet of the same name and ``about`` is
        replaced by it."""
        for listener in self._listeners:
            listener.waiting[name, about] = data
            listener.news.set()

    async def listen(self, *first: Event) -> AsyncGenerator[Event, None]:
        """Events from now on, ``first`` before all; ends when the server closes."""
        listener = _Listener()
        self._listeners.add(listener)
        try:
            for event in first:
                yield event
            while listener.waiting or not self._closed:
                try:
                    await asyncio.wait_for(listener.news.wait(), _QUIET_S)
                except asyncio.TimeoutError:
                    yield PING
                listener.news.clear()
                waiting, listener.waiting = listener.waiting, {}
                for (name, _about), data in waiting.items():
                    yield name, data
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        """Let every listener go."""
        self._closed = True
        for listener in self._listeners:
            listener.news.set()


class _Listener:
    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.waiting: dict[tuple[str, str], Any] = {}
