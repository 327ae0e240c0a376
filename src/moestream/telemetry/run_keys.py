"""The keys of a recording's preamble and of its trailer."""

from __future__ import annotations

from typing import Final

from moestream.telemetry.column import Column

__all__ = ["DONE_KEYS", "PREAMBLE_KEYS"]

_RESIDENT: Final = "nothing is streamed"
_OFF: Final = "nothing is drafted"
_NOT_MTP: Final = "the draft source is not mtp"
_NOT_NGRAM: Final = "the draft source is not ngram"
_GREEDY: Final = "Ignored where temp is 0."
_NO_DECODE: Final = "no token was decoded after a turn's first"
_SEVERAL: Final = "the line covers the whole session"


def _flag(name: str, meaning: str, unmeasured: str = "") -> Column:
    return Column(name, "", meaning, unmeasured, "flag")


def _text(name: str, meaning: str, unmeasured: str = "") -> Column:
    return Column(name, "", meaning, unmeasured, "text")


def _real(name: str, meaning: str, unmeasured: str = "", unit: str = "", digits: int = 4) -> Column:
    return Column(name, unit, meaning, unmeasured, "float", digits)


def _mib(name: str, meaning: str, unmeasured: str = "") -> Column:
    return _real(name, meaning, unmeasured, "MiB", 3)


def _seconds(name: str, meaning: str, unmeasured: str = "") -> Column:
    return _real(name, meaning, unmeasured, "s", 6)


def _each(name: str, meaning: str, unmeasured: str = "") -> Column:
    """Seconds per decoded token."""
    why = f"{_NO_DECODE}; or {unmeasured}" if unmeasured else _NO_DECODE
    return _real(f"{name}_s/tok", meaning, why, "s/token", 8)


PREAMBLE_KEYS: Final[tuple[Column, ...]] = (
    _text("engine_version", "Version of moestream."),
    _text("llama_cpp_python", "Version of the llama-cpp-python it ran with.", "it is not known"),
    _text("started", "When the recording began: UTC, ISO 8601."),
    _text("model", "Name that the model gives itself."),
    _text("arch", "Architecture."),
    Column("n_layer", "", "Trunk layers."),
    Column("n_expert", "", "Experts per layer; 0 for a dense model."),
    Column("n_expert_used", "", "Experts per token and layer, any override applied."),
    Column("threads", "", "Compute threads."),
    Column("n_ctx", "tokens", "Context window."),
    Column("n_ubatch", "tokens", "Width of a prefill step."),
    _flag("moe_stream", "Whether experts are read as they are routed."),
    _mib("cache_mb", "Expert cache; 0 keeps nothing from one layer to the next.", _RESIDENT),
    _flag("cache_auto", "Whether the cache was sized from available memory.", _RESIDENT),
    Column("cache_ceil_mb", "MiB", "Upper bound that an auto cache was given.", "there was none"),
    Column("io_threads", "", "Read lanes.", _RESIDENT),
    _flag("o_direct", "Whether reads bypass the page cache.", _RESIDENT),
    _flag("overlap", "Whether compute runs while bytes are read.", _RESIDENT),
    Column("prefetch", "layers", "Layers read ahead; 0 is off.", _RESIDENT),
    _text("dense_weights", "How the non-expert weights are held: mmap, warm or anon."),
    _real("drop_cold_frac", "Threshold of cold-expert dropping (lossy); 0 is off.", _RESIDENT),
    _real("temp", "Temperature; 0 is greedy."),
    Column("top_k", "", f"Likeliest tokens to choose from; 0 is all. {_GREEDY}"),
    _real("top_p", f"Likeliest tokens that sum to this are chosen from. {_GREEDY}"),
    Column("seed", "", f"Seed of the sampler. {_GREEDY}", "a new one each turn"),
    _text("spec", "Draft source: off, mtp or ngram."),
    Column("spec_draft_max", "tokens", "Most tokens drafted a step.", _OFF),
    _real("mtp_p_min", "Drafting stops below this probability of the head.", _NOT_MTP),
    Column("ngram_min_match", "tokens", "Shortest match that drafts.", _NOT_NGRAM),
    Column("ngram_max_match", "tokens", "Longest match looked for.", _NOT_NGRAM),
    _real(
        "synthetic_acceptance",
        "Probability with which drafts were confirmed whatever the model said. The text is not "
        "the model's then: only costs can be compared.",
        "the model decided",
    ),
    _flag("traced", "Whether routing was traced as well: 1 is not a benchmark run."),
    _real("min_p", f"Tokens below this times the likeliest are left out. {_GREEDY}"),
    _real("repeat_penalty", f"Penalty on tokens seen lately; 1 is off. {_GREEDY}"),
    _text("model_file", "File name of the model; of a split one the first shard."),
    Column("n_layer_nextn", "", "Next-token-prediction layers in the file."),
    _flag("drop_in_prefill", "Whether cold experts are dropped in the prompt too.", _RESIDENT),
    _flag("repack", "Whether dense weights were rearranged for faster kernels."),
    _text("mover", "How bytes become present: move, copy or inplace.", _RESIDENT),
    _mib("dense_mib", "Everything but the experts."),
    _mib("expert_mib", "All experts."),
    _mib("token_demand_mib", "Experts that one token routes, over all layers.", _RESIDENT),
    _mib("layer_demand_mib", "Experts that one token routes in the neediest layer.", _RESIDENT),
    _mib("kv_mib", "KV cache."),
    _mib("recurrent_mib", "Recurrent state, snapshots left out."),
    _mib("compute_mib", "llama.cpp's compute and output buffers."),
    _mib("snapshot_mib", "Snapshots of the recurrent state, to rewind rejected drafts to."),
    _mib("draft_kv_mib", "KV cache of the draft context."),
    _mib("draft_compute_mib", "Compute and output buffers of the draft context."),
    _mib("draft_dense_mib", "Non-expert weights of the MTP block."),
    _seconds("load_s", "Time until the model was loaded."),
    _seconds("open_s", "Time until the session was ready."),
)

DONE_KEYS: Final[tuple[Column, ...]] = (
    Column("turn", "", "Running number of the turn within the session, from 0.", _SEVERAL),
    Column("turns", "", "Turns that the line covers."),
    _text(
        "finish_reason",
        "What ended the last turn: stop (the model), length (the limit) or cancelled.",
        "it was abandoned or failed",
    ),
    Column("prompt_tokens", "tokens", "Tokens of the prompts."),
    Column("reused_tokens", "tokens", "How many of them were in the context already."),
    Column("generated_tokens", "tokens", "Tokens generated."),
    Column("decoded_tokens", "tokens", "Tokens decoded after the prefill: all but a turn's first."),
    _seconds("prefill_s", "Time to evaluate what was new of the prompts."),
    Column("prefill_read_bytes", "bytes", "Bytes of experts read for it.", _RESIDENT),
    _seconds("decode_s", "Time from the first token to the last, as the caller saw it."),
    _real("tok_s", "Effective rate: decoded_tokens over decode_s.", _NO_DECODE, "tokens/s"),
    _real(
        "decode_tok_s",
        "Rate inside llama.cpp alone, which leaves out drafting, choosing and text. Other programs "
        "report this one; nobody experiences it.",
        _NO_DECODE,
        "tokens/s",
    ),
    _each("wall", "Time inside llama.cpp's decode."),
    _each("stall", "Time in which compute waited for bytes (see stall_ms).", _RESIDENT),
    _each("io", "Time inside read calls, summed over lanes.", _RESIDENT),
    _each("mgmt", "Time spent making pages present or taking them away.", _RESIDENT),
    _each("loop_overhead", "Time between decodes, drafting included."),
    _each("mtp_draft", "Time spent on drafting and on catching up the draft source."),
    _each("cpu", "CPU time of the process during decodes.", "the platform does not count it"),
    _real(
        "majflt/tok",
        "Major page faults during decodes.",
        f"{_NO_DECODE}; or the platform does not count them",
        "1/token",
    ),
    _real("read_mib/tok", "Experts read.", f"{_NO_DECODE}; or {_RESIDENT}", "MiB/token", 6),
    Column("read_bytes", "bytes", "Bytes of experts read by decodes.", _RESIDENT),
    _real(
        "cache_hit_pct",
        "Share of the routed experts that were in the cache, counted once a layer.",
        "nothing was routed",
        "%",
        3,
    ),
    Column("hits", "", "Routed experts that were in the cache, counted once a layer.", _RESIDENT),
    Column("misses", "", "Routed experts that had to be read.", _RESIDENT),
    Column("routed", "", "Routings seen: one per token, layer and slot.", _RESIDENT),
    Column("dropped", "", "Routings skipped by cold-expert dropping (lossy).", _RESIDENT),
    Column("evictions", "", "Experts evicted from the cache.", _RESIDENT),
    Column("rereads", "", "Misses on experts that had been in the cache before.", _RESIDENT),
    Column(
        "guard_loads",
        "",
        "Reads that nobody had queued before compute touched the bytes, prefill included.",
        _RESIDENT,
    ),
    _mib("token_demand_mib", "Experts that one token routes, over all layers.", _RESIDENT),
    _mib("layer_demand_mib", "Experts that one token routes in the neediest layer.", _RESIDENT),
    Column("mtp_drafted", "tokens", "Tokens drafted and verified, by whichever source."),
    Column("mtp_accepted", "tokens", "Tokens confirmed out of them."),
    Column("mtp_decodes", "", "Decodes after the prefill, with a draft or without."),
    Column("drafted_steps", "", "Decodes that verified a draft."),
    _real("mtp_accept_pct", "mtp_accepted out of mtp_drafted.", "nothing was drafted", "%", 3),
    _real(
        "mtp_tok/verify",
        "Tokens that a decode with a draft confirmed, the free one included.",
        "nothing was drafted",
    ),
    _real("mtp_coverage_pct", "drafted_steps out of mtp_decodes.", _OFF, "%", 3),
    Column(
        "mtp_draft_read_bytes",
        "bytes",
        "Bytes of experts read while drafting; part of read_bytes.",
        _RESIDENT,
    ),
    Column(
        "mtp_offered_at",
        "",
        "How often a draft reached each position, all positions before it confirmed.",
        _OFF,
        "counts",
    ),
    Column("mtp_accepted_at", "", "How often the position was confirmed then.", _OFF, "counts"),
    _flag(
        "synthetic",
        "Whether acceptance was forced for a benchmark: the text is not the model's then.",
    ),
    _real("temp", "Temperature of the turn; a chat can change it.", _SEVERAL),
    Column("top_k", "", f"Likeliest tokens to choose from; 0 is all. {_GREEDY}", _SEVERAL),
    _real("top_p", f"Likeliest tokens that sum to this are chosen from. {_GREEDY}", _SEVERAL),
    Column("seed", "", f"Seed of the sampler. {_GREEDY}", f"a new one each turn; or {_SEVERAL}"),
)
