"""``POST /v1/chat/completions``: the response, whole or in chunks."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from moestream.server.openai.render import Envelope, chat_logprobs, tool_calls, usage
from moestream.server.openai.sse import DONE, TextChunk, chunk
from moestream.server.worker import TokenDelta, ToolCall, TurnDone, TurnEvent
from moestream.server.worker.turns import TokenLogprob

__all__ = ["chat_chunks", "chat_completion"]


async def chat_completion(events: AsyncIterable[TurnEvent], envelope: Envelope) -> dict[str, Any]:
    """The whole answer in one object."""
    text: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    rows: list[TokenLogprob] = []
    done: TurnDone | None = None
    async for event in events:
        if isinstance(event, TokenDelta):
            text.append(event.text)
            reasoning.append(event.reasoning)
            calls += event.tool_calls
            rows += event.logprobs
        elif isinstance(event, TurnDone):
            done = event
    assert done is not None
    said, thought = "".join(text), "".join(reasoning)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": said or (None if calls else ""),
        "refusal": None,
    }
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = tool_calls(calls)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": chat_logprobs(rows),
        "finish_reason": done.finish_reason,
    }
    return {
        **envelope.body("chat.completion", [choice]),
        "usage": usage(done.usage),
        "timings": dict(done.timings),
    }


async def chat_chunks(
    events: AsyncIterable[TurnEvent], envelope: Envelope, *, with_usage: bool
) -> AsyncIterator[bytes]:
    """The answer as it comes."""
    kind = "chat.completion.chunk"
    frame = _Frame(envelope, kind, with_usage)
    yield frame.of({"role": "assistant", "content": ""})
    calls = 0
    async for event in events:
        if isinstance(event, TokenDelta):
            if event.text and not (event.reasoning or event.tool_calls or event.logprobs):
                yield frame.text.of(event.text)
                continue
            delta: dict[str, Any] = {}
            if event.reasoning:
                delta["reasoning_content"] = event.reasoning
            if event.text:
                delta["content"] = event.text
            if event.tool_calls:
                delta["tool_calls"] = [
                    {"index": calls + at, **call}
                    for at, call in enumerate(tool_calls(event.tool_calls))
                ]
                calls += len(event.tool_calls)
            if delta or event.logprobs:
                yield frame.of(delta, logprobs=chat_logprobs(event.logprobs))
        elif isinstance(event, TurnDone):
            last = frame.body({}, finish_reason=event.finish_reason)
            last["timings"] = dict(event.timings)
            yield chunk(last)
            if with_usage:
                yield chunk({**envelope.body(kind, []), "usage": usage(event.usage)})
    yield DONE


class _Frame:
    """Builds chunks."""

    def __init__(self, envelope: Envelope, kind: str, with_usage: bool) -> None:
        self._envelope = envelope
        self._kind = kind
        self._with_usage = with_usage
        self.text = TextChunk(self.body({"content": TextChunk.MARK}))

    def body(
        self, delta: dict[str, Any], *, logprobs: Any = None, finish_reason: str | None = None
    ) -> dict[str, Any]:
        choice = {
            "index": 0,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        body = self._envelope.body(self._kind, [choice])
        if self._with_usage:
            body["usage"] = None
        return body

    def of(self, delta: dict[str, Any], *, logprobs: Any = None) -> bytes:
        return chunk(self.body(delta, logprobs=logprobs))
