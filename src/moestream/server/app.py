"""The application: every route, what guards them, and the engine behind them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response

import moestream
from moestream.config import EngineConfig
from moestream.errors import MoestreamError
from moestream.server import api, health, metrics, openai
from moestream.server.config import ServerConfig
from moestream.server.errors import add_handlers
from moestream.server.naming import Names
from moestream.server.security import Gate
from moestream.server.static_files import AppFiles, app_folder
from moestream.server.worker import EngineClient

__all__ = ["Application", "make_app"]

_LOG: Final = logging.getLogger("moestream.server")


class Application:
    """The FastAPI application with the parts that whoever runs it needs.

    Attributes:
        asgi: the application.
        engine: the engine.
    """

    def __init__(self, config: ServerConfig, base: EngineConfig) -> None:
        """Put everything together; nothing runs before the application's lifespan begins.

        Args:
            config: how to serve.
            base: what to open at the start.

        Raises:
            ConfigError: a setting is out of range, or the data directory cannot be used.
            StoreError: what is kept in it cannot be read.
        """
        config.validate()
        base.validate()
        self.config = config
        self.engine = EngineClient(queue_limit=config.queue_limit)
        names = Names(base.model, config.served_name)
        self._api = api.router(self.engine, config, base)
        # No pages of documentation: they would load scripts from elsewhere.
        app = FastAPI(
            title="moestream",
            version=str(moestream.__version__),
            summary="Mixture-of-Experts models bigger than memory, behind OpenAI's API.",
            docs_url=None,
            redoc_url=None,
            lifespan=self._lifespan,
            middleware=_middleware(config),
        )
        add_handlers(app)
        app.include_router(openai.router(self.engine, names))
        app.include_router(self._api)
        app.include_router(health.router(self.engine))
        app.include_router(metrics.router(self.engine, names))
        folder = app_folder()
        if folder is None:
            app.add_api_route("/", _no_app, include_in_schema=False, response_model=None)
        else:
            app.mount("/", AppFiles(directory=folder, html=True), name="app")
        self.asgi = app

    async def drain(self) -> None:
        """Take no more turns; let the running one end, but not for longer than configured."""
        self._api.services.let_go()
        await self.engine.drain(self.config.shutdown_s)

    @asynccontextmanager
    async def _lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        async with self.engine:
            loading = asyncio.create_task(self._load(self._api.services.wanted_config))
            try:
                yield
            finally:
                loading.cancel()
                with suppress(asyncio.CancelledError):
                    await loading

    async def _load(self, config: EngineConfig) -> None:
        try:
            await self.engine.load(config)
        except MoestreamError:
            return  # the state says so, and another model may be chosen
        _LOG.info("%s is ready", self.engine.state.model)


def make_app(config: ServerConfig, base: EngineConfig | None = None) -> FastAPI:
    """The application for any ASGI server; it opens ``base`` when it starts.

    Raises:
        MoestreamError: see :class:`Application`.
    """
    return Application(config, base or EngineConfig()).asgi


def _middleware(config: ServerConfig) -> list[Middleware]:
    found: list[Middleware] = []
    if config.cors_origins:
        # Outermost, so that refusals can be read by the pages that may ask.
        found.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(config.cors_origins),
                allow_methods=["*"],
                allow_headers=["*"],
                expose_headers=["Retry-After"],
            )
        )
    gate: Any = Gate
    found.append(Middleware(gate, config=config))
    return found


async def _no_app() -> Response:
    return JSONResponse({"name": "moestream", "version": str(moestream.__version__), "api": "/v1"})
