"""One answer: streamed to whoever listens, kept as it grows, whatever comes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from moestream.errors import MoestreamError
from moestream.server.api.broadcast import PING, Event
from moestream.server.api.errors import error_event
from moestream.server.store import StoreError
from moestream.server.store.conversations import Conversations, Message, MessageState, new_id
from moestream.server.worker import (
    EngineClient,
    EngineUnavailableError,
    TokenDelta,
    TurnDone,
    TurnRequest,
)

__all__ = ["Answer", "message_as_json"]

_LOG: Final = logging.getLogger("moestream.server")

#: How often a growing answer is written down.
_KEEP_S: Final = 1.0
#: Silence after which to look whether the client is still there.
_QUIET_S: Final = 15.0


class Answer:
    """One answer while it is being given. A task runs it; whoever listens may leave."""

    def __init__(
        self,
        *,
        engine: EngineClient,
        conversations: Conversations,
        conversation: str,
        request: TurnRequest,
        keep: int,
        new: list[Message],
        kept: list[Message],
    ) -> None:
        """Not begun.

        Args:
            keep: messages that stay.
            new: what comes behind them once the engine has taken the turn; until then nothing is
                cut.
            kept: the messages that stay.
        """
        self._engine = engine
        self._conversations = conversations
        self._conversation = conversation
        self._request = request
        self._keep = keep
        self._new = new
        self._asked = new[-1] if new else kept[-1]
        self._message = Message(
            id=new_id(), role="assistant", content="", created=time.time(), state="running"
        )
        self._stored = False
        self._kept_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()

    def start(self) -> asyncio.Task[None]:
        """Begin; the task that gives the answer."""
        self._task = asyncio.create_task(self._run())
        return self._task

    def stop(self) -> None:
        """Stop, and keep what there is. May be called at any time."""
        if self._task is not None and not self._task.done():
            self._task.cancel()

    async def events(self) -> AsyncGenerator[Event, None]:
        """What happens, to its end."""
        yield "user", message_as_json(self._asked)
        waiting: asyncio.Future[Event | None] | None = None
        try:
            while True:
                if waiting is None:
                    waiting = asyncio.ensure_future(self._queue.get())
                await asyncio.wait([waiting], timeout=_QUIET_S)
                if not waiting.done():
                    yield PING  # it may wait for its turn for long
                    continue
                event, waiting = waiting.result(), None
                if event is None:
                    return
                yield event
        finally:
            if waiting is not None:
                waiting.cancel()

    async def _run(self) -> None:
        try:
            done = await self._generate()
            self._end("stopped" if done.finish_reason == "cancelled" else "complete", done)
        except asyncio.CancelledError:
            self._end("stopped")
        except MoestreamError as error:
            self._end("failed")
            self._queue.put_nowait(("error", error_event(error)))
        except Exception as error:
            _LOG.exception("unexpected error in an answer")
            self._end("failed")
            bug = MoestreamError(f"unexpected {type(error).__name__} in the server (this is a bug)")
            self._queue.put_nowait(("error", error_event(bug)))
        finally:
            self._queue.put_nowait(None)

    async def _generate(self) -> TurnDone:
        async with aclosing(self._engine.generate(self._request)) as events:
            async for event in events:
                if isinstance(event, TurnDone):
                    return event
                self._begin()
                if isinstance(event, TokenDelta):
                    self._take(event)
        raise EngineUnavailableError("the engine ended the answer without a word")

    # What follows writes in the event loop and not in a thread: a row takes less than a
    # millisecond, and nothing may come in between when the task is cancelled.

    def _begin(self) -> None:
        """The engine has taken the turn: what was to be cut is cut now."""
        if not self._stored:
            messages = [*self._new, self._message]
            self._conversations.extend(self._conversation, messages, keep=self._keep)
            self._stored = True

    def _take(self, delta: TokenDelta) -> None:
        self._message = replace(
            self._message,
            content=self._message.content + delta.text,
            reasoning=self._message.reasoning + delta.reasoning,
        )
        if delta.text or delta.reasoning:
            self._queue.put_nowait(("token", {"text": delta.text, "reasoning": delta.reasoning}))
        if delta.metrics is not None:
            self._queue.put_nowait(("metrics", dict(delta.metrics)))
        now = time.monotonic()
        if now - self._kept_at >= _KEEP_S:
            self._kept_at = now
            self._conversations.update(self._message)

    def _end(self, state: MessageState, done: TurnDone | None = None) -> None:
        """Keep the answer as far as it came."""
        if not self._stored:
            return  # the engine has never taken it: everything is as it was
        stats = None if done is None else self._stats(done)
        self._message = replace(self._message, state=state, stats=stats)
        try:
            self._conversations.update(self._message)
        except StoreError as error:
            self._queue.put_nowait(("error", error_event(error)))
            return
        if state != "failed":
            answer = {"message": message_as_json(self._message), "summary": stats}
            self._queue.put_nowait(("done", answer))

    def _stats(self, done: TurnDone) -> dict[str, Any]:
        usage = done.usage
        record = self._request.record_to
        return {
            "finish_reason": done.finish_reason,
            "usage": {
                "prompt_tokens": usage.prompt_tokens,
                "cached_tokens": usage.cached_tokens,
                "completion_tokens": usage.completion_tokens,
                "reasoning_tokens": usage.reasoning_tokens,
            },
            "timings": dict(done.timings),
            "summary": dict(done.summary),
            "model": self._engine.state.model,
            "run": None if record is None else record.stem,
        }


def message_as_json(message: Message) -> dict[str, Any]:
    """A message as the app gets it."""
    return {
        "id": message.id,
        "role": message.role,
        "content": message.content,
        "reasoning": message.reasoning,
        "created": message.created,
        "state": message.state,
        "stats": message.stats,
    }
