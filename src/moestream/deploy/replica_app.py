"""The application of one replica: the same ``/v1`` as ``moestream serve``, without the app.

What the app keeps (conversations, settings, runs) belongs to one server. Requests to replicas go
now to one, now to another, so only what keeps nothing is served here.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import moestream
from moestream.config import EngineConfig
from moestream.server import health, metrics, openai
from moestream.server.config import ServerConfig
from moestream.server.errors import add_handlers
from moestream.server.naming import Names
from moestream.server.security import Gate
from moestream.server.worker import EngineClient

__all__ = ["REPLICA_HEADER", "make_replica_app", "with_label"]

#: Says in every response which replica it comes from.
REPLICA_HEADER: Final = "x-moestream-replica"

_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)$")


def make_replica_app(
    engine: EngineClient,
    config: ServerConfig,
    base: EngineConfig,
    *,
    replica: str,
    restart_wait_s: float,
) -> FastAPI:
    """The application; its lifespan ends the engine, but somebody else starts it.

    Args:
        engine: of this replica.
        config: how to serve.
        base: what the engine opens.
        replica: a name for it.
        restart_wait_s: how long a request waits for an engine that is being started again.
    """
    names = Names(base.model, config.served_name)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await engine.drain(config.shutdown_s)
            await engine.close()

    app = FastAPI(
        title="moestream",
        version=str(moestream.__version__),
        summary="Mixture-of-Experts models bigger than memory, behind OpenAI's API.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        middleware=_middleware(engine, config, replica, restart_wait_s),
    )
    add_handlers(app)
    app.include_router(openai.router(engine, names))
    app.include_router(health.router(engine))

    @app.get("/metrics", tags=["operations"], response_model=None)
    async def scrape() -> Response:
        """Counters and gauges of one replica, which a label names."""
        text = metrics.render(engine, names.name(engine.state))
        return Response(with_label(text, "replica", replica), media_type=_PROMETHEUS)

    @app.get("/", include_in_schema=False, response_model=None)
    async def root() -> Response:
        return JSONResponse(
            {"name": "moestream", "version": str(moestream.__version__), "api": "/v1"}
        )

    return app


def with_label(text: str, label: str, value: str) -> str:
    """Samples in Prometheus' text format, each with a label more."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    def line(old: str) -> str:
        found = _SAMPLE.match(old)
        if found is None:
            return old
        name, labels, number = found.groups()
        pairs = f'{label}="{escaped}"' + (f",{labels}" if labels else "")
        return f"{name}{{{pairs}}} {number}"

    return "\n".join(line(old) for old in text.split("\n"))


def _middleware(
    engine: EngineClient, config: ServerConfig, replica: str, restart_wait_s: float
) -> list[Middleware]:
    found = [_of(_Named, replica=replica)]
    if config.cors_origins:
        found.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(config.cors_origins),
                allow_methods=["*"],
                allow_headers=["*"],
                expose_headers=["Retry-After", REPLICA_HEADER],
            )
        )
    # Who may not ask is told so at once.
    found.append(_of(Gate, config=config))
    found.append(_of(_Patient, engine=engine, seconds=restart_wait_s))
    return found


def _of(kind: Callable[..., Any], **options: Any) -> Middleware:
    factory: Any = kind
    return Middleware(factory, **options)


class _Named:
    """Puts the replica's name into every response."""

    def __init__(self, app: ASGIApp, replica: str) -> None:
        self._app = app
        self._header = (REPLICA_HEADER.encode(), replica.encode("ascii", "replace"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), self._header]}
            await send(message)

        await self._app(scope, receive, named if scope["type"] == "http" else send)


class _Patient:
    """Lets requests wait while the engine is started again.

    A replica that refuses them at once looks idle, and would be sent everything; where they wait,
    the others are sent what comes next.
    """

    def __init__(self, app: ASGIApp, engine: EngineClient, seconds: float) -> None:
        self._app = app
        self._engine = engine
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            await self._settled()
        await self._app(scope, receive, send)

    async def _settled(self) -> None:
        if self._engine.state.phase != "restarting":
            return
        with anyio.move_on_after(self._seconds):
            async for state in self._engine.subscribe():
                if state.phase != "restarting":
                    return
