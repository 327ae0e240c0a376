"""What drafts cost and what the head is worth, in tokens, as seen with more or less hope.

A *view* is how what is not known is taken: so many standard deviations better than expected, or
worse. Costs become tokens at the rate at which the text is going (see :mod:`.decision`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from moestream.speculation.governor.beliefs import Beliefs
from moestream.speculation.governor.decision import DraftValue

__all__ = ["CAUTION", "EXPECT", "FEAR", "HOPE", "Appraisal"]

#: What is no risk at all; what a step must pay by; what it is expected to; what a probe may hope.
FEAR: Final = -1.0
CAUTION: Final = -0.5
EXPECT: Final = 0.0
HOPE: Final = 1.0

#: The head's value is worked out again after so many steps, or as soon as beliefs have moved.
_REFRESH: Final = 16
_MOVED: Final = 0.05


class Appraisal:
    """Prices of one step, and values that last as long as beliefs do."""

    def __init__(self, beliefs: Beliefs) -> None:
        """Nothing priced yet."""
        self._beliefs = beliefs
        width = beliefs.width
        self.plain_ms = 0.0
        self.gain = 1.0
        self._extra = [0.0] * (width + 1)
        self._extra_sd = [0.0] * (width + 1)
        self._costs: dict[float, list[float]] = {}
        self._each: list[float] = []
        self._values: dict[float, DraftValue] = {}
        self._valued_at = -_REFRESH
        self._valued_for = [0.0] * (width + 3)

    def price(self, gain: float) -> None:
        """Begin a step of a text that goes ``gain`` times as fast as plain decoding."""
        costs = self._beliefs.costs
        steps = costs.steps()
        self.gain, self.plain_ms = gain, steps[0]
        rate = gain / steps[0]
        self._extra = [(ms - steps[0]) * rate for ms in steps]
        self._extra_sd = [ms * rate for ms in costs.steps_sd()]
        self._costs = {}

    def cost(self, view: float) -> list[float]:
        """Tokens that a decode with 0, 1, ... drafts costs more than a plain one."""
        found = self._costs.get(view)
        if found is None:
            found = [
                max(extra - view * sd, 0.1 * extra)
                for extra, sd in zip(self._extra, self._extra_sd, strict=True)
            ]
            self._costs[view] = found
        return found

    def first_guess(self) -> float:
        """Plain steps that the head's first guess takes."""
        return self._beliefs.costs.drafts("mtp")[0] / self.plain_ms

    def appraise(self, step: int) -> None:
        """Forget what the head was found to be worth, where beliefs have moved since."""
        rate = self.gain / self.plain_ms
        drafts = [ms * rate for ms in self._beliefs.costs.drafts("mtp")]
        typical = self._beliefs.head.typical().tolist()
        now = [*typical, self._extra[1], self._extra[-1], drafts[0]]
        moved = max(abs(a - b) for a, b in zip(now, self._valued_for, strict=True)) > _MOVED
        if moved or step - self._valued_at >= _REFRESH:
            self._valued_at, self._valued_for = step, now
            self._each = [b - a for a, b in pairwise([0.0, *drafts])]
            self._values = {}

    def value(self, view: float) -> DraftValue:
        """What the head is worth; call :meth:`appraise` first."""
        found = self._values.get(view)
        if found is None:
            rows = [b - a for a, b in pairwise(self.cost(view))]
            head = self._beliefs.head
            found = DraftValue(head.table(view), head.bins, self._each, rows)
            self._values[view] = found
        return found
