"""Drafts of full width for benchmarks that force acceptance: what the source leaves open is filled.

With :func:`~moestream.speculation.acceptance.synthetic_acceptance` it maps what a width and an
acceptance cost on a machine, whatever the source would have found in the text.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from moestream.llama.batch import HiddenRows, TokenArray
from moestream.speculation.draft import DraftSource

__all__ = ["FilledDraft"]

_SEED = 21
_REMEMBERED = 4096


class FilledDraft:
    """A source whose drafts are filled up with tokens of the text, drawn at random.

    Any of them may be rejected or confirmed by force; they route like text of that kind does.
    """

    def __init__(self, source: DraftSource) -> None:
        """Fill what ``source`` leaves open."""
        self.needs_hidden = source.needs_hidden
        self._source = source
        self._random = random.Random(_SEED)
        self._seen: list[int] = []

    def observe(self, position: int, tokens: TokenArray, hidden: HiddenRows | None) -> None:
        """Pass it on, and remember the tokens."""
        self._seen = [*self._seen, *tokens.tolist()][-_REMEMBERED:]
        self._source.observe(position, tokens, hidden)

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        """``width`` tokens: the source's own first."""
        drafts = list(self._source.propose(confirmed, width))
        seen = self._seen or [confirmed]
        return drafts + self._random.choices(seen, k=width - len(drafts))

    def rewind(self, length: int, hidden: HiddenRows | None = None) -> None:
        """Pass it on."""
        self._source.rewind(length, hidden)
