"""Events on the wire: cheap ones are like any other, and a silence is not the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from starlette.types import Message

from moestream.errors import DecodeError
from moestream.server.openai import sse
from moestream.server.openai.sse import DONE, ChunkStream, TextChunk, chunk


class NoTurns:
    """Stands for turns that nobody needs to end."""

    def __init__(self) -> None:
        self.closed = False

    async def close(self) -> None:
        self.closed = True


class Wire:
    """What a response sends, and a client that may leave."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.news = asyncio.Event()
        self.gone = asyncio.Event()

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.news.set()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def answer(self, chunks: AsyncIterator[bytes]) -> NoTurns:
        turns = NoTurns()
        response = ChunkStream(chunks, turns)  # type: ignore[arg-type]
        await asyncio.wait_for(response({"type": "http"}, self.receive, self.send), 60.0)
        assert turns.closed
        return turns


@pytest.mark.parametrize("text", ["", "plain", 'quo"te\n', "\0", "\u2028é\U0001f600", "\ud800"])
def test_a_cheap_chunk_is_a_chunk(text: str) -> None:
    made = TextChunk({"a": 1, "choices": [{"text": TextChunk.MARK}]}).of(text)
    assert made == chunk({"a": 1, "choices": [{"text": text}]})
    assert json.loads(made.removeprefix(b"data: "))["choices"][0]["text"] == text
    assert made.endswith(b"\n\n")
    assert made.count(b"\n") == 2


def test_a_long_silence_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_STILL_HERE_S", 0.01)

    async def main() -> None:
        wire = Wire()

        async def slow() -> AsyncIterator[bytes]:
            while b": still here\n\n" not in wire.body:
                wire.news.clear()
                await wire.news.wait()
            yield DONE

        await wire.answer(slow())
        assert wire.body.endswith(DONE)
        assert not wire.sent[-1]["more_body"]

    asyncio.run(main())


def test_an_error_is_an_event() -> None:
    async def main() -> None:
        wire = Wire()

        async def failing() -> AsyncIterator[bytes]:
            yield chunk({"x": 1})
            raise DecodeError("llama.cpp says no")

        await wire.answer(failing())
        first, error, done, rest = wire.body.split(b"\n\n")
        assert json.loads(first.removeprefix(b"data: ")) == {"x": 1}
        told = json.loads(error.removeprefix(b"data: "))["error"]
        assert told["message"] == "llama.cpp says no"
        assert (done + b"\n\n", rest) == (DONE, b"")

    asyncio.run(main())


def test_a_client_that_leaves_ends_it() -> None:
    async def main() -> None:
        wire = Wire()

        async def endless() -> AsyncIterator[bytes]:
            yield chunk({"x": 1})
            wire.gone.set()
            await asyncio.Event().wait()

        await wire.answer(endless())
        assert wire.sent[-1]["more_body"]  # nothing more was said

    asyncio.run(main())
