"""Server-sent events: named ones with JSON data."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from moestream.server.api.broadcast import PING, Event

__all__ = ["EventStream"]


class EventStream(StreamingResponse):
    """Events as a response; the generator is closed as soon as the client is gone."""

    def __init__(
        self, events: AsyncGenerator[Event, None], *, gone: Callable[[], object] | None = None
    ) -> None:
        """Send ``events``; ``gone`` is called once nobody listens any more, whatever the reason."""
        self._events = events
        self._gone = gone
        # Proxies must neither keep nor gather what is meant to be seen now.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(
            (_encoded(*event) async for event in events),
            media_type="text/event-stream",
            headers=headers,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them all, or as many as the client stays for."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            # A generator that was never begun does not run what it has to do at its end.
            if self._gone is not None:
                self._gone()
            await self._events.aclose()


def _encoded(name: str, data: Any) -> bytes:
    if (name, data) == PING:
        return b": ping\n\n"
    # Line ends within JSON strings are escaped, so the data is one line.
    return f"event: {name}\ndata: {_as_json(data)}\n\n".encode()


def _as_json(data: Any) -> str:
    try:
        return json.dumps(data, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(data), allow_nan=False)


def _finite(data: Any) -> Any:
    """What browsers could not read otherwise: no number is no value."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data
