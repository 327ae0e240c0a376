"""Time that a verify step spends outside llama.cpp: Python, argmax, hand-over of hidden states.

    python -m benchmarks.verify_overhead MODEL [--tokens 64] [--save NAME]

Meant for a model with a vocabulary of about 250,000 entries, where an argmax is not free.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

from benchmarks import report
from moestream import EngineConfig, Session, SpeculationConfig, StreamingConfig
from moestream.llama.batch import Batch
from moestream.llama.context import Context

PROMPT = list(range(300, 316))
CELLS = (
    ("off", SpeculationConfig()),
    ("mtp 1", SpeculationConfig(source="mtp", draft=1)),
    ("mtp 3", SpeculationConfig(source="mtp", draft=3)),
    ("mtp 3, p-min 0.1", SpeculationConfig(source="mtp", draft=3, mtp_p_min=0.1)),
    ("mtp 8", SpeculationConfig(source="mtp", draft=8)),
    ("ngram 3, filled", SpeculationConfig(source="ngram", draft=3, synthetic_acceptance=0.5)),
)


def measure(args: argparse.Namespace, speculation: SpeculationConfig) -> dict[str, Any]:
    """Per step: wall time, and what of it was not spent in ``llama_decode``."""
    config = EngineConfig(
        model=args.model,
        n_ctx=512,
        n_ubatch=64,
        threads=args.threads,
        streaming=StreamingConfig(cache_mb=args.cache_mb),
        speculation=speculation,
    )
    inside = 0.0
    plain_decode = Context.decode

    def timed(context: Context, batch: Batch) -> bool:
        nonlocal inside
        started = perf_counter()
        try:
            return plain_decode(context, batch)
        finally:
            inside += perf_counter() - started

    outside, walls = [], []
    with Session(config) as session:
        list(session.generate(PROMPT, max_tokens=args.tokens))
        session.reset()
        Context.decode = timed  # type: ignore[method-assign]
        try:
            before = 0.0
            for event in session.generate(PROMPT, max_tokens=args.tokens):
                now = perf_counter()
                if event.index > 0 and event.metrics.batch:
                    walls.append(1e3 * (now - before))
                    outside.append(1e3 * (now - before - inside))
                if event.metrics.batch:
                    inside, before = 0.0, perf_counter()
        finally:
            Context.decode = plain_decode  # type: ignore[method-assign]
        return {
            "n_vocab": session.load_report.n_vocab,
            "steps": len(walls),
            "step_ms": report.median(walls),
            "outside_ms": report.median(outside),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache-mb", type=int, default=6000)
    parser.add_argument("--save", metavar="NAME")
    args = parser.parse_args()
    state = report.entry_state()
    found = {name: measure(args, speculation) for name, speculation in CELLS}
    rows: list[list[object]] = [
        [name, f["n_vocab"], f["steps"], f["step_ms"], f["outside_ms"]] for name, f in found.items()
    ]
    header = ["cell", "vocabulary", "steps", "ms a step", "of it outside llama_decode"]
    text = report.markdown(header, rows) + f"\n\nmedians; {state}"
    report.publish(
        args.save or "verify-overhead", text, {"state": state, "cells": found}, save=bool(args.save)
    )


if __name__ == "__main__":
    main()
