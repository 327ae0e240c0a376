"""What a session found and decided when it opened, with every ``auto`` resolved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from moestream.config import DenseWeights

__all__ = ["LoadReport", "ThreadTiming"]


@dataclass(frozen=True, slots=True)
class ThreadTiming:
    """The best time of one decode with this many threads."""

    threads: int
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """Everything about an open session that does not change any more.

    Attributes:
        model: name that the model gives itself.
        paths: its files.
        arch: its architecture.
        description: llama.cpp's words for it.
        n_layer: trunk layers.
        n_layer_nextn: next-token-prediction layers (not loaded unless they are used).
        n_expert: experts per layer, 0 for a dense model.
        n_expert_used: experts per token, any override applied.
        n_vocab: entries of the vocabulary.
        n_ctx_train: context the model was trained with.
        n_ctx: context of this session.
        n_ubatch: tokens per prefill step.
        threads: compute threads.
        thread_timings: what was measured to choose them; empty if they were given.
        streamed: whether experts are read as they are routed.
        overlap: whether compute runs while they are read.
        mover: how bytes become present.
        direct_io: whether reads bypass the page cache.
        io_threads: read lanes.
        prefetch: layers read ahead.
        drop_cold_experts: threshold of the lossy dropping, 0 for none.
        dense_weights: how everything but the experts is held.
        repack: whether dense weights were rearranged for speed.
        cache_bytes: budget for experts; 0 for a resident model.
        cache_retains: whether experts stay for later tokens.
        cache_auto: whether the budget was sized automatically.
        cache_limited_by: what decided an automatic size: memory, ceiling or model.
        cache_ceiling_bytes: the ceiling that was given.
        available_bytes: memory available when the cache was sized.
        floor_bytes: part of it that is left alone.
        reserved_bytes: part of it that was promised but not touched yet.
        dense_bytes: of everything but the experts.
        expert_bytes: of all experts.
        expert_max_bytes: of the largest expert.
        token_demand_bytes: of the experts that one token routes.
        layer_demand_bytes: of the experts that one token routes in the neediest layer.
        kv_bytes: of the KV cache.
        recurrent_bytes: of the recurrent state.
        compute_bytes: of llama.cpp's compute and output buffers.
        snapshot_bytes: of the copies of the recurrent state that speculation goes back to.
        draft_kv_bytes: of the draft context's KV cache.
        draft_compute_bytes: of its compute and output buffers.
        draft_dense_bytes: of the multi-token-prediction block, without its experts.
        load_s: time until the model was loaded.
        open_s: time until the session was ready.
        load_read_bytes: bytes this process read during the load, ``None`` if not measured.
        load_expert_bytes: of them, bytes of experts.
        notes: decisions, in words.
        warnings: what will hurt, in words.
    """

    model: str
    paths: tuple[Path, ...]
    arch: str
    description: str
    n_layer: int
    n_layer_nextn: int
    n_expert: int
    n_expert_used: int
    n_vocab: int
    n_ctx_train: int
    n_ctx: int
    n_ubatch: int
    threads: int
    thread_timings: tuple[ThreadTiming, ...]
    streamed: bool
    overlap: bool
    mover: str
    direct_io: bool
    io_threads: int
    prefetch: int
    drop_cold_experts: float
    dense_weights: DenseWeights
    repack: bool
    cache_bytes: int
    cache_retains: bool
    cache_auto: bool
    cache_limited_by: str | None
    cache_ceiling_bytes: int | None
    available_bytes: int | None
    floor_bytes: int
    reserved_bytes: int
    dense_bytes: int
    expert_bytes: int
    expert_max_bytes: int
    token_demand_bytes: int
    layer_demand_bytes: int
    kv_bytes: int
    recurrent_bytes: int
    compute_bytes: int
    snapshot_bytes: int
    draft_kv_bytes: int
    draft_compute_bytes: int
    draft_dense_bytes: int
    load_s: float
    open_s: float
    load_read_bytes: int | None
    load_expert_bytes: int
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
