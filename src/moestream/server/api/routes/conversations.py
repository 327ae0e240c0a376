"""Conversations, and the answers in them."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response

from moestream.server.api.answering import message_as_json
from moestream.server.api.replies import Wanted
from moestream.server.api.schemas import NewConversation, ReplyRequest, TitleRequest
from moestream.server.api.services import Services
from moestream.server.api.sse import EventStream
from moestream.server.security import client_of

__all__ = ["add_routes"]


def add_routes(router: APIRouter, services: Services) -> None:
    """List, begin, read, rename and forget conversations; answer in them."""
    kept = services.conversations

    @router.get("/conversations", tags=["conversations"])
    async def read_all() -> list[dict[str, Any]]:
        """All of them, the latest first, without what was said."""
        return [asdict(found) for found in await asyncio.to_thread(kept.all)]

    @router.post("/conversations", tags=["conversations"], status_code=201)
    async def create(wanted: NewConversation | None = None) -> dict[str, Any]:
        """Begin one. Without a title, it is called after the first question."""
        title = None if wanted is None else wanted.title
        return asdict(await asyncio.to_thread(kept.create, title))

    @router.get("/conversations/{conversation_id}", tags=["conversations"])
    async def read(conversation_id: str) -> dict[str, Any]:
        """One of them with all that was said."""
        found = await asyncio.to_thread(kept.get, conversation_id)
        messages = await asyncio.to_thread(kept.messages, conversation_id)
        return {**asdict(found), "messages": [message_as_json(message) for message in messages]}

    @router.patch("/conversations/{conversation_id}", tags=["conversations"])
    async def rename(conversation_id: str, wanted: TitleRequest) -> dict[str, Any]:
        """Give it a title."""
        return asdict(await asyncio.to_thread(kept.rename, conversation_id, wanted.title))

    @router.delete(
        "/conversations/{conversation_id}",
        tags=["conversations"],
        status_code=204,
        response_class=Response,
    )
    async def delete(conversation_id: str) -> None:
        """Forget it; an answer that is being given is stopped."""
        await services.replies.stop(conversation_id)
        await asyncio.to_thread(kept.delete, conversation_id)

    @router.post(
        "/conversations/{conversation_id}/reply",
        tags=["conversations"],
        response_class=EventStream,
        status_code=200,
        responses={409: {"description": "It is being answered already."}},
    )
    async def reply(conversation_id: str, wanted: ReplyRequest, request: Request) -> EventStream:
        """Answer, as server-sent events: `user`, `token`, `metrics`, and at last `done` or `error`.

        The answer is kept as it grows. A client that goes away stops it.
        """
        answer = await services.replies.begin(
            conversation_id,
            Wanted(
                content=wanted.content, cuts=wanted.cuts, after=wanted.after,
                thinking=wanted.thinking, client=client_of(request.scope),
            ),
        )  # fmt: skip
        return EventStream(answer.events(), gone=answer.stop)
