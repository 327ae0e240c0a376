"""How much of a new prompt the context already holds, and how to get back to it.

Attention can forget from any position on. A recurrent state cannot: it goes forward, or back to
a checkpoint, or to the start. Only what is certain counts: the history holds a token only after
the decode that placed it has succeeded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from moestream.llama.batch import TokenArray

__all__ = ["History", "Reuse", "common_prefix", "plan_reuse"]


@dataclass(frozen=True, slots=True)
class Reuse:
    """What to do before the prefill, which then starts at position ``keep``.

    ``again`` tokens from there on are evaluated again although they were in the context.
    """

    action: Literal["extend", "trim", "restore", "clear"]
    keep: int
    again: int = 0


class History:
    """Tokens that the context certainly holds, in order."""

    def __init__(self, capacity: int) -> None:
        """Room for ``capacity`` tokens."""
        self._tokens: TokenArray = np.zeros(capacity, np.int32)
        self._length = 0

    def __len__(self) -> int:
        """Number of tokens held."""
        return self._length

    @property
    def tokens(self) -> TokenArray:
        """View of the tokens held."""
        return self._tokens[: self._length]

    def extend(self, tokens: TokenArray) -> None:
        """Add ``tokens``, whose decode has succeeded."""
        end = self._length + len(tokens)
        self._tokens[self._length : end] = tokens
        self._length = end

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        self._length = min(self._length, length)


def common_prefix(a: TokenArray, b: TokenArray) -> int:
    """Number of leading tokens in which ``a`` and ``b`` agree."""
    n = min(len(a), len(b))
    differs = np.flatnonzero(a[:n] != b[:n])
    return int(differs[0]) if differs.size else n


def plan_reuse(
    held: TokenArray,
    prompt: TokenArray,
    *,
    can_trim: bool,
    checkpoint: int | None,
    needs_hidden: bool = False,
) -> Reuse:
    """Decide how to continue from ``held`` to ``prompt``.

    Args:
        held: tokens in the context.
        prompt: tokens wanted; not empty.
        can_trim: the model can forget from any position on.
        checkpoint: length of the history at which a recurrent state was saved.
        needs_hidden: a draft source goes on from the hidden state of the last token kept, which
            is known only where the context ends: a trim goes back one token further for it.

    The last token of the prompt is always evaluated again: its logits are what is wanted.
    """
    common = min(common_prefix(held, prompt), len(prompt) - 1)
    if common == len(held):
        return Reuse("extend", common) if common else Reuse("clear", 0)
    if can_trim:
        again = int(needs_hidden)
        return Reuse("trim", common - again, again) if common > again else Reuse("clear", 0)
    if checkpoint is not None and 0 < checkpoint <= common:
        return Reuse("restore", checkpoint)
    return Reuse("clear", 0)
