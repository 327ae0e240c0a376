"""What prompt lookup costs per decode: microseconds by corpus and length.

    python -m benchmarks.ngram [--steps 512] [--min-match 3] [--max-match 32] [--save NAME]

A step is one token appended and one proposal. A rollback takes three tokens back, appends them
again and proposes. `find_draft` is the same lookup without an index. "p99" is the step that 1 % are
slower than; the memory is what the index of the whole corpus allocates, its tokens included.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import report
from moestream.speculation.ngram import NgramIndex, find_draft

LENGTHS = (1 << 10, 1 << 14, 1 << 17)
VOCABULARY = 128_000
WIDTH = 8
TAKEN_BACK = 3

Tokens = NDArray[np.int32]


def random_tokens(n: int) -> Tokens:
    """Every token as likely as any other: hardly anything matches."""
    return np.random.default_rng(1).integers(0, VOCABULARY, n, np.int32)


def text_like(n: int) -> Tokens:
    """Token frequencies by Zipf's law, and a tenth of the text quoted from what came before."""
    rng = np.random.default_rng(2)
    weights = 1.0 / np.arange(1, VOCABULARY + 1)
    tokens = rng.choice(VOCABULARY, n, p=weights / weights.sum()).astype(np.int32)
    at = 500
    while at < n:
        length = min(int(rng.integers(5, 60)), n - at)
        source = int(rng.integers(0, at - length))
        tokens[at : at + length] = tokens[source : source + length]
        at += length + int(rng.integers(100, 500))
    return tokens


def constant(n: int) -> Tokens:
    """One token, which matches everywhere and at every length."""
    return np.full(n, 7, np.int32)


def broken_runs(n: int) -> Tokens:
    """A long run of one token, then short ones: matches everywhere, few of full length."""
    rng = np.random.default_rng(3)
    tokens = constant(n)
    breaks = n // 2 + np.cumsum(rng.integers(4, 30, n // 8))
    tokens[breaks[breaks < n]] = 11
    return tokens


CORPORA: dict[str, Callable[[int], Tokens]] = {
    "random": random_tokens,
    "text-like": text_like,
    "constant": constant,
    "broken runs": broken_runs,
}


def microseconds(step: Callable[[], object]) -> float:
    started = time.perf_counter_ns()
    step()
    return (time.perf_counter_ns() - started) / 1e3


def measure(tokens: Tokens, min_match: int, max_match: int, steps: int) -> dict[str, Any]:
    """Times of the last ``steps`` tokens of a corpus, in microseconds."""
    steps = min(steps, len(tokens) // 2)
    index = NgramIndex(min_match, max_match)
    extend_us = microseconds(lambda: index.extend(tokens[:-steps]))
    gc.collect()

    def step(token: int) -> None:
        index.append(token)
        index.propose(WIDTH)

    def roll_back(again: list[int]) -> None:
        index.truncate(len(index) - TAKEN_BACK)
        index.extend(again)
        index.propose(WIDTH)

    step_us, rollback_us, found = [], [], 0
    for token in tokens[-steps:].tolist():
        step_us.append(microseconds(partial(step, token)))
        again = index.tokens[-TAKEN_BACK:].tolist()
        rollback_us.append(microseconds(partial(roll_back, again)))
        found += index.propose(WIDTH) is not None
    settings = {"width": WIDTH, "min_match": min_match, "max_match": max_match}
    if index.propose(WIDTH) != find_draft(tokens, **settings):
        raise SystemExit("the index and find_draft do not agree")
    plain_us = [microseconds(lambda: find_draft(tokens, **settings)) for _ in range(9)]
    return {
        "extend_us": extend_us / (len(tokens) - steps),
        "step_us": step_us,
        "rollback_us": rollback_us,
        "find_draft_us": plain_us,
        "drafted_pct": 100.0 * found / steps,
        "truncate_us": microseconds(lambda: index.truncate(0)) / len(tokens),
    }


def allocated_mib(tokens: Tokens, min_match: int, max_match: int) -> float:
    tracemalloc.start()
    index = NgramIndex(min_match, max_match)
    index.extend(tokens)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--min-match", type=int, default=3)
    parser.add_argument("--max-match", type=int, default=32)
    parser.add_argument("--save", metavar="NAME")
    args = parser.parse_args()

    state = report.entry_state()
    rows: list[list[object]] = []
    raw: dict[str, Any] = {}
    for name, make in CORPORA.items():
        for n in LENGTHS:
            tokens = make(n)
            cell = measure(tokens, args.min_match, args.max_match, args.steps)
            cell["mib"] = allocated_mib(tokens, args.min_match, args.max_match)
            raw[f"{name} {n}"] = cell
            rows.append(
                [
                    name,
                    f"{n // 1024}k",
                    report.median(cell["step_us"]),
                    float(np.percentile(cell["step_us"], 99)),
                    report.median(cell["rollback_us"]),
                    float(np.percentile(cell["rollback_us"], 99)),
                    report.median(cell["find_draft_us"]),
                    cell["drafted_pct"],
                    cell["extend_us"],
                    cell["truncate_us"],
                    cell["mib"],
                ]
            )
    header = [
        "corpus",
        "tokens",
        "step us",
        "step p99",
        f"rollback of {TAKEN_BACK} us",
        "rollback p99",
        "find_draft us",
        "drafted %",
        "extend us/token",
        "truncate us/token",
        "MiB",
    ]
    text = report.markdown(header, rows)
    text += f"\n\nmin_match {args.min_match}, max_match {args.max_match}; {state}"
    report.publish(args.save or "ngram", text, {"state": state, "cells": raw}, save=bool(args.save))


if __name__ == "__main__":
    main()
