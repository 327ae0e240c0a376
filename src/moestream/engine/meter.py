"""Measures decodes: clocks of this thread and process, counters of the expert store."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING

from moestream.engine.events import Phase, TokenMetrics
from moestream.telemetry.system import cpu_time_and_major_faults

if TYPE_CHECKING:
    from moestream._core import Counters, ExpertStore

__all__ = ["Meter"]

_MS = 1e-6


@dataclass(slots=True)
class _Sum:
    wall_ns: int = 0
    thread_ns: int = 0
    overhead_ns: int = 0
    cpu_s: float = 0.0
    majflt: int = 0
    rows: int = 0
    draft_ns: int = 0
    draft_bytes: int = 0


class Meter:
    """Sums up the decodes of one step (a token, or a whole prefill).

    Store counters are read once a step, after its last decode: what lanes did between two steps
    (reading ahead) counts to the later one, and nothing is lost. Decodes of a draft source are not
    bracketed by :meth:`begin` and :meth:`end`: their time is drafting, their bytes are the step's.
    """

    def __init__(self, store: ExpertStore, *, streamed: bool, overlap: bool) -> None:
        """Measure decodes whose experts come from ``store``."""
        self._store = store
        self._streamed = streamed
        self._overlap = overlap
        self._sum = _Sum()
        self._counters: Counters = store.counters()
        self._usage = cpu_time_and_major_faults()
        self._started = 0
        self._thread_started = 0
        self._ended = perf_counter_ns()
        self._drafting_since = 0
        #: Drafting since the last decode: part of what passes before the next one.
        self._drafting_ns = 0
        self._drafting_bytes = 0

    def restart(self) -> None:
        """Begin a generation: forget what went before."""
        self._sum = _Sum()
        self._drafting_ns = 0
        self._counters = self._store.counters()
        self._ended = perf_counter_ns()

    def begin(self) -> None:
        """Just before a decode."""
        self._usage = cpu_time_and_major_faults()
        self._started = perf_counter_ns()
        self._sum.overhead_ns += self._started - self._ended
        self._sum.draft_ns += self._drafting_ns
        self._drafting_ns = 0
        self._thread_started = thread_time_ns()

    def end(self, rows: int) -> None:
        """Just after it."""
        thread = thread_time_ns()
        self._ended = perf_counter_ns()
        total = self._sum
        total.thread_ns += thread - self._thread_started
        total.wall_ns += self._ended - self._started
        total.rows += rows
        usage = cpu_time_and_major_faults()
        if usage is not None and self._usage is not None:
            total.cpu_s += usage[0] - self._usage[0]
            total.majflt += usage[1] - self._usage[1]

    def begin_drafting(self) -> None:
        """Just before the draft source is asked or told something."""
        self._drafting_since = perf_counter_ns()
        self._drafting_bytes = self._store.counters()["read_bytes"]

    def end_drafting(self) -> None:
        """Just after it."""
        self._drafting_ns += perf_counter_ns() - self._drafting_since
        self._sum.draft_bytes += self._store.counters()["read_bytes"] - self._drafting_bytes

    def take(
        self, phase: Phase, *, batch: int = 1, drafted: int = 0, accepted: int = 0
    ) -> TokenMetrics:
        """What the step cost, and what it brought; the next one starts from here."""
        if phase == "prefill":
            # The draft source has read the prompt by now, which is no cost of the first decode.
            now = perf_counter_ns()
            self._sum.overhead_ns += now - self._ended
            self._ended = now
            self._sum.draft_ns += self._drafting_ns
            self._drafting_ns = 0
        total, self._sum = self._sum, _Sum()
        before, self._counters = self._counters, self._store.counters()
        after = self._counters
        stall_ns = 0
        if self._streamed and self._overlap:
            stall_ns = max(total.wall_ns - total.thread_ns, 0)
        elif self._streamed:
            stall_ns = min(after["wait_ns"] - before["wait_ns"], total.wall_ns)
        measured = self._usage is not None
        return TokenMetrics(
            phase=phase,
            rows=total.rows,
            wall_ms=total.wall_ns * _MS,
            stall_ms=stall_ns * _MS,
            compute_ms=(total.wall_ns - stall_ns) * _MS,
            io_ms=(after["read_ns"] - before["read_ns"]) * _MS,
            loop_overhead_ms=total.overhead_ns * _MS,
            cpu_ms=total.cpu_s * 1e3 if measured else None,
            majflt=total.majflt if measured else None,
            read_bytes=after["read_bytes"] - before["read_bytes"],
            hits=after["hits"] - before["hits"],
            misses=after["misses"] - before["misses"],
            dropped=after["dropped"] - before["dropped"],
            routed=after["routed"] - before["routed"],
            evictions=after["evictions"] - before["evictions"],
            rereads=after["rereads"] - before["rereads"],
            guard_loads=after["guard_loads"] - before["guard_loads"],
            batch=batch,
            drafted=drafted,
            accepted=accepted,
            draft_ms=total.draft_ns * _MS,
            draft_read_bytes=total.draft_bytes,
            mgmt_ms=(after["install_ns"] - before["install_ns"]) * _MS,
        )

    @property
    def measures_usage(self) -> bool:
        """Whether CPU time and page faults can be measured here."""
        return self._usage is not None
