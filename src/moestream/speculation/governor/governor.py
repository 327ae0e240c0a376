"""The governor: who drafts in the next step, how far, and how much of it is verified.

    plan = governor.plan(ngram_match=5)     # before drafting
    governor.keep_drafting(1, 0.93)         # MTP: after each guess, by cumulative confidence
    rows = governor.cut(drafted)            # before verification
    governor.observe(StepRecord(...))       # what it took and what came of it

It has no clock and no model: times and counts come in records, so the same records always give the
same decisions. Everything is decided in tokens: a cost is what it takes, in plain steps, times the
gain over plain decoding at which the text is going (see :mod:`.decision`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

import numpy as np

from moestream.config import MAX_DRAFT
from moestream.speculation.governor.appraisal import CAUTION, EXPECT, FEAR, HOPE, Appraisal
from moestream.speculation.governor.beliefs import Beliefs
from moestream.speculation.governor.calibration import bin_of
from moestream.speculation.governor.decision import best_cut
from moestream.speculation.governor.explanation import GovernorSummary, Tally, summarise
from moestream.speculation.governor.exploration import LossLedger, ProbeBudget, Stake
from moestream.speculation.governor.records import (
    Plan,
    Source,
    StepRecord,
    check_settings,
)

__all__ = ["Governor"]

#: What plain decoding must keep, over how many tokens.
_FLOOR, _WINDOW = 0.98, 256
#: Plain steps before anything is tried, if nothing is known: from, to, and until how uncertain.
_FIRST_LOOK, _LONGEST_LOOK, _SURE = 4, 16, 0.06
#: A plain step is due, to see what one costs, where it would lose less than this share of the time
#: since the last; and after so much time, in plain steps, whatever it loses.
_RECHECK, _RECHECK_AT_LAST = 0.002, 64.0
#: Tokens that the head must cautiously be expected to bring to begin drafting, and may to go on.
_BEGIN, _GO_ON = 0.02, -0.03
#: How much of the gain of late is forgotten with each step.
_GAIN_RATE = 1 / 32
#: Share of what probes may still lose that a single one may.
_TRIFLE = 0.2
#: Where something pays, one step of so many may go further in hope of more, if it is so much.
_HOPE_EVERY, _HOPE_LEAST = 4, 0.02
#: While the head does not draft, whether it should is asked once in so many steps.
_LOOK_EVERY = 3
#: Plain steps of what may be lost that stakes leave, for drafts that nobody verifies (they tell
#: whether a run of rejections was luck), and that probes leave, for what may go wrong otherwise.
_RESERVE, _PROBE_RESERVE = 0.8, 2.0
#: A decode as surprising as this means that costs have changed.
_SURPRISE = 6.0
#: Steps before it may be said that a source does not earn its memory.
_VERDICT = 256


class Governor:
    """Decides, step by step, for one session."""

    def __init__(
        self,
        sources: Collection[str] = ("ngram", "mtp"),
        max_width: int = 3,
        *,
        regret_budget: float = 0.01,
    ) -> None:
        """Nothing learned yet: see :meth:`restore`.

        Args:
            sources: who can draft: ``"ngram"``, ``"mtp"`` or both.
            max_width: widest draft.
            regret_budget: share of time that may be lost on probes.

        Raises:
            ConfigError: a setting is out of range.
        """
        check_settings(sources, max_width, regret_budget, MAX_DRAFT)
        self.sources = frozenset(sources)
        self.width = max_width
        self.beliefs = Beliefs(sources, max_width)
        self.budget = ProbeBudget(regret_budget, _WINDOW)
        self.ledger = LossLedger(_FLOOR, _WINDOW)
        self.tally = Tally()
        self._appraisal = Appraisal(self.beliefs)
        self._informed = False
        self._note: str | None = None
        self._position = 0
        self._since_plain = 0.0
        self._drafting = False
        self._gain = [1.0, 1.0]  # tokens and plain steps of late
        # What past stakes are feared to bring, and the state of beliefs that this is true for.
        self._feared: dict[tuple[Source, int], list[float]] = {}
        self._feared_at = -1
        self._begin(Plan(None, 0, "first look"))

    # -- deciding ---------------------------------------------------------------------------------

    def plan(self, ngram_match: int = 0, *, available: int | None = None,
             room: int | None = None) -> Plan:  # fmt: skip
        """Who drafts in the next step, and how far at most.

        Args:
            ngram_match: tokens that lookup has matched; 0 if it has nothing to propose.
            available: drafts that it could propose; as many as wanted if not given.
            room: tokens that may be drafted in this step at most.
        """
        width = self.width if room is None else max(min(self.width, room), 0)
        self._match = max(ngram_match, 0) if "ngram" in self.sources else 0
        self._begin(Plan(None, 0, "does not pay"))
        self._plan = self._choose(width, width if available is None else min(width, available))
        return self._plan

    def _begin(self, plan: Plan) -> None:
        """Nothing is known of the step that is being made."""
        self._plan = plan
        self._view = EXPECT
        self._bins: list[int] = []
        self._alive: list[float] = []
        self._said = self._seen = 1.0
        self._greedy = 0.0
        self._left_now: float | None = None

    def _choose(self, width: int, looked_up: int) -> Plan:
        if self._looks_first():
            return Plan(None, 0, "first look")
        if width == 0:
            return Plan(None, 0, "does not pay")
        self._appraisal.price(self.gain)
        looks = self._drafting or self.tally.steps % _LOOK_EVERY == 0
        looks = looks and "mtp" in self.sources
        if not looks and not self._match:
            return Plan(None, 0, "does not pay")
        most = self._stakable()
        plans: list[tuple[Plan, float]] = []
        if self._match:
            plans += self._plan_lookup(min(looked_up, most))
        if looks:
            plans += self._plan_head(min(width, most))
        if not plans:
            return Plan(None, 0, "capped" if most == 0 else "does not pay")
        best, view = max(
            plans, key=lambda each: (each[0].reason == "pays" or self._greedy > 0.0, each[0].gain)
        )
        if best.reason == "pays" and self._recheck_due(best.gain):
            return Plan(None, 0, "recheck")
        self._view = view
        if best.source == "ngram":
            self._alive = self.beliefs.matches.chain(self._match, best.width)
        return best

    def _looks_first(self) -> bool:
        seen = self.beliefs.costs.compute.seen
        if self._informed or seen >= _LONGEST_LOOK:
            return False
        return seen < _FIRST_LOOK or self.beliefs.costs.plain_doubt() > _SURE

    def _recheck_due(self, gain: float) -> bool:
        """Whether it is time for a plain step, to see what one costs, although another pays."""
        since = self._since_plain
        doubted = any(
            c.doubted
            for c in (
                self.beliefs.costs.compute,
                self.beliefs.costs.bytes,
                self.beliefs.costs.price,
            )
        )
        return since >= _RECHECK_AT_LAST or gain < _RECHECK * since or (doubted and since > 0)

    @property
    def gain(self) -> float:
        """How much faster than plain decoding the text is going, at least 1."""
        return max(self._gain[0] / self._gain[1], 1.0)

    def _stakable(self) -> int:
        """Most drafts that could all be rejected without losing too much over a window."""
        gain, extra = self.gain, self._appraisal.cost(EXPECT)
        left = (self._left() - _RESERVE) * gain
        most = 0
        while most < self.width and extra[most + 1] <= left:
            most += 1
        return most

    def _left(self) -> float:
        """Plain steps that may be lost, by the ledger; worked out once a step."""
        if self._left_now is None:
            if self._feared_at != self.beliefs.changes:
                self._feared, self._feared_at = {}, self.beliefs.changes
            need = max(self._appraisal.cost(EXPECT)) / self.gain
            need += max(_RESERVE, _PROBE_RESERVE + self.budget.stock)
            self._left_now = self.ledger.left(self._position, need, self._fear)
        return self._left_now

    def _fear(self, stake: Stake) -> float:
        """Tokens that a past stake would bring at worst, by what is known now."""
        key = (stake.source, stake.match)
        found = self._feared.get(key)
        if found is None:
            if stake.source == "ngram":
                alive = self.beliefs.matches.chain(stake.match, self.width, CAUTION)
            else:
                alive = np.cumprod(self.beliefs.head.typical(CAUTION)).tolist()
            found = self._feared[key] = list(accumulate([1.0, *alive]))
        return found[stake.verified]

    def _plan_lookup(self, most: int) -> list[tuple[Plan, float]]:
        for view in (CAUTION, EXPECT, HOPE):
            if view == HOPE and not self.budget.due(self._position):
                break
            alive, cost = (
                self.beliefs.matches.chain(self._match, most, view),
                self._appraisal.cost(view),
            )
            width, net = best_cut(alive, cost, most)
            if not width:
                continue
            if view == CAUTION:
                return [(Plan("ngram", width, "pays", net), view)]
            feared = self.beliefs.matches.chain(self._match, width, CAUTION)
            if self._appraisal.cost(CAUTION)[width] - sum(feared) <= self._probe_limit():
                return [(Plan("ngram", width, "probe", net), view)]
        return []

    def _plan_head(self, most: int) -> list[tuple[Plan, float]]:
        self._appraisal.appraise(self.tally.steps)
        net = self._appraisal.value(CAUTION).begin
        if most and net > (_GO_ON if self._drafting else _BEGIN):
            self._drafting = True
            self._greedy = max(self._appraisal.value(EXPECT).begin, 0.0)
            if self._may_hope(self._greedy):
                return [(Plan("mtp", self.width, "probe", self._greedy), HOPE)]
            return [(Plan("mtp", self.width, "pays", self._greedy), EXPECT)]
        self._drafting = False
        first = self._appraisal.first_guess()
        left = self._left() - first
        if left < 0.0 or first > self.budget.stock:
            return []
        for view in (EXPECT, HOPE):
            if view == HOPE and not (left > _RESERVE and self.budget.due(self._position)):
                break
            net = self._appraisal.value(view).begin
            if net > 0.0:
                return [(Plan("mtp", self.width if most else 1, "probe", net), view)]
        return []

    def _may_hope(self, expected: float) -> bool:
        """Whether to draft further than is expected to pay, to find out whether it does."""
        if self.budget.stock < 1.0 or self.tally.steps % _HOPE_EVERY:
            return False
        return self._appraisal.value(HOPE).begin > expected + _HOPE_LEAST

    def keep_drafting(self, position: int, cumulative: float) -> bool:
        """Whether to make another guess, after ``position`` of them (MTP).

        To be called after every guess, the last one included.

        Args:
            position: guesses made so far; at least 1.
            cumulative: product of the probabilities that the head gave each of them.
        """
        own = cumulative / self._said if self._said > 0.0 else 0.0
        self._said = cumulative
        said = bin_of(own)
        k = min(position, self.width) - 1
        self._bins.append(said)
        self._alive.append(
            (self._alive[-1] if self._alive else 1.0) * self.beliefs.head.survival(k, said)
        )
        self._seen *= self.beliefs.head.survival(k, said, self._view)
        if position >= self._plan.width:
            return False
        return self._appraisal.value(self._view).at(position, self._seen) > 0.0

    def cut(self, drafted: int) -> int:
        """How many of the drafts to verify, now that they are known; 0 makes it a plain step."""
        if self._plan.source is None or drafted <= 0:
            self._alive = []
            return 0
        while len(self._alive) < drafted:  # nobody has said how sure the head was
            self.keep_drafting(len(self._alive) + 1, float("nan"))
        most = min(drafted, self._plan.width)
        # What even a pessimist expects to pay is no stake.
        sure, _ = best_cut(self._chain(most, FEAR), self._appraisal.cost(FEAR), most)
        most = max(min(most, self._stakable()), sure)
        if self._plan.reason == "probe" and not self._greedy:
            count, _ = best_cut(
                self._chain(drafted, self._view), self._appraisal.cost(self._view), most
            )
            return self._affordable(count)
        alive = self._chain(drafted, EXPECT)
        view = min(self._view, EXPECT)
        count, _ = best_cut(self._chain(drafted, view), self._appraisal.cost(view), most)
        return self._widen(alive, most, count)

    def _affordable(self, count: int) -> int:
        """So many rows of a probe that a cautious view of it does not lose too much."""
        alive, cost = self._chain(count, CAUTION), self._appraisal.cost(CAUTION)
        most = self._probe_limit()
        while count and cost[count] - sum(alive[:count]) > most:
            count -= 1
        return count

    def _probe_limit(self) -> float:
        """Tokens that a single probe may lose."""
        left = self._left() - _PROBE_RESERVE
        return max(min(_TRIFLE * self.budget.stock, left), 0.0) * self.gain

    def _chain(self, drafted: int, view: float) -> list[float]:
        """Probability that each of the drafts in hand is confirmed."""
        if self._plan.source == "ngram":
            return self.beliefs.matches.chain(self._match, drafted, view)
        alive, found = 1.0, []
        for k, said in enumerate(self._bins[:drafted]):
            alive *= self.beliefs.head.survival(min(k, self.width - 1), said, view)
            found.append(alive)
        return found

    def _widen(self, alive: Sequence[float], most: int, count: int) -> int:
        """More rows, if they may be hoped to pay and trying that is affordable."""
        if most <= count:
            return count
        wider, _ = best_cut(self._chain(most, HOPE), self._appraisal.cost(HOPE), most)
        cost = self._appraisal.cost(EXPECT)
        lost = sum(alive[:count]) - cost[count] - sum(alive[:wider]) + cost[wider]
        if wider <= count or lost > _TRIFLE * self.budget.stock * self.gain:
            return count
        if self._plan.reason != "probe":
            self.budget.spend(lost / self.gain)
        return wider

    # -- learning ---------------------------------------------------------------------------------

    def observe(self, record: StepRecord) -> None:
        """Learn from the step that was planned last; a record that makes no sense is left out."""
        if not record.is_sound:
            self._plan = Plan(None, 0, "does not pay")
            return
        if abs(self.beliefs.learn(record)) > _SURPRISE:
            self.budget.hopeful()
        verified, plan = record.verified, self._plan
        steps = self.beliefs.costs.steps()
        plain = steps[0]
        took = steps[min(verified, self.width)]
        if record.source is not None and record.drafted:
            took += self.beliefs.costs.drafts(record.source)[min(record.drafted, self.width) - 1]
        took /= plain
        expected = 1.0 + sum(self._alive[:verified])
        self._position += record.tokens
        self._account(record, took)
        self._since_plain = 0.0 if verified == 0 else self._since_plain + took
        self.tally.add(
            record.source, verified, plan.reason, tokens=record.tokens,
            expected=expected, plain_steps=took,
        )  # fmt: skip
        keep = 1.0 - _GAIN_RATE
        self._gain = [
            keep * self._gain[0] + _GAIN_RATE * expected,
            keep * self._gain[1] + _GAIN_RATE * took,
        ]

    def _account(self, record: StepRecord, took: float) -> None:
        """Book what was lost, and whether that was luck."""
        self.budget.passed(took)
        if record.source is None or not record.drafted:
            return
        match = record.ngram_match if record.source == "ngram" else 0
        self.ledger.add(
            Stake(self._position, took, record.tokens, record.source, record.verified, match)
        )
        if self._plan.reason == "probe":
            self.budget.probed(self._position)
            brings = sum(self._chain(record.verified, EXPECT))
            self.budget.spend(took - 1.0 - (brings - self._greedy) / self.gain)
        elif record.verified:
            self.budget.hopeful()

    def expect_overlap(self, shared: float) -> None:
        """The hook has seen neighbouring tokens share this part (0 to 1) of their experts."""
        if 0.0 <= shared <= 1.0:
            self.beliefs.costs.expect_overlap(shared)

    def start_conversation(self) -> None:
        """Another text begins: costs stay what they are, acceptance may not."""
        self.beliefs.start_conversation()

    # -- telling and remembering ------------------------------------------------------------------

    def does_not_pay(self, source: Source, armed_cost: float) -> bool:
        """Whether a source has not earned what being ready for it costs, so it can be released.

        Args:
            source: who drafts.
            armed_cost: share of speed lost by being ready, as the engine has measured it.
        """
        return self.tally.steps >= _VERDICT and self.tally.gain_of(source) < armed_cost

    def explain(self, armed_cost: float | None = None) -> GovernorSummary:
        """What was done so far, and why; ``armed_cost`` as in :meth:`does_not_pay`."""
        return summarise(
            self.tally, self.beliefs, self.budget, armed_cost=armed_cost,
            informed=self._informed, note=self._note,
        )  # fmt: skip

    def save(self, key: str) -> str:
        """What was learned, as text; ``key`` names model, machine and threads."""
        return self.beliefs.save(key)

    def restore(self, text: str, key: str) -> str | None:
        """Begin with what was learned before; why not, if it cannot be used.

        Never fails: what cannot be read leaves the governor uninformed, and it says so.
        """
        refused = self.beliefs.restore(text, key)
        if refused is not None:
            self._note = f"{refused}; the governor began uninformed"
            return self._note
        self._informed = self.beliefs.costs.compute.level > 0.0
        return None
