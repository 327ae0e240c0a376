"""What each switch does, in one line. Said here once, shown wherever the switch is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moestream.config import MAX_DRAFT, SpeculationConfig

__all__ = ["HELP"]

_DRAFTING = SpeculationConfig()

HELP: Final[Mapping[str, str]] = {
    # ---- self-speculative decoding
    "draft_source": "Who guesses the next tokens, which the model then verifies together.",
    "none": "One token at a time.",
    "mtp": "Draft with the model's own multi-token-prediction head.",
    "ngram": "Draft what followed the same words earlier in the conversation.",
    "draft": f"Most tokens to draft a step, 1 to {MAX_DRAFT}; {_DRAFTING.draft} by default.",
    "mtp_p_min": "Stop drafting where the head is less sure of its proposal than this (0 to 1).",
    "ngram_min_match": f"Draft only where this many tokens match; {_DRAFTING.ngram_min_match} by "
    "default.",
    # ---- expert streaming
    "moe_stream": "Read experts from disk as they are routed, or keep all in memory. Without "
    "either: stream whatever can be streamed.",
    "cache_mb": "Memory for experts in MiB: auto sizes it once from what is available, 0 keeps "
    "nothing from one layer to the next.",
    "cache_ceil_mb": "Upper bound in MiB for an auto cache.",
    "io_threads": "Parallel read lanes.",
    "o_direct": "Read past the page cache; falls back where the filesystem refuses it.",
    "overlap": "Compute while reading. Without either: wherever the platform can.",
    "prefetch": "Layers to read ahead on idle lanes, by the previous token's routing.",
    "dense_weights": "Non-expert weights: left mapped, mapped and read once, or read once into "
    "anonymous memory.",
    "repack": "Rearrange dense weights for llama.cpp's faster kernels (needs anon).",
    "drop_cold_experts": "Lossy: skip a routed expert that is not cached and weighs less than "
    "F/top-k (0 to 1, 0 is off).",
    "drop_in_prefill": "Lossy: drop cold experts in the prompt as well.",
    "n_expert_used": "Experts per token and layer, instead of the model's own top-k.",
    # ---- compute
    "threads": "Compute threads; auto measures at load and takes the fastest.",
    "n_ctx": "Context window in tokens; by default the smaller of the model's and 4096.",
    "n_ubatch": "Prompt tokens per step; by default as many as the expert memory holds.",
    # ---- sampling
    "temperature": "Temperature; 0 is greedy.",
    "top_k": "Keep the N likeliest tokens; 0 is off.",
    "top_p": "Keep the likeliest tokens that sum to F; 1 is off.",
    "min_p": "Drop tokens below F times the likeliest; 0 is off.",
    "repeat_penalty": "Penalty on tokens seen lately; 1 is off.",
    "seed": "Seed of the sampler; by default a new one each time.",
    "max_tokens": "Most tokens to generate; -1 goes on until the model stops or the context is "
    "full.",
    # ---- conversations
    "enable_thinking": "Let a model that reasons aloud do so; passed to chat templates that know "
    "it.",
    "system_prompt": "System message.",
    "record_runs": "Record every answer of the app: settings, a row per token, and a summary.",
}
