"""Advances a context by tokens, and knows at any time what it certainly holds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from moestream.engine.meter import Meter
from moestream.engine.prefix import History, Reuse
from moestream.errors import DecodeError, StreamReadError
from moestream.llama.batch import Batch, TokenArray
from moestream.llama.context import Context, StateBuffer

if TYPE_CHECKING:
    from moestream._core import ExpertStore

__all__ = ["DecodeLoop", "TurnCancelledError"]


class TurnCancelledError(Exception):
    """The turn was cancelled; raised and caught inside the engine."""


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """The part of the state that cannot be trimmed, as it was after ``length`` tokens."""

    length: int
    state: StateBuffer


class DecodeLoop:
    """One context and its history.

    After a decode that did not finish, only what earlier decodes placed is trusted: attention is
    trimmed back to it, a recurrent state goes back to its checkpoint, and where neither is
    possible everything is forgotten.
    """

    def __init__(
        self,
        context: Context,
        store: ExpertStore,
        *,
        keeps_state: bool,
        meter: Meter,
        cancelled: threading.Event,
        lost_weights: Callable[[], str | None],
    ) -> None:
        """Drive ``context``; ``keeps_state`` says that its memory has parts beyond attention.

        ``lost_weights`` tells after a decode what is wrong with weights it may have used.
        """
        self.context = context
        self.history = History(context.n_ctx)
        self.meter = meter
        self._store = store
        self._batch = Batch(context.n_ubatch)
        self._keeps_state = keeps_state
        self._checkpoint: _Checkpoint | None = None
        self._cancelled = cancelled
        self._lost_weights = lost_weights

    @property
    def can_trim(self) -> bool:
        """Whether the model can forget from any position on."""
        return not self._keeps_state

    @property
    def checkpoint(self) -> int | None:
        """Length of the history at the checkpoint, if there is one."""
        return None if self._checkpoint is None else self._checkpoint.length

    def recover(self) -> None:
        """Make context and history agree again.

        They differ where an exception from outside, such as an interrupt by the user, came between
        a decode and its entry in the history; whether that decode was sound is not known then.
        """
        if self.context.last_position() != len(self.history) - 1:
            self._settle()

    def rewind(self, reuse: Reuse) -> int:
        """Carry out ``reuse``; the position to go on from (0 if llama.cpp refused).

        Call :meth:`recover` before planning it.
        """
        done = reuse.action == "extend"
        if reuse.action == "trim":
            done = self._trim(reuse.keep)
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
            self.history.extend(chunk)

    def step(self, token: int) -> None:
        """Evaluate one token after the history."""
        self._batch.fill_one(token, len(self.history))
        self._evaluate(prefill=False)
        self.history.append(token)

    def save_checkpoint(self) -> None:
        """Remember the state here, if the model needs that to come back."""
        if self._keeps_state and self.checkpoint != len(self.history):
            # Free the old copy first: it can be tens of MiB.
            self._checkpoint = None
            state = self.context.save_state(partial=True)
            self._checkpoint = _Checkpoint(len(self.history), state)

    def forget(self, *, data: bool = False) -> None:
        """Start over; ``data`` also zeroes what failed decodes may have left."""
        self.context.clear(data=data)
        self.history.truncate(0)
        self._checkpoint = None

    def _evaluate(self, *, prefill: bool) -> None:
        self._store.begin_decode(prefill=prefill)
        # Only now: a cancel before begin_decode is on the flag, one after it in the store.
        if self._cancelled.is_set():
            raise TurnCancelledError
        failure: DecodeError | None = None
        done = False
        self.meter.begin()
        try:
            done = self.context.decode(self._batch)
        except DecodeError as err:
            failure = err
        finally:
            self.meter.end(len(self._batch))
            read_error = self._store.end_decode() or self._lost_weights()
        if read_error is not None:
            self.forget(data=True)
            raise StreamReadError(
                f"weights could not be read: {read_error}; no token was made from them, "
                "and the session starts over at the next prompt"
            ) from failure
        if failure is not None:
            self.forget(data=True)
            raise failure
        # A cancelled decode may have been cut short in ways that its return code does not tell.
        if not done or self._cancelled.is_set():
            self._settle()
            raise TurnCancelledError

    def _settle(self) -> None:
        restored = self._trim(len(self.history)) if self.can_trim else self._restore()
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
        return self._trim(checkpoint.length)
