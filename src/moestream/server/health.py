"""``/health``: whether the server can answer."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from moestream.server.worker import EngineClient

__all__ = ["router"]

_RETRY_S = 2


def router(engine: EngineClient) -> APIRouter:
    """200 once a model is open, 503 before and where it failed."""
    routes = APIRouter()

    @routes.get(
        "/health",
        tags=["operations"],
        response_model=None,
        responses={503: {"description": "No model is ready; `status` says why."}},
    )
    async def health() -> Response:
        """Whether a model is ready to answer."""
        state = engine.state
        ready = state.phase == "ready"
        body: dict[str, Any] = {"status": "ok" if ready else state.phase}
        if state.progress is not None and not ready:
            body["progress"] = state.progress
        if state.error is not None:
            body["reason"] = state.error
        headers = {"Cache-Control": "no-store"}
        if not ready and state.phase != "failed":
            headers["Retry-After"] = str(_RETRY_S)
        return JSONResponse(body, 200 if ready else 503, headers)

    return routes
