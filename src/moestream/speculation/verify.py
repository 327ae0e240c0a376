"""The verify loop: drafts in, confirmed tokens out. Knows no draft source and no llama.cpp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from moestream.speculation.acceptance import AcceptanceRule, AcceptanceTally, accepted_prefix

__all__ = ["Group", "Target", "Verifier"]


class Target(Protocol):
    """The model that has the last word, with its draft source."""

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        """Guesses at what follows ``confirmed``: at most ``width``, maybe none."""
        ...

    def evaluate(self, tokens: Sequence[int]) -> Sequence[int]:
        """Decode ``tokens`` after the context in one go; its own choice after each of them.

        A choice may be made when it is read: read them before :meth:`keep`, and no more than
        needed.
        """
        ...

    def keep(self, rows: int) -> None:
        """Only the first ``rows`` of the tokens just evaluated stay in the context."""
        ...


@dataclass(frozen=True, slots=True)
class Group:
    """What one decode confirmed.

    Attributes:
        tokens: in order; the last one comes free, from the first row that no draft was right for.
        drafted: tokens that were verified.
        accepted: how many of them are in ``tokens``.
    """

    tokens: tuple[int, ...]
    drafted: int
    accepted: int


class Verifier:
    """Advances a target by groups of tokens."""

    def __init__(
        self,
        target: Target,
        *,
        width: int,
        is_end: Callable[[int], bool],
        accept: AcceptanceRule = accepted_prefix,
    ) -> None:
        """Draft up to ``width`` tokens a step.

        Args:
            target: to advance.
            width: 0 never drafts.
            is_end: whether a token ends the text: nothing is confirmed after it.
            accept: the rule.
        """
        self.tally = AcceptanceTally(width)
        self._target = target
        self._width = width
        self._is_end = is_end
        self._accept = accept

    def advance(self, confirmed: int, room: int) -> Group:
        """Decode ``confirmed``, the last token said, and what is drafted to follow it.

        The caller must say next, with :meth:`settle`, how many of the group's tokens it said.

        Args:
            confirmed: not in the context yet.
            room: most tokens that may still be said; at least 1.
        """
        # The free token takes one place.
        width = min(self._width, room - 1)
        drafts = list(self._target.propose(confirmed, width))[:width] if width > 0 else []
        best = self._target.evaluate([confirmed, *drafts])
        accepted = self._accept(drafts, best) if drafts else 0
        tokens = [*drafts[:accepted], best[accepted]]
        for count, token in enumerate(tokens, start=1):
            if self._is_end(token):
                tokens = tokens[:count]
                break
        return Group(tuple(tokens), len(drafts), min(accepted, len(tokens)))

    def settle(self, group: Group, said: int) -> None:
        """The first ``said`` tokens of the group were said.

        The context goes back to before the last of them, as if each had been decoded alone.
        """
        self._target.keep(said)
        self.tally.add(group.drafted, min(group.accepted, said))
