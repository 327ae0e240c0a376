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
    """What to do before the prefill, which then starts at position ``keep``."""

    action: Literal["extend", "trim", "restore", "clear"]
    keep: int


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

    def append(self, token: int) -> None:
        """Add one token, whose decode has succeeded."""
        self._tokens[self._length] = token
        self._length += 1

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        self._length = min(self._length, length)


def common_prefix(a: TokenArray, b: TokenArray) -> int:
    """Number of leading tokens in which ``a`` and ``b`` agree."""
    n = min(len(a), len(b))
    differs = np.flatnonzero(a[:n] != b[:n])
    return int(differs[0]) if differs.size else n


def plan_reuse(
    held: TokenArray, prompt: TokenArray, *, can_trim: bool, checkpoint: int | None
) -> Reuse:
    """Decide how to continue from ``held`` to ``prompt``.

    Args:
        held: tokens in the context.
        prompt: tokens wanted; not empty.
        can_trim: the model can forget from any position on.
        checkpoint: length of the history at which a recurrent state was saved.

    The last token of the prompt is always evaluated again: its logits are what is wanted.
    """
    common = min(common_prefix(held, prompt), len(prompt) - 1)
    if common == len(held):
        return Reuse("extend", common) if common else Reuse("clear", 0)
    if can_trim:
        return Reuse("trim", common) if common else Reuse("clear", 0)
    if checkpoint is not None and 0 < checkpoint <= common:
        return Reuse("restore", checkpoint)
    return Reuse("clear", 0)
