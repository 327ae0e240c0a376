"""Runs one cell of a comparison in a process of its own and prints what it measured as JSON.

    python -m benchmarks.cell '{"kind": "streamed", "model": ..., ...}'

Not meant to be called by hand: benchmarks.streaming and others do.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

PROMPT = list(range(300, 316))


def majflt() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def plain(spec: dict[str, Any]) -> dict[str, Any]:
    from benchmarks.plain import PlainModel

    started = time.perf_counter()
    model = PlainModel(
        spec["model"],
        mmap=spec["mmap"],
        repack=spec.get("repack", False),
        threads=spec["threads"],
        n_ctx=spec["n_ctx"],
        n_ubatch=spec["n_ubatch"],
    )
    load_s = time.perf_counter() - started
    faults_before = majflt()
    started = time.perf_counter()
    token = model.prefill(PROMPT)
    prefill_s = time.perf_counter() - started
    faults_prefill = majflt()
    times, tokens = [], [token]
    for next_token, seconds in model.generate(token, len(PROMPT)):
        times.append(1e3 * seconds)
        tokens.append(next_token)
        if len(times) == spec["tokens"] - 1:
            break
    return {
        "load_s": load_s,
        "prefill_s": prefill_s,
        "ms": times,
        "majflt_per_token": (majflt() - faults_prefill) / len(times),
        "majflt_prefill": faults_prefill - faults_before,
        "tokens": tokens,
    }


def streamed(spec: dict[str, Any]) -> dict[str, Any]:
    from moestream import EngineConfig, Session, StreamingConfig

    config = EngineConfig(
        model=spec["model"],
        n_ctx=spec["n_ctx"],
        n_ubatch=spec["n_ubatch"],
        threads=spec["threads"],
        streaming=StreamingConfig(**spec.get("streaming", {})),
    )
    started = time.perf_counter()
    with Session(config) as session:
        load_s = time.perf_counter() - started
        started = time.perf_counter()
        times, tokens, stalls, read, overhead = [], [], [], [], []
        faults = 0
        prefill_s = 0.0
        for event in session.generate(PROMPT, max_tokens=spec["tokens"]):
            now = time.perf_counter()
            tokens.append(event.token_id)
            if event.index == 0:
                prefill_s = now - started
                faults = majflt()
            else:
                times.append(1e3 * (now - started))
                stalls.append(event.metrics.stall_ms)
                read.append(event.metrics.read_bytes)
                overhead.append(event.metrics.loop_overhead_ms)
            started = now
        summary = session.last_summary
        report = session.load_report
        assert summary is not None
        return {
            "load_s": load_s,
            "load_expert_bytes": report.load_expert_bytes,
            "load_read_bytes": report.load_read_bytes,
            "prefill_s": prefill_s,
            "ms": times,
            "majflt_per_token": (majflt() - faults) / max(len(times), 1),
            "stall_ms": stalls,
            "read_bytes": read,
            "overhead_ms": overhead,
            "hit_pct": 100.0 * summary.hits / max(summary.hits + summary.misses, 1),
            "guard_loads": summary.guard_loads,
            "cache_mib": report.cache_bytes / 2**20,
            "dense_mib": report.dense_bytes / 2**20,
            "mover": report.mover,
            "threads": report.threads,
            "tokens": tokens,
        }


def disk(spec: dict[str, Any]) -> dict[str, Any]:
    """Random direct reads of slice size from the expert tensors, ``lanes`` at once."""
    from pathlib import Path

    from moestream.gguf import read_model
    from moestream.models.diskrate import FileRange, measure_disk
    from moestream.streaming.layout import expert_layout

    model = read_model(spec["model"])
    tensors = expert_layout(model).tensors
    ranges = [FileRange(t.shard, t.offset, t.nbytes) for t in tensors]
    measured = measure_disk(
        [Path(p) for p in model.paths],
        ranges,
        read_bytes=max(t.stride for t in tensors),
        lanes=(spec["lanes"],),
        seconds=3.0,
    )
    return {"bytes_per_s": measured.rates[0].bytes_per_s, "direct": measured.direct}


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    result = {"plain": plain, "streamed": streamed, "disk": disk}[job["kind"]](job)
    print(json.dumps(result))
