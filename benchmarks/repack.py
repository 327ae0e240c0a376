"""Dense weights repacked against native, experts native in both: decode time at 1 and at 4 rows.

    python -m benchmarks.repack MODEL [--rounds 6] [--save NAME]

Both models stand in one process and take turns; every expert is cached. "native again" is the
noise.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from benchmarks import report
from moestream import EngineConfig, Session, StreamingConfig
from moestream.llama.batch import Batch


def timed(session: Session, rows: int, repeats: int) -> list[float]:
    """Milliseconds of decodes of ``rows`` fixed tokens at position 0."""
    opened = session._opened
    batch = Batch(rows)
    times = []
    for _ in range(repeats):
        opened.context.clear()
        batch.fill(list(range(300, 300 + rows)), 0, logits="last")
        opened.source.store.begin_decode()
        started = time.perf_counter()
        opened.context.decode(batch)
        times.append(1e3 * (time.perf_counter() - started))
        opened.source.store.end_decode()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", metavar="NAME")
    args = parser.parse_args()
    state = report.entry_state()
    cache_mb = (os.path.getsize(args.model) >> 20) + 512

    def config(repack: bool) -> EngineConfig:
        return EngineConfig(
            model=args.model,
            n_ctx=256,
            n_ubatch=16,
            threads=args.threads,
            streaming=StreamingConfig(cache_mb=cache_mb, repack=repack),
        )

    times: dict[tuple[str, int], list[list[float]]] = {}
    with Session(config(False)) as native, Session(config(True)) as repacked:
        cells = {"native": native, "repacked": repacked, "native again": native}
        for rows in (1, 4):
            for session in (native, repacked):
                timed(session, rows, 2)
            for number in range(args.rounds):
                order = list(cells) if number % 2 == 0 else list(reversed(cells))
                for name in order:
                    times.setdefault((name, rows), []).append(
                        timed(cells[name], rows, args.repeats)
                    )
    table: list[list[object]] = []
    raw: dict[str, Any] = {}
    for rows in (1, 4):
        base = [report.median(block) for block in times["native", rows]]
        for name in cells:
            blocks = [report.median(block) for block in times[name, rows]]
            ratios = [a / b for a, b in zip(blocks, base, strict=True)]
            table.append([rows, name, report.median(blocks), report.median(ratios)])
            raw[f"{name} x{rows}"] = times[name, rows]
    text = report.markdown(["rows", "dense weights", "ms", "of native (paired median)"], table)
    text += f"\n\n{state}"
    report.publish(
        args.save or "repack", text, {"state": state, "times_ms": raw}, save=bool(args.save)
    )


if __name__ == "__main__":
    main()
