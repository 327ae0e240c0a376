"""What a turn is asked with, and what it tells: the types that cross :class:`EngineClient`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from moestream.config import EngineConfig, SamplingConfig

__all__ = [
    "EnginePhase",
    "EngineState",
    "FinishReason",
    "QueueState",
    "TokenDelta",
    "TokenLogprob",
    "ToolCall",
    "TurnDone",
    "TurnEvent",
    "TurnMetrics",
    "TurnRequest",
    "TurnStarted",
    "Usage",
]

EnginePhase = Literal["unloaded", "loading", "ready", "failed", "restarting"]
FinishReason = Literal["stop", "length", "tool_calls", "cancelled"]

#: Live numbers of a running turn, averaged over the last few tokens; what was not measured, or
#: does not apply, is ``None``. Keys: ``index`` (tokens so far less one), ``tok_s`` (decoding
#: alone), ``effective_tok_s`` (everything), ``stall_ms``, ``compute_ms``, ``draft_ms``,
#: ``other_ms`` (per token), ``hit_pct``, ``mib_per_token``, ``acceptance_pct``,
#: ``tokens_per_pass``, ``rss_mib``, ``cache_budget_mib``.
TurnMetrics: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """What the engine is doing.

    Attributes:
        phase: ``ready`` is the only one in which turns run; ``restarting`` follows a crash.
        progress: loaded fraction, 0 to 1, while loading.
        error: why it failed, or why it restarts.
        model: name that the model gives itself, once it is known.
        config: what is loaded or being loaded.
        report: :class:`moestream.engine.report.LoadReport` as JSON, once it is loaded.
    """

    phase: EnginePhase = "unloaded"
    progress: float | None = None
    error: str | None = None
    model: str | None = None
    config: EngineConfig | None = None
    report: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """How busy the engine is.

    Attributes:
        running: turns that hold the engine, 0 or 1.
        waiting: turns that wait for it.
        limit: how many may wait.
    """

    running: int
    waiting: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """One turn. Give ``messages`` to chat, or ``prompt`` to continue a text.

    Attributes:
        prompt: text, or token ids.
        messages: a conversation for the model's chat template, oldest first.
        tools: tools in OpenAI's shape, for the template.
        template_variables: whatever else the template understands.
        enable_thinking: passed to the template.
        add_generation_prompt: passed to the template; ``False`` goes on with the last message.
        max_tokens: how many at most; ``None`` until the model stops or the context is full.
        stop: strings that end the generation and are not part of it.
        sampling: instead of the session's. One that draws tokens runs without drafts.
        logprobs: with the log probabilities of this many alternatives (0: the chosen token's
            alone) for every token; ``None`` without.
        draft: ``False`` does not speculate even if the session does.
        parallel_tool_calls: ``False`` ends the turn after the first tool call.
        record_to: CSV file to record the turn to.
        client: who asks. Clients take turns, however many requests each of them has waiting.
    """

    prompt: str | tuple[int, ...] | None = None
    messages: tuple[Mapping[str, Any], ...] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    template_variables: Mapping[str, Any] = field(default_factory=dict)
    enable_thinking: bool = True
    add_generation_prompt: bool = True
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: SamplingConfig | None = None
    logprobs: int | None = None
    draft: bool = True
    parallel_tool_calls: bool = True
    record_to: Path | None = None
    client: str = "local"


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token with its log probability, and the likeliest alternatives in its place."""

    token: str
    data: bytes
    logprob: float
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool, as the model wrote it.

    Attributes:
        id: made here, unique.
        name: of the function.
        arguments: a JSON object, as text.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """The engine has taken the turn, and is about to evaluate the prompt."""

    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDelta:
    """One token or a few that came shortly after each other.

    Attributes:
        text: of the answer.
        reasoning: of what the model thinks aloud before it, where its template tells them apart.
        tool_calls: tools that the model calls, each complete.
        token_ids: the tokens behind it.
        index: running number of the first of them within the turn, from 0.
        tok_s: tokens a second so far; ``None`` on the first.
        metrics: live numbers, about ten times a second; ``None`` in between.
        logprobs: of the tokens of ``text``, if asked for.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    token_ids: tuple[int, ...] = ()
    index: int
    tok_s: float | None = None
    metrics: TurnMetrics | None = None
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens, as the tokenizer counts them.

    Attributes:
        prompt_tokens: of the prompt.
        cached_tokens: how many of them were in the context already.
        completion_tokens: generated, one that ended the text included.
        reasoning_tokens: how many of them were thought aloud.
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDone:
    """The turn has ended; the last event.

    Attributes:
        finish_reason: why.
        usage: tokens.
        timings: as llama.cpp's server gives them: ``prompt_n``, ``prompt_ms``, ``predicted_n``,
            ``predicted_ms``, ``predicted_per_second``, ``draft_n``, ``draft_n_accepted``, ...
        summary: the turn as a whole, by the names of ``moestream run --json``.
    """

    finish_reason: FinishReason
    usage: Usage
    timings: Mapping[str, Any]
    summary: Mapping[str, Any]


TurnEvent: TypeAlias = TurnStarted | TokenDelta | TurnDone
