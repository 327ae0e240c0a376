"""Answers within conversations: when one may be given, what it is asked with, who stops it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from moestream.errors import ConfigError
from moestream.server.api.answering import Answer
from moestream.server.errors import ApiError
from moestream.server.store.conversations import Conversations, Message, new_id
from moestream.server.store.runs import Runs
from moestream.server.store.settings import StoredSettings
from moestream.server.worker import EngineClient, EngineUnavailableError, TurnRequest
from moestream.settings.values import sampling_config

__all__ = ["Replies", "Wanted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for.

    Attributes:
        content: what the user says; ``None`` answers the last message once more.
        cuts: cut everything behind ``after`` first.
        after: id of a message; ``None`` for the beginning.
        thinking: instead of the setting.
        client: who asks.
    """

    content: str | None
    cuts: bool
    after: str | None
    thinking: bool | None
    client: str


class Replies:
    """Answers, at most one at a time in each conversation."""

    def __init__(
        self,
        engine: EngineClient,
        conversations: Conversations,
        settings: StoredSettings,
        runs: Runs,
    ) -> None:
        """No answer is being given yet."""
        self._engine = engine
        self._conversations = conversations
        self._settings = settings
        self._runs = runs
        self._running: dict[str, asyncio.Task[None] | None] = {}

    async def begin(self, conversation: str, wanted: Wanted) -> Answer:
        """Start to answer.

        Raises:
            NotKeptError: there is no such conversation.
            ApiError: it is being answered already, or ``after`` is no message of it.
            ConfigError: there is nothing to answer.
            EngineUnavailableError: no model is ready.
            StoreError: what is asked cannot be kept.
        """
        if conversation in self._running:
            raise ApiError(
                "this conversation is being answered already; stop that answer, or wait for it",
                status=409,
                code="conflict",
            )
        self._running[conversation] = None  # before anything is waited for
        try:
            await asyncio.to_thread(self._conversations.get, conversation)
            self._check_engine()
            answer = await self._prepare(conversation, wanted)
        except BaseException:
            del self._running[conversation]
            raise
        task = answer.start()
        self._running[conversation] = task
        task.add_done_callback(lambda _task: self._running.pop(conversation, None))
        return answer

    async def stop(self, conversation: str) -> None:
        """Stop the answer that is being given, if any, and wait until it is kept."""
        task = self._running.get(conversation)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """Stop all of them."""
        for conversation in list(self._running):
            await self.stop(conversation)

    def _check_engine(self) -> None:
        state = self._engine.state
        if state.phase == "ready":
            return
        coming = state.phase in ("loading", "restarting")
        words = {
            "loading": "the model is being loaded",
            "restarting": "the engine is being started again",
            "failed": f"the model could not be loaded: {state.error}",
        }
        raise EngineUnavailableError(
            words.get(state.phase, "no model is loaded; load one first"),
            retry_after=5.0 if coming else None,
        )

    async def _prepare(self, conversation: str, wanted: Wanted) -> Answer:
        before = await asyncio.to_thread(self._conversations.messages, conversation)
        kept = before[: _kept(before, wanted)]
        new = []
        if wanted.content is not None:
            user = Message(id=new_id(), role="user", content=wanted.content, created=time.time())
            new.append(user)
        elif not kept or kept[-1].role != "user":
            raise ConfigError(
                "there is nothing to answer: give content, or the id of one of the user's "
                "messages as after"
            )
        keep = len(kept)
        if new and keep == len(before):
            # Nothing is lost by keeping it now, so it survives whatever happens.
            await asyncio.to_thread(self._conversations.extend, conversation, new, keep=keep)
            kept, new, keep = [*kept, *new], [], keep + 1
        record = self._runs.new_path() if self._settings.values["record_runs"] else None
        request = self._request([*kept, *new], wanted, record)
        return Answer(
            engine=self._engine, conversations=self._conversations, conversation=conversation,
            request=request, keep=keep, new=new, kept=kept,
        )  # fmt: skip

    def _request(
        self, messages: Sequence[Message], wanted: Wanted, record: Path | None
    ) -> TurnRequest:
        values = self._settings.values
        thinking = values["enable_thinking"] if wanted.thinking is None else wanted.thinking
        sampling = sampling_config(values)
        return TurnRequest(
            messages=(*_system(values["system_prompt"]), *map(_for_template, messages)),
            enable_thinking=thinking,
            max_tokens=None if values["max_tokens"] < 0 else values["max_tokens"],
            sampling=sampling,
            draft=sampling.temperature == 0,
            record_to=record,
            client=wanted.client,
        )


def _kept(messages: Sequence[Message], wanted: Wanted) -> int:
    """How many messages stay."""
    if not wanted.cuts:
        return len(messages)
    if wanted.after is None:
        return 0
    for position, message in enumerate(messages, 1):
        if message.id == wanted.after:
            return position
    raise ApiError(
        f"there is no message {wanted.after!r} in this conversation",
        status=404,
        code="not_found",
        param="after",
    )


def _system(prompt: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": prompt}] if prompt.strip() else []


def _for_template(message: Message) -> dict[str, str]:
    shown = {"role": message.role, "content": message.content}
    if message.reasoning:
        shown["reasoning_content"] = message.reasoning
    return shown
