"""``POST /v1/completions``: the response, whole or in chunks."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any

from moestream.server.openai.render import Envelope, add_usage, completion_logprobs, usage
from moestream.server.openai.sse import DONE, TextChunk, chunk
from moestream.server.worker import TokenDelta, TurnDone, TurnEvent
from moestream.server.worker.turns import TokenLogprob

__all__ = ["completion", "completion_chunks"]

_KIND = "text_completion"


async def completion(
    turns: Sequence[AsyncIterable[TurnEvent]], envelope: Envelope
) -> dict[str, Any]:
    """All texts in one object."""
    choices: list[dict[str, Any]] = []
    ended: list[TurnDone] = []
    for index, events in enumerate(turns):
        text: list[str] = []
        rows: list[TokenLogprob] = []
        async for event in events:
            if isinstance(event, TokenDelta):
                text.append(event.text)
                rows += event.logprobs
            elif isinstance(event, TurnDone):
                ended.append(event)
        choices.append(
            _choice(index, "".join(text), completion_logprobs(rows, 0), ended[-1].finish_reason)
        )
    return {
        **envelope.body(_KIND, choices),
        "usage": usage(add_usage(ended)),
        "timings": dict(ended[-1].timings),
    }


async def completion_chunks(
    turns: Sequence[AsyncIterable[TurnEvent]], envelope: Envelope, *, with_usage: bool
) -> AsyncIterator[bytes]:
    """The texts as they come, one after the other."""
    extra: dict[str, Any] = {"usage": None} if with_usage else {}
    ended: list[TurnDone] = []
    for index, events in enumerate(turns):
        offset = 0
        blank = _choice(index, TextChunk.MARK, None, None)
        text = TextChunk({**envelope.body(_KIND, [blank]), **extra})
        async for event in events:
            if isinstance(event, TokenDelta):
                if event.text and not event.logprobs:
                    yield text.of(event.text)
                    continue
                logprobs = completion_logprobs(event.logprobs, offset)
                offset += sum(len(row.token) for row in event.logprobs)
                if logprobs is not None:
                    choice = _choice(index, event.text, logprobs, None)
                    yield chunk({**envelope.body(_KIND, [choice]), **extra})
            elif isinstance(event, TurnDone):
                ended.append(event)
                choice = _choice(index, "", None, event.finish_reason)
                body = {**envelope.body(_KIND, [choice]), **extra}
                yield chunk({**body, "timings": dict(event.timings)})
    if with_usage:
        yield chunk({**envelope.body(_KIND, []), "usage": usage(add_usage(ended))})
    yield DONE


def _choice(index: int, text: str, logprobs: Any, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
