"""Events: who is told what, what a slow listener misses, and how streams end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from moestream.server.api import broadcast
from moestream.server.api.broadcast import PING, Broadcast, Event
from moestream.server.api.sse import EventStream


async def take(events: AsyncGenerator[Event, None], count: int) -> list[Event]:
    return [await asyncio.wait_for(events.__anext__(), 10) for _ in range(count)]


def test_a_slow_listener_gets_the_latest() -> None:
    async def test() -> None:
        told = Broadcast()
        assert not told.heard
        events = told.listen(("state", 0))
        assert await take(events, 1) == [("state", 0)]
        assert told.heard
        for number in range(1000):
            told.tell("turn", number)
            told.tell("pull", number, about="a")
        told.tell("pull", "other", about="b")
        assert await take(events, 3) == [("turn", 999), ("pull", 999), ("pull", "other")]
        await events.aclose()
        assert not told.heard

    asyncio.run(test())


def test_closing_lets_every_listener_go() -> None:
    async def test() -> None:
        told = Broadcast()
        found = [told.listen(("state", n)) for n in range(3)]
        for events in found:
            await take(events, 1)
        told.tell("turn", 1)
        told.close()
        for events in found:
            assert [event async for event in events] == [("turn", 1)]
        assert [event async for event in told.listen(("state", 9))] == [("state", 9)]

    asyncio.run(test())


def test_silence_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "_QUIET_S", 0.01)

    async def test() -> None:
        events = Broadcast().listen()
        assert await take(events, 2) == [PING, PING]
        await events.aclose()

    asyncio.run(test())


async def _sent(events: AsyncGenerator[Event, None], *, leave: bool = False) -> bytes:
    """The body that a client gets; one that leaves gets none."""
    body = b""
    gone = asyncio.Event()
    ends: list[str] = []

    async def receive() -> dict[str, str]:
        if not leave:
            await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, bytes]) -> None:
        nonlocal body
        await asyncio.sleep(0)
        body += message.get("body", b"")

    scope = {"type": "http", "asgi": {"spec_version": "2.3"}}
    stream = EventStream(events, gone=lambda: ends.append("gone"))
    await asyncio.wait_for(stream(scope, receive, send), 10)  # type: ignore[arg-type]
    assert ends == ["gone"]
    return body


def test_the_form_of_events() -> None:
    async def events() -> AsyncGenerator[Event, None]:
        yield "token", {"text": "a\nb\r\n\u2028"}
        yield PING
        yield "turn", {"tok_s": float("nan"), "list": [float("inf"), 1.5, (2,)]}

    body = asyncio.run(_sent(events())).decode()
    first, ping, last, rest = body.split("\n\n")
    assert first.startswith("event: token\ndata: ")
    assert json.loads(first.partition("data: ")[2]) == {"text": "a\nb\r\n\u2028"}
    assert ping == ": ping"
    assert json.loads(last.partition("data: ")[2]) == {"tok_s": None, "list": [None, 1.5, [2]]}
    assert rest == ""


def test_a_client_that_leaves_at_once_ends_what_has_not_begun() -> None:
    async def never() -> AsyncGenerator[Event, None]:
        await asyncio.Event().wait()
        yield PING

    assert asyncio.run(_sent(never(), leave=True)) == b""
