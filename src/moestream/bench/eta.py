"""How long a campaign will still take, said no better than it is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from moestream.bench.campaign import PlannedRun
from moestream.bench.result import RunResult

__all__ = ["Eta", "estimate", "in_words"]


@dataclass(frozen=True, slots=True)
class Eta:
    """An estimate.

    Attributes:
        seconds: for all runs that are left.
        guessed: how many of them are of a cell and workload that never ran; each is taken for a
            mean one.
        left: how many runs are left.
    """

    seconds: float
    guessed: int
    left: int

    def __str__(self) -> str:
        text = f"about {in_words(self.seconds)} left"
        if not self.guessed:
            return text
        share = "all" if self.guessed == self.left else f"{self.guessed} of {self.left}"
        return f"{text}, guessing for {share}"


def estimate(
    left: Sequence[PlannedRun], runs: Iterable[RunResult], seconds: Iterable[float | None]
) -> Eta | None:
    """From how long each cell took on each workload so far; ``None`` before the first run."""
    known: dict[tuple[str, str], list[float]] = {}
    every: list[float] = []
    for run, took in zip(runs, seconds, strict=True):
        if took is not None:
            known.setdefault((run.cell, run.workload), []).append(took)
            every.append(took)
    if not every:
        return None
    total, guessed = 0.0, 0
    for planned in left:
        own = known.get((planned.cell, planned.workload))
        guessed += own is None
        values = every if own is None else own
        total += sum(values) / len(values)
    return Eta(total, guessed, len(left))


def in_words(seconds: float) -> str:
    """A duration with as many digits as an estimate deserves."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
