"""A turn's summary as llama.cpp's server words it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["timings_of"]


def timings_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """``timings``: milliseconds, tokens a second, drafts.

    As there, ``prompt_n`` counts what was evaluated, without what the context held already
    (``cache_n``). The first token falls out of the prompt, so ``predicted_ms`` is the time of
    all others.
    """
    evaluated = summary["prompt_tokens"] - summary["reused_tokens"]
    generated = summary["generated_tokens"]
    prompt_ms, predicted_ms = 1e3 * summary["prefill_s"], 1e3 * summary["decode_s"]
    decoded = summary["decoded_tokens"]
    drafting = summary["speculation"] or {}
    return {
        "cache_n": summary["reused_tokens"],
        "prompt_n": evaluated,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / evaluated if evaluated else None,
        "prompt_per_second": summary["prefill_tok_s"],
        "predicted_n": generated,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / decoded if decoded else None,
        "predicted_per_second": summary["tok_s"],
        "draft_n": drafting.get("drafted", 0),
        "draft_n_accepted": drafting.get("accepted", 0),
    }
