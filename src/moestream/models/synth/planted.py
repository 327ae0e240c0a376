"""Embedding and output matrices with a planted next-token structure.

The embedding of a token is a sum of three directions: one that all tokens share, one that its
topic shares, and its own. The shared part makes neighbouring tokens route alike, by as much as is
asked for; the own part is what the output matrix looks for:

    embedding(t) = sqrt(2/3 r) * common + sqrt(1/3 r) * topic(t) + sqrt(1 - r) * own(t)
    output(successor(t)) = own(t)

so that greedy decoding walks along ``successor``, which is a long cycle through a topic with an
occasional jump to another. A part of the tokens has a second successor just as good, decided by
what the trunk adds to the residual stream: those are the tokens a draft head gets wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from moestream.gguf.blocks import encode
from moestream.gguf.types import GGMLType
from moestream.models.synth.vocabulary import N_BYTES, SPECIAL_TOKENS

__all__ = ["PlantedTokens", "overlap_of", "shared_variance_for"]

_ROWS = 8192  # per chunk
_TOPIC = 4096  # tokens per topic
_JUMPS = 0.02  # share of tokens whose successor is in another topic
_SEVERAL = 0.7  # share of tokens with two successors

Ints = npt.NDArray[np.int64]


class PlantedTokens:
    """The token side of a giant: who follows whom, and the two matrices that say so."""

    def __init__(self, n_vocab: int, n_embd: int, shared: float, rng: np.random.Generator) -> None:
        """Plan the structure; ``shared`` is the variance (0..1) that neighbours have in common."""
        self._n_vocab = n_vocab
        self._n_embd = n_embd
        self._shared = shared
        self._words = np.arange(N_BYTES, n_vocab - len(SPECIAL_TOKENS))
        self._topic = np.zeros(n_vocab, np.int64)
        self._topic[self._words] = (self._words - N_BYTES) // _TOPIC
        n_topics = int(self._topic.max()) + 1
        self.successor = self._plan_successors(rng)
        self._second = self._plan_seconds(rng)
        # One signed byte per number keeps the own directions of 250,000 tokens in half a GB.
        self._own = rng.integers(-127, 128, (n_vocab, n_embd), np.int8)
        self._common = self._direction(rng, 1)[0]
        self._topics = self._direction(rng, n_topics)

    def embedding(self) -> Iterator[memoryview]:
        """Yield the rows of the embedding matrix as Q8_0, of standard deviation one."""
        own = np.float32(np.sqrt(1 - self._shared) / 73.6)
        common = np.sqrt(self._shared * 2 / 3) * self._common
        topics = (common + np.sqrt(self._shared / 3) * self._topics).astype(np.float32)
        for start in range(0, self._n_vocab, _ROWS):
            rows = slice(start, min(start + _ROWS, self._n_vocab))
            values = self._own[rows].astype(np.float32)
            values *= own
            values += topics[self._topic[rows]]
            yield encode(GGMLType.Q8_0, values).data

    def output(self) -> Iterator[memoryview]:
        """Yield the rows of the output matrix as Q8_0, of norm about one."""
        gain = np.float32(1 / (73.6 * np.sqrt(self._n_embd)))
        edges = self._edges()
        for start in range(0, self._n_vocab, _ROWS):
            end = min(start + _ROWS, self._n_vocab)
            values = np.zeros((end - start, self._n_embd), np.float32)
            first, last = np.searchsorted(edges[:, 0], (start, end))
            rows, sources = edges[first:last].T
            # A row may follow several tokens: add the k-th of each in the k-th pass.
            rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
            for k in range(int(rank.max(initial=-1)) + 1):
                chosen = rank == k
                values[rows[chosen] - start] += self._own[sources[chosen]]
            values *= gain
            yield encode(GGMLType.Q8_0, values).data

    def _edges(self) -> Ints:
        """All (output row, token it follows) pairs, sorted by row."""
        pairs = [
            np.stack([target[target >= 0], np.flatnonzero(target >= 0)], axis=1)
            for target in (self.successor, self._second)
        ]
        edges = np.concatenate(pairs)
        return edges[np.argsort(edges[:, 0], kind="stable")]

    def _plan_successors(self, rng: np.random.Generator) -> Ints:
        successor = np.full(self._n_vocab, -1, np.int64)
        for start in range(0, len(self._words), _TOPIC):
            cycle = rng.permutation(self._words[start : start + _TOPIC])
            successor[cycle] = np.roll(cycle, -1)
        jumping = rng.choice(self._words, int(_JUMPS * len(self._words)), replace=False)
        successor[jumping] = successor[rng.permutation(jumping)]
        others = np.setdiff1d(np.arange(self._n_vocab), self._words)
        successor[others] = rng.choice(self._words, len(others))
        return successor

    def _plan_seconds(self, rng: np.random.Generator) -> Ints:
        """A second successor for some tokens: the first one of another token of the topic."""
        second = np.full(self._n_vocab, -1, np.int64)
        several = self._words[rng.random(len(self._words)) < _SEVERAL]
        for topic in range(int(self._topic.max()) + 1):
            tokens = rng.permutation(several[self._topic[several] == topic])
            if len(tokens) > 1:
                second[tokens] = np.roll(self.successor[tokens], 1)
        return second

    def _direction(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Random directions of standard deviation one per coordinate."""
        return rng.standard_normal((count, self._n_embd))


def overlap_of(shared: float, n_expert: int, n_used: int, skew: float) -> float:
    """Return the share of experts that two tokens have in common, by simulation.

    The two tokens' router inputs share ``shared`` of their variance, and the router's rows have
    lognormal norms of width ``skew``.
    """
    rng = np.random.default_rng(0)  # the same numbers for every call, so that it is monotonic
    pairs = 1000
    norms = np.exp(skew * rng.standard_normal((pairs, n_expert)))
    both, *own = rng.standard_normal((3, pairs, n_expert))
    chosen = []
    for mine in own:
        logits = norms * (np.sqrt(shared) * both + np.sqrt(1 - shared) * mine)
        mask = np.zeros((pairs, n_expert), bool)
        top = np.argpartition(logits, n_expert - n_used, axis=1)[:, n_expert - n_used :]
        np.put_along_axis(mask, top, True, axis=1)
        chosen.append(mask)
    return float((chosen[0] & chosen[1]).sum() / (pairs * n_used))


def shared_variance_for(overlap: float, n_expert: int, n_used: int, skew: float) -> float:
    """Return how much variance neighbouring tokens must share for the wanted overlap."""
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        if overlap_of(middle, n_expert, n_used, skew) < overlap:
            low = middle
        else:
            high = middle
    return (low + high) / 2
