"""Sums over the decodes of a generation."""

from __future__ import annotations

from moestream.engine.events import (
    FinishReason,
    GenerationSummary,
    SpeculationSummary,
    TokenMetrics,
)

__all__ = ["MetricsTally"]


class MetricsTally:
    """Running sums, so that a long generation keeps no list of its past."""

    __slots__ = (
        "cpu_ms", "decodes", "draft_ms", "draft_read_bytes", "dropped", "evictions", "guard_loads",
        "hits", "io_ms", "loop_overhead_ms", "majflt", "measured", "misses", "prefill",
        "read_bytes", "rereads", "routed", "stall_ms", "wall_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        """Nothing yet."""
        self.prefill: TokenMetrics | None = None
        self.measured = True
        self.decodes = self.majflt = self.read_bytes = self.draft_read_bytes = 0
        self.hits = self.misses = self.dropped = self.routed = 0
        self.evictions = self.rereads = self.guard_loads = 0
        self.cpu_ms = self.io_ms = self.loop_overhead_ms = self.stall_ms = 0.0
        self.wall_ms = self.draft_ms = 0.0

    def add(self, metrics: TokenMetrics) -> None:
        """Add a decode."""
        self.decodes += 1
        self.read_bytes += metrics.read_bytes
        self.draft_read_bytes += metrics.draft_read_bytes
        self.hits += metrics.hits
        self.misses += metrics.misses
        self.dropped += metrics.dropped
        self.routed += metrics.routed
        self.evictions += metrics.evictions
        self.rereads += metrics.rereads
        self.guard_loads += metrics.guard_loads
        self.io_ms += metrics.io_ms
        self.loop_overhead_ms += metrics.loop_overhead_ms
        self.stall_ms += metrics.stall_ms
        self.wall_ms += metrics.wall_ms
        self.draft_ms += metrics.draft_ms
        if metrics.cpu_ms is None or metrics.majflt is None:
            self.measured = False
        else:
            self.cpu_ms += metrics.cpu_ms
            self.majflt += metrics.majflt

    def summary(
        self,
        *,
        finish_reason: FinishReason | None,
        prompt_tokens: int,
        reused_tokens: int,
        generated_tokens: int,
        prefill_s: float,
        decode_s: float,
        speculation: SpeculationSummary | None = None,
    ) -> GenerationSummary:
        """The generation as a whole: these sums, and what only its driver knows."""
        prefill = self.prefill
        return GenerationSummary(
            finish_reason=finish_reason,
            prompt_tokens=prompt_tokens,
            reused_tokens=reused_tokens,
            generated_tokens=generated_tokens,
            prefill_s=prefill_s,
            decode_s=decode_s,
            read_bytes=self.read_bytes,
            prefill_read_bytes=prefill.read_bytes if prefill is not None else 0,
            hits=self.hits,
            misses=self.misses,
            dropped=self.dropped,
            routed=self.routed,
            evictions=self.evictions,
            rereads=self.rereads,
            stall_s=self.stall_ms / 1e3,
            io_s=self.io_ms / 1e3,
            loop_overhead_s=self.loop_overhead_ms / 1e3,
            cpu_s=self.cpu_ms / 1e3 if self.measured else None,
            majflt=self.majflt if self.measured else None,
            guard_loads=self.guard_loads + (prefill.guard_loads if prefill is not None else 0),
            wall_s=self.wall_ms / 1e3,
            decodes=self.decodes,
            speculation=speculation,
        )
