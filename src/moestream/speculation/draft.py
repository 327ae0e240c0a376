"""What a draft source is: somebody who guesses the next tokens, told what became of the guesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from moestream.llama.batch import HiddenRows, TokenArray

__all__ = ["DraftSource"]


class DraftSource(Protocol):
    """Proposes what comes next.

    It is told of every token that enters the target's context for good (:meth:`observe`: a chunk
    of the prompt, a plain step, the confirmed part of a verified group) and of every return to an
    earlier position (:meth:`rewind`). It never hears of drafts that were rejected.
    """

    #: Whether :meth:`observe` needs the target's hidden states.
    needs_hidden: bool

    def observe(self, position: int, tokens: TokenArray, hidden: HiddenRows | None) -> None:
        """``tokens`` are in the target's context for good, from ``position`` on.

        Args:
            position: of the first of them; what was observed from there on before is replaced by
                them (it is the same, unless the source had looked ahead).
            tokens: at least one.
            hidden: their hidden states ``[len(tokens), n_embd]``, if the source needs them; only
                valid during the call.
        """
        ...

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        """Up to ``width`` guesses at what follows ``confirmed``, which follows all observed.

        An empty answer is an abstention: the step decodes ``confirmed`` alone.
        """
        ...

    def rewind(self, length: int, hidden: HiddenRows | None = None) -> None:
        """The target's context holds only its first ``length`` tokens now.

        Args:
            length: 0 starts over.
            hidden: hidden state ``[1, n_embd]`` of the last of them. Without it, and where the
                source does not know it any more, the next call of :meth:`observe` starts at
                ``length - 1``.
        """
        ...
