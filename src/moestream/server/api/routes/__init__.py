"""The routes of ``/api``, one file a subject."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from moestream.server.api.errors import ApiRoute
from moestream.server.api.routes import conversations, engine, models, pulls, runs, settings
from moestream.server.api.services import Services

__all__ = ["ApiRouter"]

_REFUSED: dict[int | str, dict[str, Any]] = {
    status: {"description": words}
    for status, words in (
        (400, "The request cannot be taken; the error says why."),
        (404, "There is no such thing."),
        (503, "It cannot be done at the moment."),
    )
}


class ApiRouter(APIRouter):
    """All routes; mounted, they start and stop ``services`` with the application."""

    def __init__(self, services: Services) -> None:
        """Of these services."""
        super().__init__(
            prefix="/api", route_class=ApiRoute, lifespan=services.running, responses=_REFUSED
        )
        self.services = services
        for part in (engine, settings, conversations, runs, models, pulls):
            part.add_routes(self, services)
