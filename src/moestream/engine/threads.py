"""How many compute threads: a short measurement at load.

No rule of thumb survives a busy neighbour, two hyperthreads of one core or a quota, so a token is
decoded a few times with each candidate and the fastest wins; fewer threads win what is too close
to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from time import perf_counter

from moestream.engine.report import ThreadTiming

__all__ = ["can_start", "candidates", "choose", "measure"]

_RUNS = 3
_BUDGET_S = 3.0
# Threads that may be started between the trial and the first decode.
_SPARE = 3
# Within this much of the fastest, fewer threads are taken.
_NOISE = 0.05


def candidates(cpus: int) -> tuple[int, ...]:
    """Thread counts worth trying on ``cpus`` usable cores: powers of two, half, and all."""
    counts = {1, cpus, max(cpus // 2, 1)}
    power = 2
    while power < cpus:
        counts.add(power)
        power *= 2
    return tuple(sorted(counts))


def can_start(count: int) -> bool:
    """Whether the system lets this process run ``count`` threads more than it has.

    OpenMP ends the process when it cannot start one, so it is tried beforehand, with some to
    spare for threads that others start in between.
    """
    done = Event()
    started: list[Thread] = []
    try:
        for _ in range(count - 1 + _SPARE if count > 1 else 0):
            thread = Thread(target=done.wait)
            thread.start()
            started.append(thread)
    except RuntimeError:
        return False
    finally:
        done.set()
        for thread in started:
            thread.join()
    return True


def measure(
    counts: tuple[int, ...],
    decode: Callable[[int], None],
    *,
    clock: Callable[[], float] = perf_counter,
) -> tuple[ThreadTiming, ...]:
    """Time ``decode(threads)`` for each count: best of a few runs, most threads first.

    The first run of all warms caches and is not counted. What a slow model leaves untried when
    the time is up has no timing.
    """
    started = clock()
    best: dict[int, float] = {}
    decode(counts[-1])
    for threads in reversed(counts):
        for run in range(_RUNS):
            if best and run > 0 and clock() - started > _BUDGET_S:
                break
            before = clock()
            decode(threads)
            elapsed = clock() - before
            best[threads] = min(best.get(threads, elapsed), elapsed)
        if clock() - started > _BUDGET_S:
            break
    return tuple(ThreadTiming(threads, best[threads] * 1e3) for threads in sorted(best))


def choose(timings: tuple[ThreadTiming, ...]) -> int:
    """The fewest threads whose time lies within the noise of the fastest."""
    fastest = min(timing.ms for timing in timings)
    return min(timing.threads for timing in timings if timing.ms <= fastest * (1 + _NOISE))
