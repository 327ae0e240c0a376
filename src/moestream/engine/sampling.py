"""Choosing the next token from the logits of the last decode."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import Protocol, overload

import numpy as np

from moestream.config import SamplingConfig
from moestream.errors import DecodeError
from moestream.llama.batch import TokenArray
from moestream.llama.context import Context
from moestream.llama.logits import LogitRows
from moestream.llama.sampler import PENALTY_WINDOW, SamplerChain
from moestream.llama.vocab import Vocab

__all__ = ["Chooser", "make_chooser"]

_SEED_LIMIT = 2**32 - 1


class Chooser(Protocol):
    """Picks a token; made for one generation and closed after it."""

    def choose(self, context: Context, logits: LogitRows) -> Sequence[int]:
        """The next token after each row; to be read before the next decode.

        Raises:
            DecodeError: a best logit is no finite number; maybe not before its token is read.
        """
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


class _Greedy:
    """The most likely token; the lowest id where several are."""

    def __init__(self, suppressed: frozenset[int]) -> None:
        self._suppressed = np.array(sorted(suppressed), np.int64)

    def choose(self, context: Context, logits: LogitRows) -> Sequence[int]:
        if self._suppressed.size:
            allowed = logits.array().copy()
            allowed[:, self._suppressed] = -np.inf
            logits = LogitRows.of(allowed)
        return _BestOfRows(logits)

    def close(self) -> None:
        return


class _BestOfRows(Sequence[int]):
    """The best token of each row, looked for when it is read.

    Behind the first draft that was wrong nobody asks, and a look over 250,000 logits takes a tenth
    of a millisecond.
    """

    __slots__ = ("_found", "_logits")

    def __init__(self, logits: LogitRows) -> None:
        self._logits = logits
        self._found: list[int | None] = [None] * logits.n_rows

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, row: int) -> int: ...
    @overload
    def __getitem__(self, row: slice) -> list[int]: ...
    def __getitem__(self, row: int | slice) -> int | list[int]:
        if isinstance(row, slice):
            return [self[each] for each in range(len(self))[row]]
        token = self._found[row]
        if token is None:
            token, top = self._logits.best(range(len(self))[row])
            _check_finite(top)
            self._found[row] = token
        return token


class _Sampled:
    """A seeded draw through llama.cpp's sampler chain."""

    def __init__(self, chain: SamplerChain) -> None:
        self._chain = chain

    def choose(self, context: Context, logits: LogitRows) -> Sequence[int]:
        _check_finite(float(logits.array().max()))
        return [self._chain.sample(context)]

    def close(self) -> None:
        self._chain.close()


def make_chooser(config: SamplingConfig, vocab: Vocab, prompt: TokenArray) -> Chooser:
    """Greedy at temperature 0, a sampler chain otherwise; without a seed it draws one."""
    if config.temperature == 0.0:
        return _Greedy(vocab.suppressed)
    seed = config.seed if config.seed is not None else secrets.randbelow(_SEED_LIMIT)
    chain = SamplerChain(config, seed=seed, n_vocab=vocab.n_tokens, suppressed=vocab.suppressed)
    if config.repeat_penalty != 1.0:
        chain.accept(prompt[-PENALTY_WINDOW:].tolist())
    return _Sampled(chain)


def _check_finite(top: float) -> None:
    # NumPy's max and argmax both land on a NaN if there is one.
    if not math.isfinite(top):
        raise DecodeError(
            f"the model computed {top} as its best logit; the file is damaged, or its weights "
            "do not suit llama.cpp's arithmetic"
        )
