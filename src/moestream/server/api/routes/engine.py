"""How things are, what goes on, and the engine's switch."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from moestream.server.api.schemas import LoadRequest
from moestream.server.api.services import Services
from moestream.server.api.sse import EventStream

__all__ = ["add_routes"]


def add_routes(router: APIRouter, services: Services) -> None:
    """State, events, load, unload, cancel."""

    @router.get("/state", tags=["engine"])
    async def state() -> dict[str, Any]:
        """What the engine is doing, the settings, the queue and the memory."""
        return services.state()

    @router.get("/events", tags=["engine"], response_class=EventStream, status_code=200)
    async def events() -> EventStream:
        """Server-sent events: `state` (at once, and on every change), `pull` and `turn`."""
        return EventStream(services.events.listen(("state", services.state())))

    @router.post("/engine/load", tags=["engine"], status_code=202)
    async def load(wanted: LoadRequest) -> dict[str, Any]:
        """Load a model with the settings as they are; how it goes comes as `state` events."""
        model = None
        if wanted.model is not None:
            model = await services.find_model(wanted.model)
        if wanted.settings:
            await services.change_settings(wanted.settings)
        await services.load(model, cancel=wanted.cancel)
        return services.state()

    @router.post("/engine/unload", tags=["engine"], status_code=202)
    async def unload(cancel: bool = False) -> dict[str, Any]:
        """Close the model; a turn that runs ends first, or is cancelled."""
        await services.unload(cancel=cancel)
        return services.state()

    @router.post("/engine/cancel", tags=["engine"])
    async def cancel_turn() -> dict[str, Any]:
        """End the turn that runs, whoever asked for it."""
        return {"cancelled": await services.engine.cancel()}
