"""Advances a context by tokens, and knows at any time what it certainly holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from moestream.engine.evaluator import Evaluator, TurnCancelledError
from moestream.engine.meter import Meter
from moestream.engine.prefix import History, Reuse
from moestream.errors import DecodeError, MoestreamError
from moestream.llama.batch import Batch, HiddenRows, TokenArray
from moestream.llama.context import Context, StateBuffer
from moestream.llama.logits import LogitRows
from moestream.speculation.draft import DraftSource

__all__ = ["DecodeLoop"]


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """The part of the state that cannot be trimmed, as it was after ``length`` tokens.

    ``hidden`` is the hidden state of the last of them, where a draft source needs it.
    """

    length: int
    state: StateBuffer
    hidden: HiddenRows | None


class DecodeLoop:
    """One context and its history, and the draft source that is kept in step with them.

    After a decode that did not finish, only what earlier decodes placed is trusted: attention is
    trimmed back to it, a recurrent state goes back to its checkpoint, and where neither is
    possible everything is forgotten.
    """

    def __init__(
        self,
        context: Context,
        evaluator: Evaluator,
        *,
        keeps_state: bool,
        meter: Meter,
        source: DraftSource | None = None,
    ) -> None:
        """Drive ``context``; ``keeps_state`` says that its memory has parts beyond attention."""
        self.context = context
        self.evaluator = evaluator
        self.history = History(context.n_ctx)
        self.meter = meter
        self.source = source
        self._batch = Batch(context.n_ubatch)
        self._keeps_state = keeps_state
        self._checkpoint: _Checkpoint | None = None
        #: Tokens of a decode whose fate is open, and the state before it if there are no snapshots.
        self._open: TokenArray = np.empty(0, np.int32)
        self._before: StateBuffer | None = None
        #: Length of the history as far as the draft source has taken it in.
        self._told = 0

    @property
    def can_trim(self) -> bool:
        """Whether the model can forget from any position on."""
        return not self._keeps_state

    @property
    def needs_hidden(self) -> bool:
        """Whether the draft source reads the target's hidden states."""
        return self.source is not None and self.source.needs_hidden

    @property
    def checkpoint(self) -> int | None:
        """Length of the history at the checkpoint, if there is one."""
        return None if self._checkpoint is None else self._checkpoint.length

    def recover(self) -> None:
        """Make context and history agree again.

        They differ where an exception from outside, such as an interrupt by the user, came between
        a decode and its entry in the history; whether that decode was sound is not known then. Or
        it came before the draft source had heard of it, and the hidden states are gone by now.
        """
        if self.source is not None and self._told < len(self.history):
            self.history.truncate(self._told)
        if self.context.last_position() != len(self.history) - 1:
            self._settle()

    def rewind(self, reuse: Reuse) -> int:
        """Carry out ``reuse``; the position to go on from (0 if llama.cpp refused).

        Call :meth:`recover` before planning it.
        """
        done = reuse.action == "extend"
        if reuse.action == "extend":
            self._rewind_source(reuse.keep)
        if reuse.action == "trim":
            done = self._trim(reuse.keep)
            if done:
                # One row more than the target keeps: see plan_reuse.
                self._rewind_source(reuse.keep + reuse.again)
        elif reuse.action == "restore":
            done = self._restore()
        if not done:
            self.forget()
        return len(self.history)

    def prefill(self, tokens: TokenArray) -> None:
        """Evaluate ``tokens`` after the history, in steps of the micro-batch.

        Logits are those of the last token.
        """
        width = self.context.n_ubatch
        last_start = (len(tokens) - 1) // width * width
        for start in range(0, len(tokens), width):
            chunk = tokens[start : start + width]
            wanted: Literal["last", "none"] = "last" if start == last_start else "none"
            self._batch.fill(chunk, len(self.history), logits=wanted)
            self._evaluate(prefill=True)
            self._take_in(chunk)

    def logits(self, rows: int) -> LogitRows:
        """Logits of the last decode, of as many ``rows`` as had them."""
        return self.context.logit_rows(rows)

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        """What the draft source guesses to follow ``confirmed``."""
        source = self.source
        if source is None:
            return ()
        self.meter.begin_drafting()
        try:
            return source.propose(confirmed, width)
        except MoestreamError:
            self.forget(data=True)
            raise
        finally:
            self.meter.end_drafting()

    def evaluate(self, tokens: Sequence[int]) -> None:
        """Evaluate ``tokens`` after the history with logits for each; :meth:`keep` must follow.

        A single token takes the plain path: one row, nothing to go back to.
        """
        if len(tokens) == 1:
            self._batch.fill_one(tokens[0], len(self.history))
        else:
            self._batch.fill(tokens, len(self.history), logits="all")
            self._before = None
            if self._keeps_state and self.context.n_snapshots < len(tokens) - 1:
                self._before = self.context.save_state(partial=True)
        self._evaluate(prefill=False)
        self._open = np.asarray(tokens, np.int32)

    def keep(self, rows: int) -> None:
        """Leave the first ``rows`` of the tokens just evaluated in the context, and no other."""
        tokens, length = self._open, len(self.history) + rows
        hidden: HiddenRows | None = None
        if self.needs_hidden:
            hidden = self.context.hidden_rows(len(tokens))[:rows]
        if rows < len(tokens):
            if self._before is not None:
                hidden = None if hidden is None else hidden.copy()
                self._replay(tokens[:rows], self._before)
            elif not self.context.trim(length):
                self.forget(data=True)
                raise DecodeError(
                    f"llama.cpp did not go back by {len(tokens) - rows} tokens; "
                    "the session starts over at the next prompt"
                )
        self._before = None
        self._take_in(tokens[:rows], hidden)

    def save_checkpoint(self) -> None:
        """Remember the state here, if the model needs that to come back."""
        if self._keeps_state and self.checkpoint != len(self.history):
            # Free the old copy first: it can be tens of MiB.
            self._checkpoint = None
            hidden = None
            if self.needs_hidden:
                hidden = self.context.hidden_rows(len(self._batch))[-1:].copy()
            state = self.context.save_state(partial=True)
            self._checkpoint = _Checkpoint(len(self.history), state, hidden)

    def forget(self, *, data: bool = False) -> None:
        """Start over; ``data`` also zeroes what failed decodes may have left."""
        self.context.clear(data=data)
        self.history.truncate(0)
        self._checkpoint = None
        self._rewind_source(0)

    def _rewind_source(self, length: int, hidden: HiddenRows | None = None) -> None:
        self._told = len(self.history)
        if self.source is not None:
            self.source.rewind(length, hidden)

    def _take_in(self, tokens: TokenArray, hidden: HiddenRows | None = None) -> None:
        """``tokens`` are in the context for good."""
        position = len(self.history)
        self.history.extend(tokens)
        if self.source is None:
            self._told = len(self.history)
            return
        if self.needs_hidden and hidden is None:
            hidden = self.context.hidden_rows(len(tokens))
        self.meter.begin_drafting()
        try:
            self.source.observe(position, tokens, hidden)
            self._told = len(self.history)
        except TurnCancelledError:
            # The source did not take all of them, and their hidden states will be gone.
            self.recover()
            raise
        except MoestreamError:
            self.forget(data=True)
            raise
        finally:
            self.meter.end_drafting()

    def _replay(self, tokens: TokenArray, before: StateBuffer) -> None:
        """Go back without snapshots: to the state before the decode, and forward again."""
        restored = self.context.restore_state(before, partial=True)
        if not restored or not self.context.trim(len(self.history)):
            self.forget(data=True)
            raise DecodeError(
                "llama.cpp did not take back the state it had saved; "
                "the session starts over at the next prompt"
            )
        self._batch.fill(tokens, len(self.history), logits="none")
        self._evaluate(prefill=False)

    def _evaluate(self, *, prefill: bool) -> None:
        self.meter.begin()
        try:
            self.evaluator.run(self.context, self._batch, prefill)
        except TurnCancelledError as err:
            if err.started:
                self._settle()
            raise
        except MoestreamError:
            self.forget(data=True)
            raise
        finally:
            self.meter.end(len(self._batch))

    def _settle(self) -> None:
        restored = self._trim(len(self.history)) if self.can_trim else self._restore()
        if restored and self.can_trim:
            self._rewind_source(len(self.history))
        if not restored or not len(self.history):
            self.forget(data=True)
            return
        try:
            self.context.scrub()
        except DecodeError:
            self.forget(data=True)

    def _trim(self, length: int) -> bool:
        if length == 0 or not self.context.trim(length):
            return False
        self.history.truncate(length)
        return self.context.last_position() == length - 1

    def _restore(self) -> bool:
        checkpoint = self._checkpoint
        if checkpoint is None or checkpoint.length > len(self.history):
            return False
        if not self.context.restore_state(checkpoint.state, partial=True):
            return False
        if not self._trim(checkpoint.length):
            return False
        self._rewind_source(checkpoint.length, checkpoint.hidden)
        return True
