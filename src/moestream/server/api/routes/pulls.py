"""Models that are fetched from a hub."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from moestream.server.api.schemas import NewPull
from moestream.server.api.services import Services

__all__ = ["add_routes"]


def add_routes(router: APIRouter, services: Services) -> None:
    """Fetch, stop, go on, forget."""
    pulling = services.pulling

    @router.get("/pulls", tags=["pulls"])
    async def read_all() -> list[dict[str, Any]]:
        """All pulls, the latest first."""
        return await pulling.all()

    @router.post(
        "/pulls",
        tags=["pulls"],
        status_code=202,
        responses={429: {"description": "Too many wait already."}},
    )
    async def begin(wanted: NewPull) -> dict[str, Any]:
        """Fetch a model; how it goes comes as `pull` events."""
        return await pulling.begin(wanted.reference)

    @router.post("/pulls/{pull_id}/cancel", tags=["pulls"])
    async def cancel(pull_id: str) -> dict[str, Any]:
        """Stop; what was fetched stays, to go on from."""
        return await pulling.cancel(pull_id)

    @router.post("/pulls/{pull_id}/resume", tags=["pulls"], status_code=202)
    async def resume(pull_id: str) -> dict[str, Any]:
        """Go on with one that has ended."""
        return await pulling.resume(pull_id)

    @router.delete("/pulls/{pull_id}", tags=["pulls"], status_code=204, response_class=Response)
    async def delete(pull_id: str) -> None:
        """Forget it, and delete what it fetched only in part."""
        await pulling.delete(pull_id)
