"""The cells of the identity matrix (E9), and a conversation to compare them on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import pytest

from moestream import Session, StreamingConfig
from moestream.config import DenseWeights
from moestream.llama.context import Logits
from moestream.streaming.source import ExpertSource
from tests.engine.helpers import record

CacheSize = Literal["none", "one layer", "some", "large"]

#: Two prefill steps and a rest, then a second turn, then a changed history.
FIRST = [(37 * i) % 450 + 20 for i in range(37)]
SECOND = [31, 32, 33]
N_TOKENS = 6
N_UBATCH = 16


@dataclass(frozen=True)
class Cell:
    """One way to stream."""

    cache: CacheSize
    overlap: bool
    prefetch: int
    lanes: int
    dense: DenseWeights
    split: int
    o_direct: bool = True

    def __str__(self) -> str:
        parts = [
            f"cache={self.cache}",
            "overlap" if self.overlap else "serial",
            f"prefetch={self.prefetch}",
            f"lanes={self.lanes}",
            self.dense,
            f"split={self.split}",
        ]
        return ",".join(parts).replace(" ", "-")

    def streaming(self, **more: Any) -> StreamingConfig:
        return StreamingConfig(
            moe_stream=True,
            cache_mb=0 if self.cache == "none" else 64,
            io_threads=self.lanes,
            o_direct=self.o_direct,
            overlap=self.overlap,
            dense_weights=self.dense,
            prefetch=self.prefetch,
            **more,
        )


def cells() -> Iterator[Cell]:
    """Every combination that is allowed."""
    caches: tuple[CacheSize, ...] = ("none", "one layer", "large")
    dense_modes: tuple[DenseWeights, ...] = ("anon", "mmap", "warm")
    for cache, overlap, prefetch, lanes, dense, split in product(
        caches, (False, True), (0, 2), (1, 3), dense_modes, (1, 3)
    ):
        if not (cache == "none" and prefetch):
            yield Cell(cache, overlap, prefetch, lanes, dense, split)


def bound_the_cache(monkeypatch: pytest.MonkeyPatch, cell: Cell, slack: int = 0) -> None:
    """A cache of exactly one layer has a size in bytes, which no setting in MiB can hit."""
    if cell.cache not in ("one layer", "some"):
        return
    start = ExpertSource.start

    def bounded(self: ExpertSource, **options: Any) -> None:
        least = self.floor_bytes(options["n_ubatch"], options["n_expert_used"])
        extra = 0 if cell.cache == "one layer" else self.bytes_of_all() // 2
        options["budget"] = min(options["budget"], least + extra + slack)
        start(self, **options)

    monkeypatch.setattr(ExpertSource, "start", bounded)


def conversation(session: Session) -> list[tuple[int, Logits]]:
    """Three turns; positions and logits of every choice."""
    rows = record(session, FIRST, N_TOKENS)
    answer = [int(row.argmax()) for _, row in rows]
    turn = [*FIRST, *answer[:-1], *SECOND]
    rows += record(session, turn, N_TOKENS)
    rows += record(session, [*FIRST, 40, 41], N_TOKENS)
    return rows
