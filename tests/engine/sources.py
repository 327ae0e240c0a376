"""Draft sources for tests: always right, always wrong, and anything between."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from moestream import EngineConfig, Session, SpeculationConfig, StreamingConfig
from moestream.llama.batch import HiddenRows, TokenArray
from tests.engine.helpers import RESIDENT

__all__ = ["Adversary", "Mixed", "Oracle", "exact_greedy", "open_speculating"]


class _Scripted:
    """Follows the target's position and checks that it is told everything, in order."""

    needs_hidden = False

    def __init__(self) -> None:
        self.seen: list[int] = []

    def observe(self, position: int, tokens: TokenArray, hidden: HiddenRows | None) -> None:
        assert position == len(self.seen)
        assert len(tokens)
        self.seen += tokens.tolist()

    def rewind(self, length: int, hidden: HiddenRows | None = None) -> None:
        assert length <= len(self.seen)
        del self.seen[length:]


class Oracle(_Scripted):
    """Knows the text: ``truth`` continues what is in the context after ``start`` tokens."""

    def __init__(self, start: int, truth: Sequence[int]) -> None:
        super().__init__()
        self.start, self.truth = start, list(truth)

    def propose(self, confirmed: int, width: int) -> list[int]:
        at = len(self.seen) - self.start
        assert self.truth[at] == confirmed
        return self.truth[at + 1 : at + 1 + width]


class Adversary(_Scripted):
    """Never right: avoids the text it knows, or everything likely."""

    def __init__(self, start: int = 0, truth: Sequence[int] = (), wrong: int = 400) -> None:
        super().__init__()
        self.start, self.truth, self.wrong = start, list(truth), wrong

    def propose(self, confirmed: int, width: int) -> list[int]:
        at = len(self.seen) - self.start + 1
        known = [*self.truth[at : at + width], *[-1] * width][:width]
        return [self.wrong if token != self.wrong else self.wrong + 1 for token in known]


class Mixed(Oracle):
    """A draft of random width, one at least, right up to a random place."""

    def __init__(self, start: int, truth: Sequence[int], *, widest: int, seed: int) -> None:
        super().__init__(start, truth)
        self.widest, self.random = widest, random.Random(seed)

    def propose(self, confirmed: int, width: int) -> list[int]:
        drafts = super().propose(confirmed, min(width, self.random.randint(1, self.widest)))
        right = self.random.randint(0, len(drafts))
        return drafts[:right] + [token ^ 1 for token in drafts[right:]]


def open_speculating(
    model: Path | str,
    streaming: StreamingConfig = RESIDENT,
    *,
    source: Any = None,
    speculation: SpeculationConfig | None = None,
    **options: Any,
) -> Session:
    """A session that speculates; ``source`` replaces the draft source it would have."""
    settings = {"n_ctx": 512, "n_ubatch": 16, "threads": 1} | options
    speculation = speculation or SpeculationConfig(source="ngram")
    session = Session(
        EngineConfig(model=model, streaming=streaming, speculation=speculation, **settings)
    )
    if source is not None:
        session._opened.loop.source = source
    return session


def exact_greedy(
    model: Path | str,
    prompt: Sequence[int],
    n: int,
    streaming: StreamingConfig = RESIDENT,
    **options: Any,
) -> list[int]:
    """Greedy tokens out of decodes of two rows, the second a dummy that is rolled back.

    One row takes other kernels than several: this is what a verified text must be equal to.
    """
    session = open_speculating(
        model,
        streaming,
        source=Adversary(),
        speculation=replace(SpeculationConfig(source="ngram"), draft=1),
        **options,
    )
    with session:
        # One more: the last step has no room for a draft, and would be one of a single row.
        events = list(session.generate(prompt, max_tokens=n + 1))
        return [event.token_id for event in events if event.token_id is not None][:n]
