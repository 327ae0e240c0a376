"""What the engine has done since the server started: numbers for ``/metrics``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["EngineCounters", "Histogram"]

_LATENCY: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_PER_TOKEN: Final = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
)


class Histogram:
    """Counts observations by upper bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """``bounds`` ascend."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count ``value``."""
        index = next((i for i, bound in enumerate(self.bounds) if value <= bound), -1)
        self.counts[index] += 1
        self.sum += value


@dataclass(slots=True)
class EngineCounters:
    """Sums over all turns.

    Attributes:
        finished: turns by how they ended: a finish reason, or ``error``.
        rejected: requests refused because too many waited.
        crashes: how often the engine's process died.
        prompt_tokens: of all prompts.
        cached_tokens: how many of them were in the context already.
        generated_tokens: of all answers.
        read_bytes: expert bytes read, prompts included.
        hits: routed experts found in the cache while decoding.
        misses: routed experts read while decoding.
        drafts: decodes that verified a draft.
        drafted: tokens drafted.
        accepted: tokens confirmed out of them.
        accepted_at: the same by position in the draft, from 0.
        queue_s: time that requests waited for the engine.
        first_token_s: from there to the first token.
        per_token_s: mean time per further token, a turn each.
        turn_s: from taking the engine to the end.
    """

    finished: Counter[str] = field(default_factory=Counter)
    rejected: int = 0
    crashes: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    read_bytes: int = 0
    hits: int = 0
    misses: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    accepted_at: Counter[int] = field(default_factory=Counter)
    queue_s: Histogram = field(default_factory=lambda: Histogram(_LATENCY))
    first_token_s: Histogram = field(default_factory=lambda: Histogram(_LATENCY))
    per_token_s: Histogram = field(default_factory=lambda: Histogram(_PER_TOKEN))
    turn_s: Histogram = field(default_factory=lambda: Histogram(_LATENCY))

    def add(self, summary: Mapping[str, Any], reason: str) -> None:
        """A turn that ended in its own way."""
        self.finished[reason] += 1
        self.prompt_tokens += summary["prompt_tokens"]
        self.cached_tokens += summary["reused_tokens"]
        self.generated_tokens += summary["generated_tokens"]
        self.read_bytes += summary["read_bytes"] + summary["prefill_read_bytes"]
        self.hits += summary["hits"]
        self.misses += summary["misses"]
        if summary["decoded_tokens"]:
            self.per_token_s.observe(summary["decode_s"] / summary["decoded_tokens"])
        drafting = summary["speculation"]
        if drafting is not None:
            self.drafts += drafting["drafted_steps"]
            self.drafted += drafting["drafted"]
            self.accepted += drafting["accepted"]
            self.accepted_at.update(dict(enumerate(drafting["accepted_at"])))
