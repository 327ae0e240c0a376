"""Made-up sessions, generations and tokens."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from moestream.config import EngineConfig
from moestream.engine.events import GenerationSummary, SpeculationSummary, TokenEvent, TokenMetrics
from moestream.engine.report import LoadReport, ThreadTiming
from moestream.telemetry.preamble import SessionInfo

MIB = 2**20

SUMMARY = GenerationSummary(
    finish_reason="length",
    prompt_tokens=20,
    reused_tokens=5,
    generated_tokens=11,
    prefill_s=0.5,
    decode_s=2.0,
    read_bytes=100 * MIB,
    prefill_read_bytes=7 * MIB,
    hits=900,
    misses=100,
    dropped=0,
    routed=1000,
    evictions=3,
    rereads=2,
    stall_s=0.5,
    io_s=0.8,
    loop_overhead_s=0.01,
    cpu_s=3.5,
    majflt=0,
    guard_loads=0,
)


def report(**changes: Any) -> LoadReport:
    values: dict[str, Any] = dict.fromkeys((f.name for f in fields(LoadReport)), 0)
    values.update(
        model="m",
        paths=(Path("m.gguf"),),
        arch="qwen35moe",
        description="",
        threads=2,
        thread_timings=(ThreadTiming(1, 9.0), ThreadTiming(2, 5.0)),
        streamed=True,
        overlap=True,
        mover="move",
        direct_io=True,
        io_threads=2,
        dense_weights="anon",
        repack=False,
        cache_bytes=300 * MIB,
        cache_retains=True,
        cache_auto=True,
        cache_limited_by="memory",
        cache_ceiling_bytes=None,
        available_bytes=None,
        dense_bytes=100 * MIB,
        expert_bytes=2**30,
        token_demand_bytes=50 * MIB,
        layer_demand_bytes=5 * MIB // 2,
        load_read_bytes=None,
        notes=(),
        warnings=(),
    )
    values.update(changes)
    return LoadReport(**values)


def drafting(**changes: Any) -> SpeculationSummary:
    values: dict[str, Any] = {
        "source": "mtp",
        "width": 3,
        "steps": 5,
        "drafted_steps": 4,
        "drafted": 10,
        "accepted": 5,
        "draft_s": 0.25,
        "draft_read_bytes": 3 * MIB,
        "offered_at": (4, 3, 2),
        "accepted_at": (3, 2, 0),
        "synthetic": False,
    }
    return SpeculationSummary(**(values | changes))


def metrics(**changes: Any) -> TokenMetrics:
    values: dict[str, Any] = {
        "phase": "decode",
        "rows": 1,
        "wall_ms": 2.0,
        "stall_ms": 0.5,
        "compute_ms": 1.5,
        "io_ms": 0.8,
        "loop_overhead_ms": 0.25,
        "cpu_ms": 1.75,
        "majflt": 3,
        "read_bytes": 4096,
        "hits": 3,
        "misses": 1,
        "dropped": 0,
        "routed": 4,
        "evictions": 1,
        "rereads": 1,
        "guard_loads": 0,
        "mgmt_ms": 0.125,
    }
    return TokenMetrics(**(values | changes))


def event(index: int = 1, **changes: Any) -> TokenEvent:
    """A token; fields of its metrics are taken as such."""
    own = {f.name for f in fields(TokenEvent)}
    values: dict[str, Any] = {
        "text": "a",
        "token_id": 5,
        "index": index,
        "position": 10 + index,
        "finish_reason": None,
        "tok_s": 100.0 if index else None,
    }
    values |= {name: value for name, value in changes.items() if name in own}
    inner = {name: value for name, value in changes.items() if name not in own}
    if index == 0:
        inner = {"phase": "prefill", "rows": 10} | inner
    return TokenEvent(metrics=metrics(**inner), **values)


def session_info(config: EngineConfig | None = None, **changes: Any) -> SessionInfo:
    """A session; changes are of its report."""
    return SessionInfo(
        report=report(**changes),
        config=EngineConfig() if config is None else config,
        version="1.2.3",
        llama_cpp_python="0.0.1",
        started="2030-01-02T03:04:05+00:00",
    )
