"""Parts of responses that whole answers and streams share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from moestream.server.worker import ToolCall, TurnDone, Usage
from moestream.server.worker.turns import TokenLogprob

__all__ = ["Envelope", "add_usage", "chat_logprobs", "completion_logprobs", "tool_calls", "usage"]


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every chunk of a response repeats."""

    model: str
    prefix: str
    created: int = field(default_factory=lambda: int(time.time()))
    nonce: str = field(default_factory=lambda: secrets.token_hex(12))

    def body(self, kind: str, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """A response or chunk with these choices."""
        return {
            "id": f"{self.prefix}-{self.nonce}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": list(choices),
        }


def usage(found: Usage) -> dict[str, Any]:
    """``usage``: tokens, not chunks."""
    return {
        "prompt_tokens": found.prompt_tokens,
        "completion_tokens": found.completion_tokens,
        "total_tokens": found.prompt_tokens + found.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": found.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": found.reasoning_tokens},
    }


def add_usage(turns: Sequence[TurnDone]) -> Usage:
    """The usage of several turns together."""
    used = [turn.usage for turn in turns]
    return Usage(
        prompt_tokens=sum(each.prompt_tokens for each in used),
        cached_tokens=sum(each.cached_tokens for each in used),
        completion_tokens=sum(each.completion_tokens for each in used),
        reasoning_tokens=sum(each.reasoning_tokens for each in used),
    )


def tool_calls(calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """``tool_calls`` of a message."""
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in calls
    ]


def chat_logprobs(rows: Sequence[TokenLogprob]) -> dict[str, Any] | None:
    """``logprobs`` of a chat choice; ``None`` without any."""
    if not rows:
        return None
    content = [{**_row(row), "top_logprobs": [_row(other) for other in row.top]} for row in rows]
    return {"content": content, "refusal": None}


def _row(row: TokenLogprob) -> dict[str, Any]:
    return {"token": row.token, "logprob": row.logprob, "bytes": list(row.data)}


def completion_logprobs(rows: Sequence[TokenLogprob], offset: int) -> dict[str, Any] | None:
    """``logprobs`` of a completion; text offsets count from ``offset``."""
    if not rows:
        return None
    offsets = []
    for row in rows:
        offsets.append(offset)
        offset += len(row.token)
    return {
        "tokens": [row.token for row in rows],
        "token_logprobs": [row.logprob for row in rows],
        "top_logprobs": [{other.token: other.logprob for other in row.top} for row in rows],
        "text_offset": offsets,
    }
