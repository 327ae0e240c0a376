"""A campaign's progress on stderr, a line where something has happened."""

from __future__ import annotations

from moestream.bench.campaign import PlannedRun
from moestream.bench.eta import Eta, in_words
from moestream.bench.result import RunResult
from moestream.cli.console import note

__all__ = ["CampaignNotes"]


class CampaignNotes:
    """A :class:`moestream.bench.runner.Watcher` that prints."""

    def __init__(self) -> None:
        """Nothing said yet."""
        self._waiting = False

    def begin(self, run: PlannedRun, done: int, total: int, eta: Eta | None) -> None:
        """A run begins."""
        self._waiting = False
        left = "" if eta is None else f"; {eta}"
        note(f"[{done + 1}/{total}] round {run.round + 1}, {run.workload}, {run.cell}{left}")

    def waiting(self, text: str) -> None:
        """It waits; said once a run, for the numbers in it change at every look."""
        if not self._waiting:
            self._waiting = True
            note(f"  {text}")

    def end(self, run: RunResult, seconds: float) -> None:
        """It has been made."""
        took = f" in {in_words(seconds)}"
        if run.failure is not None:
            note(f"  failed{took}: {run.failure}", style="yellow")
            return
        rate = run.metric("tok_s")
        parts = ["no rate measured" if rate is None else f"{rate:.2f} tok/s"]
        hits, acceptance = run.metric("hit_pct"), run.metric("acceptance_pct")
        if hits is not None:
            parts.append(f"{hits:.1f} % hits")
        if acceptance is not None:
            parts.append(f"{acceptance:.1f} % accepted")
        if run.entry is not None and run.entry.gate_expired:
            parts.append("the wait had run out")
        note(f"  {', '.join(parts)}{took}")

    def say(self, text: str) -> None:
        """Something that a reader has to know."""
        note(f"note: {text}")
