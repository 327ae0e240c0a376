"""Runs the application with uvicorn until it is told to end."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from moestream.config import EngineConfig
from moestream.errors import ConfigError, PlatformError
from moestream.server.app import Application
from moestream.server.config import ServerConfig

__all__ = ["serve"]

_LOG: Final = logging.getLogger("moestream.server")

#: Seconds after the last answer that connections have to close.
_CLOSING_S: Final = 5


def serve(
    config: ServerConfig,
    base: EngineConfig,
    *,
    listening: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGINT or SIGTERM; a running answer may end first, within the time configured.

    Args:
        config: how to serve.
        base: what to open at the start.
        listening: told the address once requests can be made.

    Raises:
        ConfigError: a setting is out of range, or the address cannot be used.
        MoestreamError: what is kept cannot be used.
    """
    config.validate()
    with _listen(config) as listener:
        application = Application(config, base)
        settings = uvicorn.Config(
            application.asgi,
            loop="asyncio",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=round(config.shutdown_s) + _CLOSING_S,
        )
        server = _Server(settings, application)
        listening(_url(config.host, listener.getsockname()[1]))
        server.run(sockets=[listener])
        if not server.started:
            raise PlatformError("the server did not start; the lines above say why")


class _Server(uvicorn.Server):
    """Tells the application as soon as it has to end, so that streams do."""

    def __init__(self, config: uvicorn.Config, application: Application) -> None:
        super().__init__(config)
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        draining = asyncio.create_task(self._application.drain())
        await super().shutdown(sockets)
        draining.cancel()
        await asyncio.wait({draining})


def _listen(config: ServerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # With the protocol spelt out, or asyncio does not turn Nagle's algorithm off, and a chunk may
    # wait 40 ms for the client's system to confirm the one before.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config.host, config.port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen at {config.host} port {config.port}: {error.strerror or error}; "
            "give another one with --host or --port"
        ) from error
    return listener


def _url(host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"
