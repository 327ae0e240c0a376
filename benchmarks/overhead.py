"""What streaming costs when nothing has to be read: every expert cached, against plain llama.cpp.

    python -m benchmarks.overhead MODEL [--tokens 96] [--rounds 3] [--threads 2] [--save NAME]

Both run in one process and take turns every few tokens over the same file, the same tokens and the
same number of threads, so that whatever else the machine does hits both. The plain loop runs with
native weights, as the streamed model does; the A/A column is the plain loop against itself.
"""

from __future__ import annotations

import argparse
import itertools
import os
from typing import Any

from benchmarks import report
from benchmarks.plain import PlainModel
from moestream import EngineConfig, Session, StreamingConfig

PROMPT = list(range(300, 316))
TURN = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-overlap", action="store_true")
    parser.add_argument("--save", metavar="NAME")
    args = parser.parse_args()

    state = report.entry_state()
    size_mib = os.path.getsize(args.model) >> 20
    config = EngineConfig(
        model=args.model,
        n_ctx=1024,
        n_ubatch=64,
        threads=args.threads,
        streaming=StreamingConfig(cache_mb=size_mib + 512, overlap=not args.no_overlap),
    )
    plain = PlainModel(
        args.model, mmap=False, repack=False, threads=args.threads, n_ctx=1024, n_ubatch=64
    )
    rounds: list[dict[str, Any]] = []
    with Session(config) as session:
        list(session.generate(PROMPT, max_tokens=args.tokens))  # fills the cache
        for _ in range(args.rounds):
            rounds.append(one_round(session, plain, args.tokens))

    rows: list[list[object]] = []
    for i, r in enumerate(rounds):
        rows.append(
            [
                i + 1,
                r["plain_ms"],
                r["streamed_ms"],
                r["streamed_ms"] / r["plain_ms"],
                r["plain_odd_ms"] / r["plain_even_ms"],
                r["hit_pct"],
                r["python_ms"],
            ]
        )
    ratios = [r["streamed_ms"] / r["plain_ms"] for r in rounds]
    header = [
        "round",
        "plain ms/token",
        "streamed ms/token",
        "streamed / plain",
        "plain / plain (A/A)",
        "hit %",
        "Python ms/token",
    ]
    text = report.markdown(header, rows)
    text += f"\n\nratio, median of rounds: {report.median(ratios):.3f}; {state}"
    report.publish(
        args.save or "overhead", text, {"state": state, "rounds": rounds}, save=bool(args.save)
    )


def one_round(session: Session, plain: PlainModel, tokens: int) -> dict[str, Any]:
    session.reset()
    plain.clear()
    generation = session.generate(PROMPT, max_tokens=tokens)
    first = next(generation)
    token = plain.prefill(PROMPT)
    if first.token_id != token:
        raise SystemExit("the two do not agree on the first token")
    loop = plain.generate(token, len(PROMPT))
    streamed: list[float] = []
    python: list[float] = []
    plain_s: list[float] = []
    while True:
        block = [(event, event.metrics) for event in itertools.islice(generation, TURN)]
        if not block:
            break
        streamed += [m.wall_ms for _, m in block]
        # The first of a block carries the time that the other loop took.
        python += [m.loop_overhead_ms for _, m in block[1:]]
        for event, _ in block:
            plain_token, seconds = next(loop)
            if plain_token != event.token_id and event.token_id is not None:
                raise SystemExit("the two do not agree on a token")
            plain_s.append(seconds)
    summary = session.last_summary
    assert summary is not None
    plain_ms = [1e3 * s for s in plain_s]
    return {
        "plain_ms": report.median(plain_ms),
        "plain_even_ms": report.median(plain_ms[0::2]),
        "plain_odd_ms": report.median(plain_ms[1::2]),
        # What the user waits for: the decode and everything between two decodes.
        "streamed_ms": report.median(streamed) + report.median(python),
        "python_ms": report.median(python),
        "hit_pct": 100.0 * summary.hits / max(summary.hits + summary.misses, 1),
        "raw": {"plain_ms": plain_ms, "streamed_wall_ms": streamed, "python_ms": python},
    }


if __name__ == "__main__":
    main()
