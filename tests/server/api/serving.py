"""The routes of ``/api`` behind a real server on a free port, and a client that hides nothing."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from moestream.config import EngineConfig
from moestream.server.api import ApiRouter, Services
from moestream.server.errors import add_handlers
from moestream.server.worker import EngineClient

Event = tuple[str, Any]


@dataclass(frozen=True)
class Answer:
    """A response; ``data`` is JSON where it is, else bytes."""

    status: int
    headers: dict[str, str]
    data: Any

    @property
    def error(self) -> dict[str, Any]:
        """The error, whose shape is always the same."""
        assert self.data.keys() == {"error"}, self.data
        error: dict[str, Any] = self.data["error"]
        assert error.keys() == {"message", "type", "code", "param"}
        assert error["message"].isprintable()
        return error


@dataclass
class Served:
    """A running server."""

    port: int
    services: Services
    loop: asyncio.AbstractEventLoop

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request; ``body`` is bytes, or anything to be sent as JSON."""
        with closing(self._connection()) as connection:
            response = self._send(connection, method, path, body, headers)
            data: Any = response.read()
            if response.headers.get_content_type() == "application/json":
                data = json.loads(data)
            return Answer(
                response.status,
                {name.lower(): value for name, value in response.headers.items()},
                data,
            )

    def get(self, path: str) -> Any:
        """What is there; it must be there."""
        answer = self.call("GET", path)
        assert answer.status == 200, answer
        return answer.data

    @contextmanager
    def stream(self, method: str, path: str, body: Any = None) -> Iterator[Iterator[Event]]:
        """Events as they come; leaving the block early is a client that goes away."""
        with closing(self._connection()) as connection:
            response = self._send(connection, method, path, body, {})
            assert response.status == 200, response.read()
            assert response.headers.get_content_type() == "text/event-stream"
            try:
                yield events(response)
            finally:
                response.close()

    def reply(self, conversation: str, **body: Any) -> list[Event]:
        """All events of an answer."""
        with self.stream("POST", f"/api/conversations/{conversation}/reply", body) as found:
            return list(found)

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Any,
        headers: dict[str, str],
    ) -> http.client.HTTPResponse:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, headers)
        return connection.getresponse()


def events(response: Any) -> Iterator[Event]:
    """The events of a stream; comments are left out."""
    name = ""
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def data_of(found: Sequence[Event], name: str) -> list[Any]:
    """The data of all events called ``name``."""
    return [data for other, data in found if other == name]


@contextmanager
def served(
    data_dir: Path,
    *,
    models_dirs: Sequence[Path] = (),
    base: EngineConfig | None = None,
    load: bool = False,
) -> Iterator[Served]:
    """A server for the time of the block."""
    engine = EngineClient(queue_limit=4)
    services = Services(engine, data_dir=data_dir, models_dirs=models_dirs, base=base)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with engine:
            if load:
                await engine.load(services.wanted_config)
            yield

    app = FastAPI(lifespan=lifespan)
    add_handlers(app)
    app.include_router(ApiRouter(services))
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="on")
    )
    ready: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        ready.append(asyncio.get_running_loop())
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server has not started"
            thread.join(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(port, services, ready[0])
    finally:
        if ready and thread.is_alive():
            ready[0].call_soon_threadsafe(services.let_go)
        server.should_exit = True
        thread.join()
