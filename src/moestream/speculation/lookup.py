"""Drafting by n-gram lookup: what followed these words the last time is guessed to follow again."""

from __future__ import annotations

from collections.abc import Sequence

from moestream.llama.batch import HiddenRows, TokenArray
from moestream.speculation.ngram import NgramIndex

__all__ = ["NgramDraft"]


class NgramDraft:
    """A :class:`~moestream.speculation.draft.DraftSource` over the tokens of the context."""

    needs_hidden = False

    def __init__(self, *, min_match: int, max_match: int) -> None:
        """Draft where ``min_match`` to ``max_match`` tokens match: see :class:`NgramIndex`."""
        self._index = NgramIndex(min_match, max_match)

    def observe(self, position: int, tokens: TokenArray, hidden: HiddenRows | None) -> None:
        """Take them into the corpus."""
        del hidden
        self._index.truncate(position)
        self._index.extend(tokens)

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        """What followed the longest earlier occurrence of the corpus' end."""
        # observe() puts the token's place right, whatever the target says next.
        self._index.append(confirmed)
        match = self._index.propose(width)
        return () if match is None else match.draft

    def rewind(self, length: int, hidden: HiddenRows | None = None) -> None:
        """Forget tokens from ``length`` on."""
        del hidden
        self._index.truncate(length)
