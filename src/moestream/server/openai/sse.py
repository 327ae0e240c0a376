"""Server-sent events of ``/v1``: unnamed, one JSON object each, ``[DONE]`` at the end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from time import monotonic
from typing import Any, Final

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from moestream.errors import MoestreamError
from moestream.server.errors import error_body
from moestream.server.openai.turns import Turns, until_gone

__all__ = ["DONE", "ChunkStream", "TextChunk", "chunk"]

DONE: Final = b"data: [DONE]\n\n"

#: Proxies and clients give up on a connection that says nothing while a long prompt is read.
_STILL_HERE: Final = b": still here\n\n"
_STILL_HERE_S: Final = 10.0

_HEADERS: Final[Sequence[tuple[bytes, bytes]]] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


def chunk(body: Mapping[str, Any]) -> bytes:
    """An event. Line ends within JSON strings are escaped, so the data is one line."""
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


class TextChunk:
    """A chunk that is always the same but for one text: nearly all are, so it must be cheap."""

    MARK: Final = "\0"

    def __init__(self, body: Mapping[str, Any]) -> None:
        """``body`` has :attr:`MARK` where the text goes."""
        before, after = chunk(body).decode().split(json.dumps(self.MARK))
        self._before, self._after = before, after

    def of(self, text: str) -> bytes:
        """The chunk with ``text``."""
        return f"{self._before}{json.dumps(text)}{self._after}".encode()


class ChunkStream(Response):
    """A response in chunks. The turns behind it end as soon as the client is gone."""

    def __init__(self, chunks: AsyncIterator[bytes], turns: Turns) -> None:
        """Send ``chunks``, which come from ``turns``."""
        super().__init__(media_type="text/event-stream")
        self._chunks = chunks
        self._turns = turns
        self._sent_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them all, or as many as the client stays for."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._turns.close)
            await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
            async with anyio.create_task_group() as group:

                async def watch() -> None:
                    await until_gone(receive)
                    group.cancel_scope.cancel()

                group.start_soon(watch)
                group.start_soon(self._reassure, send)
                await self._send(send)
                group.cancel_scope.cancel()

    async def _send(self, send: Send) -> None:
        try:
            async for data in self._chunks:
                self._sent_at = monotonic()
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except MoestreamError as error:
            for data in (chunk(error_body(error)), DONE):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except OSError:
            return  # the client is gone, and uvicorn knew before we did
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _reassure(self, send: Send) -> None:
        while True:
            await anyio.sleep(_STILL_HERE_S)
            if monotonic() - self._sent_at >= _STILL_HERE_S:
                with suppress(OSError):
                    await send(
                        {"type": "http.response.body", "body": _STILL_HERE, "more_body": True}
                    )
