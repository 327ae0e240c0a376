"""The routes of ``/v1``."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from moestream.config import SamplingConfig
from moestream.server.errors import ApiError
from moestream.server.naming import Names
from moestream.server.openai.chat_request import ChatRequest
from moestream.server.openai.chat_response import chat_chunks, chat_completion
from moestream.server.openai.completion_request import CompletionRequest
from moestream.server.openai.completion_response import completion, completion_chunks
from moestream.server.openai.render import Envelope
from moestream.server.openai.sse import ChunkStream
from moestream.server.openai.turns import ClientGoneError, Turns, while_there
from moestream.server.security import client_of
from moestream.server.worker import EngineClient

__all__ = ["router"]

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    400: {"description": "The request cannot be taken; the error says why."},
    401: {"description": "An API key is needed."},
    404: {"description": "Another model is open."},
    429: {"description": "Too many requests wait already; see Retry-After."},
    503: {"description": "No model is ready, or the engine died."},
}
#: nginx's word for a client that did not wait; nobody reads it.
_GONE: Final = 499


def router(engine: EngineClient, names: Names) -> APIRouter:
    """Models, chat completions, completions."""
    routes = APIRouter(prefix="/v1", responses=_RESPONSES)

    @routes.get("/models", tags=["openai"], response_model=None)
    async def models() -> dict[str, Any]:
        """The model that is open, or being opened."""
        found = _model(engine, names)
        return {"object": "list", "data": [] if found is None else [found]}

    @routes.get("/models/{model:path}", tags=["openai"], response_model=None)
    async def model(model: str) -> dict[str, Any]:
        """One model."""
        found = _model(engine, names)
        if found is None:
            raise ApiError("no model is open", status=404, code="model_not_found", param="model")
        names.check(model, engine.state)
        return found

    @routes.post("/chat/completions", tags=["openai"], response_model=None)
    async def chat_completions(asked: ChatRequest, request: Request) -> Response:
        """Answer a conversation, whole or as server-sent events (`stream`)."""
        envelope = Envelope(names.check(asked.model, engine.state), "chatcmpl")
        turn = asked.turn(_sampling(engine), engine.dialect, client_of(request.scope))
        turns = Turns(engine, [turn])
        try:
            await while_there(request.receive, turns.begin())
            (events,) = turns.events()
            if asked.stream:
                return ChunkStream(
                    chat_chunks(events, envelope, with_usage=asked.wants_usage), turns
                )
            return JSONResponse(
                await while_there(request.receive, chat_completion(events, envelope))
            )
        except ClientGoneError:
            return Response(status_code=_GONE)
        finally:
            if not asked.stream:
                await turns.close()

    @routes.post("/completions", tags=["openai"], response_model=None)
    async def completions(asked: CompletionRequest, request: Request) -> Response:
        """Continue a text, whole or as server-sent events (`stream`)."""
        envelope = Envelope(names.check(asked.model, engine.state), "cmpl")
        turns = Turns(engine, asked.turns(_sampling(engine), client_of(request.scope)))
        try:
            await while_there(request.receive, turns.begin())
            events = turns.events()
            if asked.stream:
                return ChunkStream(
                    completion_chunks(events, envelope, with_usage=asked.wants_usage), turns
                )
            return JSONResponse(await while_there(request.receive, completion(events, envelope)))
        except ClientGoneError:
            return Response(status_code=_GONE)
        finally:
            if not asked.stream:
                await turns.close()

    return routes


def _sampling(engine: EngineClient) -> SamplingConfig:
    config = engine.state.config
    return SamplingConfig() if config is None else config.sampling


def _model(engine: EngineClient, names: Names) -> dict[str, Any] | None:
    state = engine.state
    name = names.name(state)
    if name is None:
        return None
    report = state.report or {}
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "moestream",
        "meta": {
            "n_ctx": report.get("n_ctx"),
            "n_ctx_train": report.get("n_ctx_train"),
            "n_vocab": report.get("n_vocab"),
            "arch": report.get("arch"),
        },
    }
