"""Rows of logits where llama.cpp left them: the best of a row, and how sure it is."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from moestream.llama.runtime import runtime

__all__ = ["LogitRows", "Logits", "floats_at"]

#: ``[n_vocab]`` or ``[rows, n_vocab]``.
Logits = npt.NDArray[np.float32]


class LogitRows:
    """Rows of logits in llama.cpp's memory; the next decode overwrites them.

    An address and two numbers: between two decodes the caches are cold, and what is not touched
    costs nothing.
    """

    __slots__ = ("_address", "_owner", "n_rows", "n_vocab")

    def __init__(self, address: int, n_rows: int, n_vocab: int, *, owner: object = None) -> None:
        """``n_rows`` rows of ``n_vocab`` floats from ``address`` on; ``owner`` keeps them alive."""
        self._address = address
        self._owner = owner
        self.n_rows = n_rows
        self.n_vocab = n_vocab

    @classmethod
    def of(cls, logits: Logits) -> LogitRows:
        """The rows of an array ``[rows, n_vocab]``."""
        rows = np.ascontiguousarray(logits)
        return cls(rows.ctypes.data, *rows.shape, owner=rows)

    def array(self) -> Logits:
        """The rows as an array ``[n_rows, n_vocab]``, not copied."""
        return floats_at(self._address, self.n_rows, self.n_vocab)

    def best(self, row: int) -> tuple[int, float]:
        """A row's most likely token, the lowest of equals, and its logit.

        The logit is NaN where any of the row's is.
        """
        found: tuple[int, float] = _core().best_logit(self._at(row), self.n_vocab)
        return found

    def best_probability(self, row: int, best: float) -> float:
        """Probability of a row's most likely token, whose logit is ``best``, under a softmax."""
        probability: float = _core().best_probability(self._at(row), self.n_vocab, best)
        return probability

    def _at(self, row: int) -> int:
        return self._address + 4 * self.n_vocab * row


@functools.cache
def _core() -> Any:
    return runtime().core


@functools.lru_cache(maxsize=64)
def floats_at(address: int, rows: int, columns: int) -> npt.NDArray[np.float32]:
    """A view ``[rows, columns]`` of the floats at ``address``, whoever owns them.

    Remembered, since llama.cpp puts its output where it put it the last time.
    """
    memory = (ctypes.c_float * (rows * columns)).from_address(address)
    view: npt.NDArray[np.float32] = np.frombuffer(memoryview(memory).cast("B"), np.float32)
    return view.reshape(rows, columns)
