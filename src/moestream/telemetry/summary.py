"""A finished generation in words for people, and as plain numbers for programs: one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moestream.engine.events import GenerationSummary, SpeculationSummary
    from moestream.engine.report import LoadReport

__all__ = ["SYNTHETIC", "load_line", "load_numbers", "summary_lines", "summary_numbers"]

_MIB = 2**20

#: What has to be said of a run whose acceptance was forced.
SYNTHETIC = "synthetic acceptance: the text is not the model's"


def load_line(report: LoadReport) -> str:
    """One line about an open session."""
    if report.streamed:
        how = (
            f"dense {_size(report.dense_bytes)} in memory, experts {_size(report.expert_bytes)} "
            "on disk"
        )
    else:
        how = f"{_size(report.dense_bytes + report.expert_bytes)}, all in memory"
    return f"{report.model} ({report.arch}): {how}; ready in {report.open_s:.1f} s"


def summary_lines(summary: GenerationSummary, report: LoadReport) -> list[str]:
    """The summary that ``run`` prints after the text, a line a topic."""
    rows = [("prompt", _prompt(summary)), ("generated", _generated(summary))]
    if summary.decoded_tokens:
        rows.append(("per token", _per_token(summary, report)))
    drafting = summary.speculation
    if drafting is not None:
        if drafting.synthetic:
            rows.insert(0, ("WARNING", f"{SYNTHETIC}; only costs can be compared"))
        rows += [(drafting.source, text) for text in _speculation(summary, drafting, report)]
    if report.streamed:
        rows += [("experts", _experts(summary, report)), ("reading", _reading(report))]
    else:
        rows.append(("experts", "all in memory, nothing streamed"))
    rows.append(("threads", _threads(report)))
    return [f"{name:<10} {text}" for name, text in rows]


def _prompt(summary: GenerationSummary) -> str:
    text = f"{summary.prompt_tokens} tokens"
    if summary.reused_tokens:
        text += f", {summary.reused_tokens} of them reused"
    if summary.prefill_tok_s is not None:
        text += f"; {summary.prefill_tok_s:.1f} tok/s, first token after {summary.prefill_s:.2f} s"
    if summary.prefill_read_bytes:
        text += f", {_size(summary.prefill_read_bytes)} read"
    return text


def _generated(summary: GenerationSummary) -> str:
    text = f"{summary.generated_tokens} tokens"
    if summary.tok_s is not None:
        text += f"; {summary.tok_s:.2f} tok/s"
    if summary.finish_reason is not None:
        text += f" (ended by {_REASONS[summary.finish_reason]})"
    return text


_REASONS = {"stop": "the model", "length": "the limit", "cancelled": "interrupt"}


def _per_token(summary: GenerationSummary, report: LoadReport) -> str:
    count = summary.decoded_tokens
    total = 1e3 * summary.decode_s / count
    stall = 1e3 * summary.stall_s / count
    other = 1e3 * summary.loop_overhead_s / count
    compute = max(total - stall - other, 0.0)
    drafting = 0.0 if summary.speculation is None else 1e3 * summary.speculation.draft_s / count
    text = f"{total:.1f} ms: compute {compute:.1f}, "
    if report.streamed:
        text += f"stall {'up to ' if report.overlap else ''}{stall:.1f}, "
    if summary.speculation is not None:
        text += f"drafting {drafting:.2f}, "
    text += f"other {max(other - drafting, 0.0):.2f}"
    if report.streamed:
        text += f"; reads took {1e3 * summary.io_s / count:.1f} over all lanes"
    if summary.cpu_s is not None:
        text += f"; CPU {1e3 * summary.cpu_s / count:.1f} ms"
    if summary.majflt:
        text += f"; {summary.majflt / count:.1f} major faults"
    return text


def _speculation(
    summary: GenerationSummary, drafting: SpeculationSummary, report: LoadReport
) -> list[str]:
    lines = [_acceptance(summary, drafting)]
    if summary.decoded_tokens:
        lines.append(_rates(summary, drafting))
    if drafting.source == "mtp" and report.streamed and summary.read_bytes:
        lines.append(_flash_split(summary, drafting))
    if drafting.source == "ngram" and drafting.coverage_pct is not None:
        lines.append(
            f"drafted on {drafting.drafted_steps} of {drafting.steps} steps "
            f"({drafting.coverage_pct:.1f} %)"
        )
    lines.append(_draft_memory(drafting, report))
    return lines


def _acceptance(summary: GenerationSummary, drafting: SpeculationSummary) -> str:
    if drafting.acceptance_pct is None or drafting.tokens_per_verify is None:
        text = "nothing was drafted"
    else:
        text = (
            f"{drafting.accepted}/{drafting.drafted} drafts accepted "
            f"({drafting.acceptance_pct:.1f} %), {drafting.tokens_per_verify:.2f} tokens per "
            "verify decode"
        )
    if drafting.synthetic:
        text += " (synthetic)"
    return f"{text}, {drafting.steps} decodes for {summary.decoded_tokens} tokens"


def _rates(summary: GenerationSummary, drafting: SpeculationSummary) -> str:
    text = f"drafting {1e3 * drafting.draft_s / summary.decoded_tokens:.2f} ms/token"
    if summary.tok_s is not None:
        text += f"; effective {summary.tok_s:.2f} tok/s"
        if summary.decode_tok_s is not None:
            text += f" ({summary.decode_tok_s:.2f} in decodes alone)"
    return text


def _flash_split(summary: GenerationSummary, drafting: SpeculationSummary) -> str:
    head = drafting.draft_read_bytes
    return (
        f"of {summary.read_bytes / _MIB:.1f} MiB streamed, {head / _MIB:.1f} "
        f"({100 * head / summary.read_bytes:.1f} %) while drafting, "
        f"{(summary.read_bytes - head) / _MIB:.1f} by the decodes"
    )


def _draft_memory(drafting: SpeculationSummary, report: LoadReport) -> str:
    text = f"memory: snapshots {_size(report.snapshot_bytes)}"
    if drafting.source == "mtp":
        text += (
            f", draft context {_size(report.draft_kv_bytes + report.draft_compute_bytes)} "
            f"(KV {_size(report.draft_kv_bytes)}, compute {_size(report.draft_compute_bytes)}), "
            f"the head's dense weights {_size(report.draft_dense_bytes)}"
        )
    return f"{text}; compute buffers of the model {_size(report.compute_bytes)}"


def _experts(summary: GenerationSummary, report: LoadReport) -> str:
    parts = []
    if summary.hit_pct is not None:
        parts.append(f"hit rate {summary.hit_pct:.1f} %")
    if summary.mib_per_token is not None:
        parts.append(
            f"{summary.mib_per_token:.2f} MiB/token read of "
            f"{report.token_demand_bytes / _MIB:.2f} routed "
            f"({report.layer_demand_bytes / _MIB:.2f} in the neediest layer)"
        )
    if summary.evictions:
        parts.append(f"{summary.evictions} evictions, {summary.rereads} re-reads")
    if summary.dropped and summary.routed:
        parts.append(f"{100 * summary.dropped / summary.routed:.1f} % of routings dropped (lossy)")
    memory = f"{_size(report.cache_bytes)} of memory for {_size(report.expert_bytes)} of experts"
    if report.cache_auto and report.cache_limited_by:
        memory += f" (auto, limited by {report.cache_limited_by})"
    elif not report.cache_retains:
        memory += " (no cache)"
    parts.append(memory)
    if summary.guard_loads:
        parts.append(f"{summary.guard_loads} unqueued reads (please report this)")
    return ", ".join(parts)


def _reading(report: LoadReport) -> str:
    parts = [
        report.mover,
        "overlap" if report.overlap else "serial",
        f"{report.io_threads} lane{'s' if report.io_threads != 1 else ''}",
        "direct I/O" if report.direct_io else "page cache",
    ]
    if report.prefetch:
        parts.append(f"prefetch {report.prefetch} layers")
    if report.drop_cold_experts:
        parts.append(f"cold experts below {report.drop_cold_experts:g}/top-k dropped (lossy)")
    parts.append(f"dense weights {report.dense_weights}{', repacked' if report.repack else ''}")
    return ", ".join(parts)


def _threads(report: LoadReport) -> str:
    if not report.thread_timings:
        return f"{report.threads}"
    timings = ", ".join(f"{t.threads}: {t.ms:.1f} ms" for t in report.thread_timings)
    return f"{report.threads} (measured {timings})"


def _size(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / _MIB:.1f} MiB"


def summary_numbers(summary: GenerationSummary) -> dict[str, Any]:
    """The summary as plain JSON types; times in seconds, sizes in bytes."""
    return {
        "finish_reason": summary.finish_reason,
        "prompt_tokens": summary.prompt_tokens,
        "reused_tokens": summary.reused_tokens,
        "generated_tokens": summary.generated_tokens,
        "decoded_tokens": summary.decoded_tokens,
        "prefill_s": summary.prefill_s,
        "prefill_tok_s": summary.prefill_tok_s,
        "decode_s": summary.decode_s,
        "tok_s": summary.tok_s,
        "hit_pct": summary.hit_pct,
        "mib_per_token": summary.mib_per_token,
        "read_bytes": summary.read_bytes,
        "prefill_read_bytes": summary.prefill_read_bytes,
        "hits": summary.hits,
        "misses": summary.misses,
        "dropped": summary.dropped,
        "routed": summary.routed,
        "evictions": summary.evictions,
        "rereads": summary.rereads,
        "stall_s": summary.stall_s,
        "io_s": summary.io_s,
        "loop_overhead_s": summary.loop_overhead_s,
        "cpu_s": summary.cpu_s,
        "majflt": summary.majflt,
        "guard_loads": summary.guard_loads,
        "wall_s": summary.wall_s,
        "decodes": summary.decodes,
        "decode_tok_s": summary.decode_tok_s,
        "speculation": _speculation_numbers(summary.speculation),
    }


def _speculation_numbers(drafting: SpeculationSummary | None) -> dict[str, Any] | None:
    if drafting is None:
        return None
    return {
        "source": drafting.source,
        "width": drafting.width,
        "steps": drafting.steps,
        "drafted_steps": drafting.drafted_steps,
        "drafted": drafting.drafted,
        "accepted": drafting.accepted,
        "acceptance_pct": drafting.acceptance_pct,
        "tokens_per_verify": drafting.tokens_per_verify,
        "coverage_pct": drafting.coverage_pct,
        "draft_s": drafting.draft_s,
        "draft_read_bytes": drafting.draft_read_bytes,
        "offered_at": list(drafting.offered_at),
        "accepted_at": list(drafting.accepted_at),
        "synthetic": drafting.synthetic,
    }


def load_numbers(report: LoadReport) -> dict[str, Any]:
    """The resolved configuration of a session as plain JSON types."""
    return {
        "model": report.model,
        "paths": [str(path) for path in report.paths],
        "arch": report.arch,
        "n_layer": report.n_layer,
        "n_expert": report.n_expert,
        "n_expert_used": report.n_expert_used,
        "n_ctx": report.n_ctx,
        "n_ubatch": report.n_ubatch,
        "threads": report.threads,
        "thread_timings_ms": {str(t.threads): t.ms for t in report.thread_timings},
        "moe_stream": report.streamed,
        "overlap": report.overlap,
        "mover": report.mover,
        "o_direct": report.direct_io,
        "io_threads": report.io_threads,
        "prefetch": report.prefetch,
        "drop_cold_frac": report.drop_cold_experts,
        "dense_weights": report.dense_weights,
        "repack": report.repack,
        "cache_bytes": report.cache_bytes,
        "cache_auto": report.cache_auto,
        "cache_limited_by": report.cache_limited_by,
        "dense_bytes": report.dense_bytes,
        "expert_bytes": report.expert_bytes,
        "token_demand_bytes": report.token_demand_bytes,
        "layer_demand_bytes": report.layer_demand_bytes,
        "kv_bytes": report.kv_bytes,
        "recurrent_bytes": report.recurrent_bytes,
        "compute_bytes": report.compute_bytes,
        "snapshot_bytes": report.snapshot_bytes,
        "draft_kv_bytes": report.draft_kv_bytes,
        "draft_compute_bytes": report.draft_compute_bytes,
        "draft_dense_bytes": report.draft_dense_bytes,
        "load_s": report.load_s,
        "open_s": report.open_s,
        "load_read_bytes": report.load_read_bytes,
        "load_expert_bytes": report.load_expert_bytes,
        "notes": list(report.notes),
        "warnings": list(report.warnings),
    }
