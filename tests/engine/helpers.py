"""Opening sessions on tiny models, and recording what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from moestream import EngineConfig, Session, StreamingConfig
from moestream.engine.events import TokenEvent
from moestream.llama.context import Logits

RESIDENT = StreamingConfig(moe_stream=False)


def open_session(
    model: Path | str, streaming: StreamingConfig = RESIDENT, **options: Any
) -> Session:
    """A session on ``model`` with one thread and a small context, unless told otherwise."""
    settings = {"n_ctx": 256, "n_ubatch": 16, "threads": 1} | options
    return Session(EngineConfig(model=model, streaming=streaming, **settings))


@dataclass
class Recorder:
    """Collects the logits of every choice; put it on ``session.logits_observer``."""

    rows: list[tuple[int, Logits]] = field(default_factory=list)

    def __call__(self, position: int, logits: Logits) -> None:
        self.rows.append((position, logits.copy()))

    def take(self) -> list[tuple[int, Logits]]:
        rows, self.rows = self.rows, []
        return rows


def record(session: Session, prompt: str | Sequence[int], n: int) -> list[tuple[int, Logits]]:
    """Generate ``n`` tokens; positions and logits of all choices."""
    recorder = Recorder()
    session.logits_observer = recorder
    try:
        events = list(session.generate(prompt, max_tokens=n))
    finally:
        session.logits_observer = None
    assert len(recorder.rows) == len(events)
    return recorder.rows


def assert_same_bits(a: list[tuple[int, Logits]], b: list[tuple[int, Logits]]) -> None:
    """Positions and logits are equal to the last bit."""
    assert [position for position, _ in a] == [position for position, _ in b]
    for (position, x), (_, y) in zip(a, b, strict=True):
        assert np.isfinite(x).all(), f"not finite at position {position}"
        assert np.array_equal(x, y), f"logits differ at position {position}"


def tokens_of(events: list[TokenEvent]) -> list[int]:
    return [event.token_id for event in events if event.token_id is not None]
