"""A model bigger than memory: streamed, against llama.cpp's own mmap in the same cgroup.

    python -m benchmarks.streaming MODEL [--ratio 0.6] [--tokens 64] [--rounds 2] [--save NAME]

Every cell is a process of its own in a fresh memory cgroup of RATIO times the model's size; the
page cache is dropped before each; cells are interleaved, and the order is reversed every other
round. The roofline is what no engine of this kind can beat: a token takes at least its compute time
with everything resident, and at least as long as the disk needs for the bytes it missed.

Needs root, for the cgroup and for dropping the page cache.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.runner import run_cell
from moestream.bench.read_ahead import read_ahead, read_ahead_kib
from moestream.bench.regime import drop_caches


def cells(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    common = {
        "model": args.model,
        "threads": args.threads,
        "tokens": args.tokens,
        "n_ctx": 1024,
        "n_ubatch": 16,
    }
    streamed = {**common, "kind": "streamed"}
    lanes = {"io_threads": args.lanes}
    found: dict[str, dict[str, Any]] = {
        "mmap, device read-ahead": {**common, "kind": "plain", "mmap": True},
        "mmap, read-ahead 128 KiB": {**common, "kind": "plain", "mmap": True, "read_ahead": 128},
        "serial": {**streamed, "streaming": {**lanes, "overlap": False}},
        "overlap": {**streamed, "streaming": {**lanes, "overlap": True}},
        "overlap, prefetch 1": {
            **streamed,
            "streaming": {**lanes, "overlap": True, "prefetch": 1},
        },
        "overlap, repacked dense": {
            **streamed,
            "streaming": {**lanes, "overlap": True, "repack": True},
        },
    }
    if args.only:
        found = {name: spec for name, spec in found.items() if args.only in name}
    if args.skip:
        found = {name: spec for name, spec in found.items() if args.skip not in name}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--ratio", type=float, default=0.6)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--only", help="only cells whose name contains this")
    parser.add_argument("--skip", help="no cells whose name contains this")
    parser.add_argument("--no-resident", action="store_true", help="the model does not fit at all")
    parser.add_argument("--save", metavar="NAME")
    args = parser.parse_args()
    args.model = os.path.abspath(args.model)

    state = report.entry_state()
    size = os.path.getsize(args.model)
    limit = int(size * args.ratio)
    plan = cells(args)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in plan}
    resident: list[dict[str, Any]] = []
    disks: list[float] = []
    for number in range(args.rounds):
        if not args.no_resident:
            spec = {**next(iter(plan.values())), "kind": "plain", "mmap": True}
            resident.append(run_cell(spec))
        drop_caches()
        disk = run_cell({"kind": "disk", "model": args.model, "lanes": args.lanes})
        disks.append(disk["bytes_per_s"])
        for name in list(plan) if number % 2 == 0 else reversed(list(plan)):
            spec = plan[name]
            drop_caches()
            with read_ahead(Path(args.model), spec.get("read_ahead")):
                kib = read_ahead_kib(Path(args.model))
                result = run_cell(spec, limit_bytes=limit)
            result["read_ahead_kib"] = kib
            results[name].append(result)
            print(f"round {number + 1}: {name}: {brief(result)}", flush=True)

    raw = {
        "state": state,
        "arguments": {k: v for k, v in vars(args).items() if k != "model"},
        "model_bytes": size,
        "limit_bytes": limit,
        "cells": results,
        "resident": resident,
        "disk_bytes_per_s": disks,
    }
    text = table(raw) + f"\n\n{state}"
    report.publish(args.save or "streaming", text, raw, save=bool(args.save))


def brief(result: dict[str, Any]) -> str:
    if "failed" in result:
        return str(result["failed"])
    return f"{1e3 / mean(result['ms']):.2f} tok/s, load {result['load_s']:.1f} s"


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def steady(values: list[float]) -> list[float]:
    """The second half: the first fills the cache."""
    return values[len(values) // 2 :]


def table(raw: dict[str, Any]) -> str:
    results, resident, disks = raw["cells"], raw["resident"], raw["disk_bytes_per_s"]
    args, size, limit = raw["arguments"], raw["model_bytes"], raw["limit_bytes"]
    floor_ms = report.median([mean(steady(r["ms"])) for r in resident if "ms" in r])
    disk = report.median(disks)
    fair = [r for r in results.get("mmap, read-ahead 128 KiB", []) if "ms" in r]
    fair_ms = report.median([mean(steady(r["ms"])) for r in fair])
    fair_load = report.median([r["load_s"] + r["prefill_s"] for r in fair])
    rows: list[list[object]] = []
    for name in results:
        good = [r for r in results[name] if "ms" in r]
        if not good:
            rows.append([name, results[name][0]["failed"], *[""] * 10])
            continue
        whole = [1e3 / mean(r["ms"]) for r in good]
        late = report.median([mean(steady(r["ms"])) for r in good])
        missed = report.median([mean(steady(r["read_bytes"])) for r in good if "read_bytes" in r])
        best_ms = max(floor_ms, 1e3 * missed / disk)
        rows.append(
            [
                name,
                report.median(whole),
                1e3 / late,
                fair_ms / late,
                best_ms / late,
                report.median([r["load_s"] for r in good]),
                fair_load / report.median([r["load_s"] + r["prefill_s"] for r in good]),
                report.median([r["majflt_per_token"] for r in good]),
                report.median([r.get("hit_pct", float("nan")) for r in good]),
                missed / 2**20,
                report.median([r["peak_bytes"] / limit for r in good]),
                report.spread([mean(steady(r["ms"])) for r in good]),
            ]
        )
    header = [
        "cell",
        "tok/s",
        "tok/s steady",
        "x fair mmap",
        "of roofline",
        "load s",
        "load+prefill x fair mmap",
        "majflt/token",
        "hit %",
        "MiB/token",
        "peak / limit",
        "spread",
    ]
    return (
        f"model {size / 2**30:.2f} GiB, cgroup {limit / 2**30:.2f} GiB "
        f"({args['ratio']} x), {args['threads']} threads, {args['lanes']} lanes, "
        f"{args['tokens']} tokens, {args['rounds']} rounds\n"
        f"resident, everything in memory: {floor_ms:.1f} ms a token (steady); "
        f"disk: {disk / 2**20:.0f} MiB/s random reads\n"
        f"device read-ahead: {next(iter(results.values()))[0].get('read_ahead_kib')} KiB\n\n"
        + report.markdown(header, rows)
    )


if __name__ == "__main__":
    main()
