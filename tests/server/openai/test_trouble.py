"""Clients that leave, engines that die, queues that are full."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.server.process import Answer, ServerProcess, events, eventually, serving

LONG = [{"role": "user", "content": "Tell me a long story about the sea."}]


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that may be treated badly."""
    with serving(tmp_path_factory.mktemp("fragile"), "--queue-limit", "2") as found:
        yield found.ready()


def running(server: ServerProcess) -> float:
    return server.metric("moestream_requests_running")


def cancelled(server: ServerProcess) -> float:
    return server.metric('moestream_turns_total{finish_reason="cancelled"}')


class Asking(threading.Thread):
    """A request on a thread of its own."""

    def __init__(self, server: ServerProcess, **body: Any) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.body = {"messages": LONG, **body}
        self.answer: Answer | None = None
        self.start()

    def run(self) -> None:
        self.answer = self.server.call("POST", "/v1/chat/completions", self.body)

    def result(self) -> Answer:
        self.join(120)
        assert self.answer is not None
        return self.answer


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_the_engine(fragile: ServerProcess, stream: bool) -> None:
    before, tokens = cancelled(fragile), fragile.metric("moestream_generation_tokens_total")
    body = json.dumps({"messages": LONG, "stream": stream}).encode()
    import socket

    with socket.create_connection(("127.0.0.1", fragile.port)) as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        if stream:
            assert b"200" in connection.recv(100)
        else:
            eventually(lambda: running(fragile), "it runs")
    eventually(lambda: cancelled(fragile) == before + 1, "the turn is cancelled")
    eventually(lambda: not running(fragile), "the engine is free")
    assert fragile.metric("moestream_generation_tokens_total") - tokens < 4000
    assert fragile.chat(max_tokens=2).status == 200


def test_too_many_are_told_when_to_come_back(fragile: ServerProcess) -> None:
    first = fragile.open("POST", "/v1/chat/completions", {"messages": LONG, "stream": True})
    with closing(first):
        assert first.status == 200
        waiting = [Asking(fragile, max_tokens=3) for _ in range(2)]
        eventually(lambda: fragile.metric("moestream_requests_waiting") == 2, "two wait")
        answer = fragile.chat(max_tokens=3)
        assert answer.status == 429
        assert answer.error["code"] == "engine_busy"
        assert int(answer.headers["retry-after"]) >= 1
    assert [asking.result().status for asking in waiting] == [200, 200]


@pytest.mark.parametrize("stream", [True, False])
def test_an_engine_killed_in_the_middle(fragile: ServerProcess, stream: bool) -> None:
    if stream:
        response = fragile.open("POST", "/v1/chat/completions", {"messages": LONG, "stream": True})
        with closing(response):
            found = events(response)
            seen = [next(found) for _ in range(4)]
            os.kill(fragile.worker(), signal.SIGKILL)
            seen += found
        assert seen[-1] == "[DONE]"
        error = json.loads(seen[-2])["error"]
    else:
        asking = Asking(fragile)
        eventually(lambda: running(fragile), "it runs")
        os.kill(fragile.worker(), signal.SIGKILL)
        answer = asking.result()
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) >= 1
        error = answer.error
    assert error["code"] == "engine_crashed"
    assert "SIGKILL" in error["message"]
    health = fragile.call("GET", "/health")
    if health.status != 200:
        assert (health.status, health.data["status"]) == (503, "restarting")
        assert fragile.chat().status in (200, 503)
    fragile.ready()
    assert fragile.chat(max_tokens=2).status == 200
    assert fragile.metric("moestream_engine_crashes_total") >= 1


def test_a_served_name_and_a_small_body(tmp_path: Path) -> None:
    with serving(tmp_path, "--served-name", "my/model", "--max-body-mb", "1") as server:
        server.ready()
        assert server.call("GET", "/v1/models").data["data"][0]["id"] == "my/model"
        assert server.call("GET", "/v1/models/my/model").status == 200
        for name in ("my/model", "moestream-nano"):
            assert server.chat(model=name, max_tokens=2).data["model"] == "my/model"
        answer = server.chat("x" * (1 << 20))
        assert (answer.status, answer.error["code"]) == (413, "request_too_large")
