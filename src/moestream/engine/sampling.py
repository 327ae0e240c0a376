"""Choosing the next token from the logits of the last decode."""

from __future__ import annotations

import math
import secrets
from typing import Protocol

import numpy as np

from moestream.config import SamplingConfig
from moestream.errors import DecodeError
from moestream.llama.batch import TokenArray
from moestream.llama.context import Context
from moestream.llama.logits import Logits, best_tokens
from moestream.llama.sampler import PENALTY_WINDOW, SamplerChain
from moestream.llama.vocab import Vocab

__all__ = ["Chooser", "make_chooser"]

_SEED_LIMIT = 2**32 - 1


class Chooser(Protocol):
    """Picks a token; made for one generation and closed after it."""

    def choose(self, context: Context, logits: Logits) -> list[int]:
        """The next token after each row, given the rows' logits ``[rows, n_vocab]``."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


class _Greedy:
    """The most likely token; the lowest id where several are."""

    def __init__(self, suppressed: frozenset[int]) -> None:
        self._suppressed = np.array(sorted(suppressed), np.int64)

    def choose(self, context: Context, logits: Logits) -> list[int]:
        if self._suppressed.size:
            logits = logits.copy()
            logits[:, self._suppressed] = -np.inf
        best = best_tokens(logits)
        for _, top in best:
            _check_finite(top)
        return [token for token, _ in best]

    def close(self) -> None:
        return


class _Sampled:
    """A seeded draw through llama.cpp's sampler chain."""

    def __init__(self, chain: SamplerChain) -> None:
        self._chain = chain

    def choose(self, context: Context, logits: Logits) -> list[int]:
        _check_finite(float(logits.max()))
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
