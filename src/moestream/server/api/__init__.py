"""``/api``: what the app needs. Conversations, settings, runs, models, and what goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moestream.server.api.routes import ApiRouter
from moestream.server.api.services import Services

if TYPE_CHECKING:
    from moestream.config import EngineConfig
    from moestream.server.config import ServerConfig
    from moestream.server.worker import EngineClient

__all__ = ["ApiRouter", "Services", "router"]


def router(
    engine: EngineClient, config: ServerConfig, base: EngineConfig | None = None
) -> ApiRouter:
    """The routes; mounted, they start and stop their ``services`` with the application.

    What is kept is opened now, before the server listens. ``services.wanted_config`` is what to
    load first, and ``services.let_go()`` ends the streams that a server that shuts down would wait
    for.

    Args:
        engine: the engine, whatever its state.
        config: where things are kept, and where models lie.
        base: the engine's configuration from the command line.

    Raises:
        ConfigError: the data directory cannot be used, or another server uses it.
        StoreError: what is kept in it cannot be read.
    """
    return ApiRouter(
        Services(engine, data_dir=config.data_dir, models_dirs=config.models_dirs, base=base)
    )
