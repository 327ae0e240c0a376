"""A turn on the server's side: messages of the engine in, events out."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from moestream.errors import MoestreamError
from moestream.server.answer import AnswerReader, Call, Dialect, Parts, make_reader
from moestream.server.worker.timings import timings_of
from moestream.server.worker.turns import (
    FinishReason,
    TokenDelta,
    TokenLogprob,
    ToolCall,
    TurnDone,
    TurnEvent,
    TurnRequest,
    TurnStarted,
    Usage,
)
from moestream.server.worker.wire import Message, error_from_json, request_to_json

__all__ = ["Turn"]


class Turn:
    """One turn that the engine has been given."""

    def __init__(
        self,
        turn_id: int,
        request: TurnRequest,
        dialect: Dialect | None,
        *,
        on_end: Callable[[Turn], None],
        on_enough: Callable[[Turn], None],
    ) -> None:
        """Prepare the turn.

        Args:
            turn_id: unique as long as the engine runs.
            request: what was asked for.
            dialect: of the model; ``None`` if the text is to be left as it is.
            on_end: called once, when the engine is free again.
            on_enough: called when the rest of the answer is not wanted.
        """
        self.id = turn_id
        self.request = request
        self.ended = False
        self.done: TurnDone | None = None
        #: Whether anybody still reads it.
        self.abandoned = False
        #: Seconds to the first token.
        self.first_s: float | None = None
        self._begun = monotonic()
        self._dialect = dialect
        self._on_end = on_end
        self._on_enough = on_enough
        self._events: deque[TurnEvent] = deque()
        self._error: MoestreamError | None = None
        self._news = asyncio.Event()
        self._reader: AnswerReader | None = None
        self._reasoning_tokens = 0
        self._calls = 0
        self._enough = False

    @property
    def command(self) -> Message:
        """What the engine is told."""
        return {
            "t": "turn",
            "id": self.id,
            "request": request_to_json(self.request),
            "markers": () if self._dialect is None else self._dialect.markers,
        }

    async def next(self) -> TurnEvent | None:
        """The next event; the last is :class:`TurnDone`, and ``None`` follows.

        Raises:
            MoestreamError: the turn has failed.
        """
        while not self._events:
            if self._error is not None:
                raise self._error
            if self.ended:
                return None
            self._news.clear()
            await self._news.wait()
        return self._events.popleft()

    def feed(self, message: Message) -> TokenDelta | None:
        """A message of the engine about this turn; the tokens in it."""
        delta: TokenDelta | None = None
        if message["t"] == "tokens":
            if self.first_s is None:
                self.first_s = monotonic() - self._begun
            delta = self._tokens(message)
            if delta is not None:
                self._tell(delta)
        elif message["t"] == "started":
            if self._dialect is not None:
                self._reader = make_reader(
                    self._dialect, prompt_end=message.get("end", ""), tools=self.request.tools
                )
            self._tell(TurnStarted(prompt_tokens=message["n"]))
        elif message["t"] == "done":
            self._finish(message["summary"])
        else:
            self.fail(error_from_json(message["error"]))
        return delta

    def fail(self, error: MoestreamError) -> None:
        """The turn ends here."""
        if not self.ended:
            self._error = error
            self._end()

    def _tell(self, event: TurnEvent) -> None:
        if not self.abandoned:
            self._events.append(event)
            self._news.set()

    def _end(self) -> None:
        self.ended = True
        self._news.set()
        self._on_end(self)

    def _tokens(self, message: Message) -> TokenDelta | None:
        if self._enough:
            return None
        texts: list[str] = message["s"]
        reader = self._reader
        logprobs: Iterable[Any] = message.get("p", ())
        if reader is None:
            parts = Parts(text="".join(texts))
        else:
            parts, logprobs = self._read(reader, texts, list(logprobs))
        return TokenDelta(
            text=parts.text,
            reasoning=parts.reasoning,
            tool_calls=self._called(parts.calls),
            token_ids=tuple(message["k"]),
            index=message["i"],
            tok_s=message["r"],
            metrics=message.get("m"),
            logprobs=tuple(_logprob(row) for row in logprobs if row is not None),
        )

    def _read(
        self, reader: AnswerReader, texts: list[str], logprobs: list[Any]
    ) -> tuple[Parts, list[Any]]:
        """The parts of a few tokens; each is read alone, so that those of the thinking count."""
        parts = Parts()
        kept = []
        for index, text in enumerate(texts):
            thought = reader.thinking
            found = reader.push(text)
            if found:
                parts += found
            if thought or reader.thinking:
                self._reasoning_tokens += 1
            elif logprobs and not found.calls:
                kept.append(logprobs[index])
            if found.calls and not self.request.parallel_tool_calls:
                self._enough = True
                self._on_enough(self)
                break
        return parts, kept

    def _called(self, calls: tuple[Call, ...]) -> tuple[ToolCall, ...]:
        if not self.request.parallel_tool_calls:
            calls = calls[: 1 - self._calls]
        self._calls += len(calls)
        return tuple(
            ToolCall(
                id=f"call_{secrets.token_hex(12)}",
                name=call.name,
                arguments=json.dumps(call.arguments, ensure_ascii=False),
            )
            for call in calls
        )

    def _finish(self, summary: Message) -> None:
        generated = summary["generated_tokens"]
        if self._reader is not None and not self._enough:
            rest = self._reader.finish()
            if rest:
                calls = self._called(rest.calls)
                self._tell(
                    TokenDelta(
                        text=rest.text,
                        reasoning=rest.reasoning,
                        tool_calls=calls,
                        index=max(generated - 1, 0),
                        tok_s=summary["tok_s"],
                    )
                )
        self.done = TurnDone(
            finish_reason=self._reason(summary["finish_reason"]),
            usage=Usage(
                prompt_tokens=summary["prompt_tokens"],
                cached_tokens=summary["reused_tokens"],
                completion_tokens=generated,
                reasoning_tokens=min(self._reasoning_tokens, generated),
            ),
            timings=timings_of(summary),
            summary=summary,
        )
        self._tell(self.done)
        self._end()

    def _reason(self, reason: FinishReason | None) -> FinishReason:
        if self._calls and (reason == "stop" or self._enough):
            return "tool_calls"
        return reason or "cancelled"


def _logprob(row: list[Any]) -> TokenLogprob:
    token, data, value, *rest = row
    top = tuple(_logprob(each) for each in rest[0]) if rest else ()
    return TokenLogprob(token=token, data=bytes(data), logprob=value, top=top)
