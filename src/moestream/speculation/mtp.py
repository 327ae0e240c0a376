"""Drafting with the model's own multi-token-prediction ("nextn") block.

The block is one more layer, run in a context of its own over the same model. Its row at position
``p`` pairs the token there with the target's hidden state at ``p - 1`` and predicts the token at
``p + 1``. To draft further it is fed its own guess and its own hidden state (DeepSeek-V3,
arXiv:2412.19437, section 2.2, run as a chain).

Only true rows stay: those of confirmed tokens with the target's hidden states. The rows of a chain
are forgotten at the end of :meth:`MtpDraft.propose`, but for the first, which was true. Those of
drafts that were confirmed are evaluated just before the next draft, without logits, so that the
output matrix is left out; a rejected tail never comes here at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

import numpy as np

from moestream.config import MAX_DRAFT
from moestream.llama.batch import Batch, HiddenRows, TokenArray
from moestream.llama.context import Context

__all__ = ["GRAPH_WIDTH", "Evaluate", "MtpDraft"]

#: Widest batch of the draft context. Its compute buffers are made for that many rows.
GRAPH_WIDTH = 32

#: Decodes a batch in a context; the flag says that it is part of a prefill.
Evaluate = Callable[[Context, Batch, bool], None]


class MtpDraft:
    """A :class:`~moestream.speculation.draft.DraftSource` over a context of the MTP type."""

    needs_hidden = True

    def __init__(self, context: Context, evaluate: Evaluate, *, p_min: float = 0.0) -> None:
        """Draft with ``context``.

        Args:
            context: made with ``mtp=True`` and ``hidden="outputs"``; not shared.
            evaluate: decodes; what it raises is passed on, and nothing is lost by it.
            p_min: stop where the head gives its own proposal less than this probability.
        """
        self._context = context
        self._evaluate = evaluate
        self._p_min = p_min
        self._batch = Batch(context.n_ubatch, n_embd=context.n_embd)
        self._tokens: TokenArray = np.zeros(context.n_ubatch, np.int32)
        self._start_over()

    def _start_over(self) -> None:
        #: Rows in the draft context, all of them true.
        self._placed = 0
        #: True rows behind them that are not evaluated yet: in ``_tokens`` and the batch's hidden.
        self._pending = 0
        #: Rows of the target that were observed.
        self._observed = 0
        #: The target's hidden state at the last of them; before the first token zeros.
        self._last: HiddenRows | None = np.zeros((1, self._context.n_embd), np.float32)

    def observe(self, position: int, tokens: TokenArray, hidden: HiddenRows | None) -> None:
        """Take over true rows; evaluates them when a batch is full."""
        if hidden is None:
            raise ValueError("the MTP block needs the target's hidden states")
        start = max(self._placed + self._pending - position, 0)
        if start < len(tokens):
            before = self._last if start == 0 else hidden[start - 1 : start]
            if before is None:
                raise RuntimeError(f"the hidden state before position {position} is not known")
            self._queue(tokens[start:], before, hidden[start:-1])
        if self._pending > MAX_DRAFT + 1:
            # More than a verified group leaves: the end of a prompt, which is not a draft's cost.
            self._place(prefill=True)
        # Last: whoever interrupts this returns to where it began.
        self._observed = position + len(tokens)
        self._last = hidden[-1:].copy()

    def _queue(self, tokens: TokenArray, first: HiddenRows, others: HiddenRows) -> None:
        """Add rows: the first token with the one row of ``first``, the rest with ``others``."""
        done, hidden = 0, first
        while done < len(tokens):
            if self._pending == self._batch.capacity:
                self._place(prefill=True)
            count = min(self._batch.capacity - self._pending, len(hidden))
            here = slice(self._pending, self._pending + count)
            self._tokens[here] = tokens[done : done + count]
            self._batch.hidden[here] = hidden[:count]
            self._pending += count
            done += count
            hidden = others[done - 1 :]

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        """Chain up to ``width`` guesses, after what is pending has been placed."""
        here = self._observed
        if self._last is None or self._placed + self._pending != here:
            return []
        if self._pending:
            self._place(prefill=False)
        drafts: list[int] = []
        try:
            # Rows of their own: see ContextOptions.hidden.
            self._step(confirmed, here, self._last)
            self._placed += 1
            while (token := self._guess()) is not None:
                drafts.append(token)
                if len(drafts) == width:
                    break
                self._step(token, here + len(drafts), self._context.hidden_rows(1))
        except BaseException:
            self._drop_tail(damaged=True)
            raise
        self._drop_tail()
        return drafts

    def _step(self, token: int, position: int, hidden: HiddenRows) -> None:
        """Evaluate one row, with logits."""
        self._batch.hidden[:1] = hidden
        self._batch.fill_one(token, position)
        self._evaluate(self._context, self._batch, False)

    def _place(self, *, prefill: bool) -> None:
        """Evaluate what is pending."""
        rows = self._pending
        self._batch.fill(self._tokens[:rows], self._placed, logits="none")
        try:
            self._evaluate(self._context, self._batch, prefill)
        except BaseException:
            self._drop_tail(damaged=True)
            raise
        self._placed += rows
        self._pending = 0

    def _guess(self) -> int | None:
        logits = self._context.logit_rows()
        token, top = logits.best(0)
        if not isfinite(top):
            return None
        if self._p_min > 0.0 and logits.best_probability(0, top) < self._p_min:
            return None
        return token

    def _drop_tail(self, *, damaged: bool = False) -> None:
        context = self._context
        if self._placed == 0:
            context.clear(data=damaged)
        elif not context.trim(self._placed):
            # Attention forgets from any position on, so this is not seen; if it is, abstain.
            context.clear(data=True)
            self._last = None
        elif damaged:
            context.scrub()

    def rewind(self, length: int, hidden: HiddenRows | None = None) -> None:
        """Forget rows from ``length`` on."""
        if length == 0:
            self._context.clear()
            self._start_over()
            return
        if length < self._placed:
            self._placed, self._pending = length, 0
        else:
            self._pending = min(self._pending, length - self._placed)
        self._drop_tail()  # also what an interrupt left uncounted
        if hidden is not None:
            self._last = hidden.copy()
        elif length != self._observed:
            self._last = None
        self._observed = length
