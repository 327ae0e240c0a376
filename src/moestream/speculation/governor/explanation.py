"""What the governor did and why, as numbers: counted while it runs, read at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from moestream.speculation.governor.beliefs import Beliefs
from moestream.speculation.governor.decision import break_even
from moestream.speculation.governor.exploration import ProbeBudget
from moestream.speculation.governor.records import SOURCES, Reason, Source

__all__ = ["GovernorSummary", "Tally", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernorSummary:
    """A generation, or several, as the governor saw them.

    Attributes:
        steps: how many there were.
        tokens: tokens they confirmed.
        share: of the steps, by who drafted (``"off"`` for nobody) and how many drafts were
            verified; adds up to 1.
        reasons: of the steps, by why they were planned so.
        expected_gain: how much faster than plain decoding the text was expected to be, step by
            step, before it was known what would be confirmed; 0.1 is 10 %.
        realised_gain: how much faster it was, as far as the price of a plain step is known.
        break_even: for each source, the acceptance above which it would pay now; ``None`` where
            it would not at any.
        acceptance: for each source, the probability that its first draft is confirmed, as now
            believed (of lookup: at its most frequent match length).
        probe_share: share of the time lost on probes that did not pay.
        probe_budget: what it may be.
        probes: how many there were.
        row_cost: what a decode of 1, 2, ... rows takes now, relative to one row.
        row_mib: MiB that it is expected to read.
        ms_per_mib: what a MiB costs in waiting, now.
        armed_cost: share of speed lost by being ready to draft, as measured by the engine;
            ``None`` if it was not.
        informed: whether the session began with what an earlier one had learned.
        note: what happened to the stored knowledge, if there is something to say.
    """

    steps: int
    tokens: int
    share: Mapping[tuple[str, int], float]
    reasons: Mapping[Reason, float]
    expected_gain: float
    realised_gain: float
    break_even: Mapping[Source, float | None]
    acceptance: Mapping[Source, float]
    probe_share: float
    probe_budget: float
    probes: int
    row_cost: tuple[float, ...]
    row_mib: tuple[float, ...]
    ms_per_mib: float
    armed_cost: float | None
    informed: bool
    note: str | None

    @property
    def lines(self) -> tuple[str, ...]:
        """The same for people, one thought a line."""
        off = self.share.get(("off", 0), 0.0)
        drafted = sorted(
            ((part, who, width) for (who, width), part in self.share.items() if who != "off"),
            reverse=True,
        )
        did = ", ".join(f"{who} {width}: {100 * part:.0f} %" for part, who, width in drafted[:6])
        lines = [
            f"governor: {100 * off:.0f} % of {self.steps} steps plain"
            + (f"; {did}" if did else ""),
            f"gain over plain decoding: expected {100 * self.expected_gain:+.1f} %, "
            f"realised {100 * self.realised_gain:+.1f} %",
        ]
        for source, even in self.break_even.items():
            now = f"{100 * self.acceptance[source]:.0f} % now"
            lines.append(
                f"{source} pays above {100 * even:.0f} % acceptance ({now})"
                if even is not None
                else f"{source} would not pay if every draft were accepted ({now})"
            )
        lines.append(
            f"probes that did not pay: {100 * self.probe_share:.2f} % of the time "
            f"(allowed {100 * self.probe_budget:g} %), {self.probes} of them"
        )
        if self.armed_cost is not None:
            lines.append(f"being ready to draft costs {100 * self.armed_cost:.1f} % of speed")
        if self.note is not None:
            lines.append(self.note)
        return tuple(lines)


class Tally:
    """Counts behind a summary."""

    __slots__ = ("_long_gain", "_long_steps", "expected", "plain_steps", "reasons", "steps",
                 "tokens", "widths")  # fmt: skip

    _RATE = 1 / 512

    def __init__(self) -> None:
        """Nothing yet."""
        self.steps = self.tokens = 0
        self.widths: Counter[tuple[str, int]] = Counter()
        self.reasons: Counter[Reason] = Counter()
        #: Tokens expected, and time in plain steps.
        self.expected = self.plain_steps = 0.0
        self._long_gain: dict[str, float] = {}
        self._long_steps = 0.0

    def add(
        self, source: Source | None, verified: int, reason: Reason, *, tokens: int,
        expected: float, plain_steps: float,
    ) -> None:  # fmt: skip
        """A step that took as long as ``plain_steps`` plain ones."""
        self.steps += 1
        self.tokens += tokens
        self.widths[source or "off", verified if source else 0] += 1
        self.reasons[reason] += 1
        self.expected += expected
        self.plain_steps += plain_steps
        keep = 1.0 - self._RATE
        self._long_steps = keep * self._long_steps + plain_steps
        for name in self._long_gain:
            self._long_gain[name] *= keep
        if source is not None:
            won = self._long_gain.get(source, 0.0) + tokens - plain_steps
            self._long_gain[source] = won

    def gain_of(self, source: Source) -> float:
        """Share of the time that drafting with it saved over the last several hundred steps."""
        won = self._long_gain.get(source, 0.0)
        return won / self._long_steps if self._long_steps > 0.0 else 0.0


def summarise(
    tally: Tally, beliefs: Beliefs, budget: ProbeBudget, *, armed_cost: float | None,
    informed: bool, note: str | None,
) -> GovernorSummary:  # fmt: skip
    """All that is known about a run, in one record."""
    steps, time = max(tally.steps, 1), tally.plain_steps or 1.0
    costs = beliefs.costs
    rows = costs.steps()
    plain = rows[0] or 1.0
    even: dict[Source, float | None] = {}
    for source in SOURCES:
        if source in beliefs.sources:
            drafting = [0.0, *costs.drafts(source)]
            even[source] = break_even(
                [(ms - plain + d) / plain for ms, d in zip(rows, drafting, strict=True)]
            )
    return GovernorSummary(
        steps=tally.steps,
        tokens=tally.tokens,
        share={key: count / steps for key, count in sorted(tally.widths.items())},
        reasons={reason: count / steps for reason, count in tally.reasons.items()},
        expected_gain=tally.expected / time - 1.0 if tally.steps else 0.0,
        realised_gain=tally.tokens / time - 1.0 if tally.steps else 0.0,
        break_even=even,
        acceptance={source: beliefs.acceptance(source) for source in even},
        probe_share=budget.lost / max(budget.time, 1.0),
        probe_budget=budget.share,
        probes=budget.probes,
        row_cost=tuple(ms / plain for ms in rows),
        row_mib=tuple(costs.bytes.values()),
        ms_per_mib=costs.price.level,
        armed_cost=armed_cost,
        informed=informed,
        note=note,
    )
