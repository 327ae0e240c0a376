"""Is a verified text what the model says by itself?

    python -m benchmarks.exactness [MODEL] [--prompts 20] [--tokens 256] [--save NAME]

A decode of several rows takes other kernels than one of a single row, so what verified text must
be equal to is greedy decoding done in rows of two (a dummy second row, rolled back). Against
greedy decoding in single rows the table says how many texts differ, and how close the two best
logits were where they part.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.texts import PROSE
from moestream import EngineConfig, Session, SpeculationConfig
from moestream.llama.batch import HiddenRows, TokenArray
from moestream.speculation.lookup import NgramDraft

CELLS = (
    ("mtp", 1), ("mtp", 2), ("mtp", 3), ("mtp", 5), ("mtp", 8),
    ("ngram", 3), ("ngram", 5), ("ngram", 8),
)  # fmt: skip


class Dummy:
    """Drafts one token that is never right."""

    needs_hidden = False

    def __init__(self) -> None:
        self.token = 0

    def observe(self, position: int, tokens: TokenArray, hidden: HiddenRows | None) -> None:
        return

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        return [self.token]

    def rewind(self, length: int, hidden: HiddenRows | None = None) -> None:
        return


class NeverAlone(NgramDraft):
    """Looks up, and drafts something wrong rather than nothing: no step is a single row."""

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        return super().propose(confirmed, width) or [0]


def open_session(args: argparse.Namespace, **speculation: Any) -> Session:
    return Session(
        EngineConfig(
            model=args.model,
            n_ctx=1024,
            threads=args.threads,
            speculation=SpeculationConfig(**speculation),
        )
    )


def texts(session: Session, prompts: Sequence[str], n: int) -> list[list[int]]:
    found = []
    for prompt in prompts:
        session.reset()
        events = session.generate(prompt, max_tokens=n)
        found.append([event.token_id for event in events if event.token_id is not None])
    return found


def parting(a: list[int], b: list[int]) -> int | None:
    """Where two texts part; ``None`` if they do not."""
    for at, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return at
    return None if len(a) == len(b) else min(len(a), len(b))


def gaps(session: Session, prompt: str, n: int) -> list[float]:
    """Distance between the two best logits before each token of single-row decoding."""
    found: list[float] = []

    def observe(_position: int, logits: Any) -> None:
        best = np.partition(logits, -2)[-2:]
        found.append(float(best[1] - best[0]))

    session.reset()
    session.logits_observer = observe
    list(session.generate(prompt, max_tokens=n))
    session.logits_observer = None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("model", nargs="?", default="moestream-nano")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", metavar="NAME")
    args = parser.parse_args()
    prompts = PROSE[: args.prompts]
    state = report.entry_state()

    with open_session(args) as session:
        single = texts(session, prompts, args.tokens)
        distances = [gaps(session, prompt, args.tokens) for prompt in prompts]
    with open_session(args, source="ngram", draft=1) as session:
        session._opened.loop.source = Dummy()
        # The last step has no room for a draft: one more, and cut it off.
        exact = [text[: args.tokens] for text in texts(session, prompts, args.tokens + 1)]

    by_cell: dict[str, list[list[int]]] = {"pairs of rows": exact}
    rows: list[list[object]] = []
    for source, draft in CELLS:
        with open_session(args, source=source, draft=draft) as session:
            by_cell[f"{source} {draft}"] = texts(session, prompts, args.tokens)
    for draft in (3, 5):
        with open_session(args, source="ngram", draft=draft) as session:
            session._opened.loop.source = NeverAlone(min_match=3, max_match=32)
            found = texts(session, prompts, args.tokens + 1)
        by_cell[f"ngram {draft}, no single rows"] = [text[: args.tokens] for text in found]
    for name, found in by_cell.items():
        from_exact = [1 for a, b in zip(found, exact, strict=True) if parting(a, b) is not None]
        from_single = [
            (at, distance[at])
            for a, b, distance in zip(found, single, distances, strict=True)
            if (at := parting(a, b)) is not None and at < len(distance)
        ]
        worst = max((gap for _, gap in from_single), default=0.0)
        rows.append([name, sum(map(len, found)), len(from_exact), len(from_single), worst])
    header = [
        "decoding", "tokens", "texts that differ from pairs of rows",
        "texts that differ from single rows", "largest gap of the best logits where they part",
    ]  # fmt: skip
    text = report.markdown(header, rows)
    same = by_cell["mtp 1"] == by_cell["mtp 3"]
    text += f"\n\n{len(prompts)} prompts; drafts of 1 and of 3 give the same texts: {same}; {state}"
    raw = {"state": state, "rows": rows, "texts": by_cell, "single": single}
    report.publish(args.save or "exactness", text, raw, save=bool(args.save))


if __name__ == "__main__":
    main()
