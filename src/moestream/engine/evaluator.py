"""One decode with everything around it: reads, cancelling, errors. The same for every context."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from moestream.errors import DecodeError, StreamReadError
from moestream.llama.batch import Batch
from moestream.llama.context import Context

if TYPE_CHECKING:
    from moestream._core import ExpertStore

__all__ = ["DecodeObserver", "Evaluator", "TurnCancelledError"]

#: Told after each decode, whatever came of it: its first position, whether it was a prefill, and
#: its number of rows.
DecodeObserver = Callable[[int, bool, int], None]


class TurnCancelledError(Exception):
    """The turn was cancelled; raised and caught inside the engine."""

    def __init__(self, *, started: bool) -> None:
        """``started`` says that a decode was cut short, so that its context is in doubt."""
        super().__init__("cancelled")
        self.started = started


class Evaluator:
    """Runs decodes whose experts come from one store."""

    def __init__(
        self,
        store: ExpertStore,
        *,
        cancelled: threading.Event,
        lost_weights: Callable[[], str | None],
    ) -> None:
        """Run decodes.

        Args:
            store: of the experts.
            cancelled: set by whoever wants the turn to end.
            lost_weights: tells after a decode what is wrong with weights it may have used.
        """
        #: For whoever records routings; ``None`` costs nothing.
        self.observer: DecodeObserver | None = None
        self._store = store
        self._cancelled = cancelled
        self._lost_weights = lost_weights

    @property
    def cancelled(self) -> bool:
        """Whether the turn is to end."""
        return self._cancelled.is_set()

    def draft(self, context: Context, batch: Batch, prefill: bool) -> None:
        """Decode ``batch`` in a draft context.

        Whether mapped weights were lost is left to the decode that verifies: a draft that was made
        from nothing is a wrong draft.
        """
        self.run(context, batch, prefill, check_weights=False)

    def run(
        self, context: Context, batch: Batch, prefill: bool, *, check_weights: bool = True
    ) -> None:
        """Decode ``batch`` in ``context``.

        Raises:
            TurnCancelledError: before or in the middle of it.
            StreamReadError: weights could not be read.
            DecodeError: llama.cpp failed.
        """
        self._store.begin_decode(prefill=prefill)
        # Only now: a cancel before begin_decode is on the flag, one after it in the store.
        if self._cancelled.is_set():
            raise TurnCancelledError(started=False)
        failure: DecodeError | None = None
        done = False
        try:
            done = context.decode(batch)
        except DecodeError as err:
            failure = err
        finally:
            read_error = self._store.end_decode()
            if read_error is None and check_weights:
                read_error = self._lost_weights()
        if self.observer is not None:
            self.observer(batch.first_position, prefill, len(batch))
        if read_error is not None:
            raise StreamReadError(
                f"weights could not be read: {read_error}; no token was made from them, "
                "and the session starts over at the next prompt"
            ) from failure
        if failure is not None:
            raise failure
        # A cancelled decode may have been cut short in ways that its return code does not tell.
        if not done or self._cancelled.is_set():
            raise TurnCancelledError(started=True)
