"""Log probabilities of the tokens that are said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from moestream.engine.events import TokenEvent
from moestream.llama.logits import Logits

__all__ = ["LogprobTable"]

#: What stands for a token that cannot be said at all: JSON has no infinity.
_NEVER: Final = -9999.0

#: Token text, its bytes, log probability, alternatives.
Row = list[Any]


class LogprobTable:
    """Sees the logits before a token is chosen, and is asked about the token afterwards."""

    def __init__(self, alternatives: int, token_bytes: Callable[[int], bytes]) -> None:
        """Report so many ``alternatives`` for each token."""
        self._alternatives = alternatives
        self._token_bytes = token_bytes
        self._logits: dict[int, npt.NDArray[np.float64]] = {}

    def observe(self, position: int, logits: Logits) -> None:
        """Logits that follow ``position``; a copy is kept, for the next decode overwrites them."""
        self._logits[position] = logits.astype(np.float64)

    def row(self, event: TokenEvent) -> Row | None:
        """What is known of a token; ``None`` for one that is not part of the text."""
        logits = self._logits.pop(event.position - 1, None)
        if logits is None or event.token_id is None:
            return None
        if event.finish_reason == "stop" and not event.text:
            return None
        top = float(logits.max())
        logits -= top + np.log(np.exp(logits - top).sum())
        count = min(self._alternatives, len(logits))
        best = np.argpartition(logits, -count)[-count:] if count else np.empty(0, np.int64)
        best = best[np.argsort(-logits[best], kind="stable")]
        return [
            *self._entry(event.token_id, logits),
            [self._entry(int(token), logits) for token in best],
        ]

    def _entry(self, token: int, logits: npt.NDArray[np.float64]) -> Row:
        data = self._token_bytes(token)
        value = max(float(logits[token]), _NEVER)
        return [data.decode("utf-8", "replace"), list(data), value]
