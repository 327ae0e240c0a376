"""How much may be lost: to find something out, and to being wrong.

Two limits, both counted in *plain steps* (the time of one, now).

:class:`ProbeBudget` is the share of time that probes may lose (1 % by default), as a stock that
fills while time goes by. A probe is a step that is not expected to pay. Probes come in short phases
(Cascade, arXiv:2506.20675, tests and then sets); where a phase has shown nothing the next waits
twice as long, up to a bound, for what does not pay now may pay later: there is no permanent off.

:class:`LossLedger` bounds what is lost over *any* stretch of text, whatever the reason. It adds up
what each step took more than plain decoding would have for the same tokens, over the worst stretch
that ends now (Page's test, with a window), and lets nothing be staked that could, if no draft of it
were confirmed, go beyond the limit. Bad luck is no loss, so a stretch is held against what was
confirmed *and* against what a pessimist, by what is known by now, expects of the same drafts; the
better of the two counts. While a head is known to be good a few rejections change neither much;
when it turns bad both say so after two or three steps, in hindsight for the whole stretch. So a
bound of 2 % over 256 tokens survives a sudden change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from moestream.speculation.governor.records import Source

__all__ = ["LossLedger", "ProbeBudget", "Stake"]

_PHASE: Final = 3
_FIRST_WAIT: Final = 16
_LONGEST_WAIT: Final = 96


class ProbeBudget:
    """A stock of plain steps that may be lost on probes."""

    def __init__(self, share: float, window: int) -> None:
        """``share`` of the time, filled up as after ``window`` plain steps."""
        self.share = share
        self._most = share * window
        self.stock = self._most
        self.lost = 0.0
        self.time = 0.0
        self.probes = 0
        self._wait = _FIRST_WAIT
        self._next = 0
        self._left = _PHASE

    def passed(self, steps: float) -> None:
        """Time went by: so many plain steps of it."""
        self.time += steps
        self.stock = min(self.stock + self.share * steps, self._most)

    def spend(self, steps: float) -> None:
        """A probe has lost so much; what it gained counts for nothing."""
        if steps > 0.0:
            self.stock -= steps
            self.lost += steps

    def due(self, position: int) -> bool:
        """Whether a probe may be made at this token of the text."""
        return self.stock > 0.0 and position >= self._next

    def probed(self, position: int) -> None:
        """One was made; after a few in a row there is a pause, twice as long each time."""
        self.probes += 1
        self._left -= 1
        if self._left == 0:
            self._left = _PHASE
            self._next = position + self._wait
            self._wait = min(2 * self._wait, _LONGEST_WAIT)

    def hopeful(self) -> None:
        """Something pays, or costs have changed: the next pause is a short one again."""
        self._wait = _FIRST_WAIT
        self._next = min(self._next, 0)


@dataclass(frozen=True, slots=True)
class Stake:
    """A step that drafted.

    Attributes:
        position: token of the text after it.
        took: time it took, in plain steps.
        tokens: confirmed.
        source: who drafted.
        verified: drafts that were verified.
        match: tokens that matched, if it was lookup.
    """

    position: int
    took: float
    tokens: int
    source: Source
    verified: int
    match: int


class LossLedger:
    """What was lost over the worst stretch of text that ends here."""

    def __init__(self, floor: float, window: int, margin: float = 0.85) -> None:
        """Never below ``floor`` of plain decoding over ``window`` tokens.

        ``margin`` of what that allows is used: costs are estimates.
        """
        self._window = window
        self.limit = margin * window * (1.0 / floor - 1.0)
        self._stakes: deque[Stake] = deque()
        # At least what the worst stretch has really lost: it forgets nothing.
        self._bound = 0.0

    def add(self, stake: Stake) -> None:
        """A step that drafted is over."""
        stakes = self._stakes
        stakes.append(stake)
        self._bound = max(self._bound + stake.took - stake.tokens, 0.0)
        while stakes[0].position <= stake.position - self._window:
            stakes.popleft()

    def left(self, position: int, need: float, feared: Callable[[Stake], float]) -> float:
        """Plain steps that may still be lost at this place of the text.

        Args:
            position: the place.
            need: more than this need not be told apart.
            feared: the tokens that a stake would confirm at worst, by what is known now.
        """
        if self.limit - self._bound >= need:
            return self.limit - self._bound
        worst = lost = fear = 0.0
        oldest = position - self._window
        for stake in reversed(self._stakes):
            if stake.position <= oldest:
                break
            lost += stake.took - stake.tokens
            fear += stake.took - feared(stake)
            worst = max(worst, min(lost, fear))
        if not self._stakes or self._stakes[-1].position <= oldest:
            self._bound = 0.0
        return self.limit - worst
