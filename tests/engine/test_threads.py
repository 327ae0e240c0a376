from __future__ import annotations

from moestream.engine.report import ThreadTiming
from moestream.engine.threads import candidates, choose, measure


class FakeClock:
    """A clock that only a decode advances."""

    def __init__(self, cost: dict[int, list[float]]) -> None:
        self.now = 0.0
        self.cost = cost
        self.calls: list[int] = []

    def __call__(self) -> float:
        return self.now

    def decode(self, threads: int) -> None:
        self.calls.append(threads)
        costs = self.cost[threads]
        self.now += costs.pop(0) if len(costs) > 1 else costs[0]


def test_candidates_lie_between_one_and_all() -> None:
    assert candidates(1) == (1,)
    assert candidates(2) == (1, 2)
    assert candidates(6) == (1, 2, 3, 4, 6)
    assert candidates(64) == (1, 2, 4, 8, 16, 32, 64)


def test_the_best_run_counts_and_the_first_is_a_warm_up() -> None:
    clock = FakeClock({2: [0.9, 0.1, 0.05, 0.2], 1: [0.3, 0.08, 0.3]})
    timings = measure((1, 2), clock.decode, clock=clock)
    assert [(t.threads, round(t.ms)) for t in timings] == [(1, 80), (2, 50)]
    assert clock.calls == [2, 2, 2, 2, 1, 1, 1]


def test_a_slow_model_is_not_measured_to_the_end() -> None:
    clock = FakeClock({4: [5.0], 2: [5.0], 1: [5.0]})
    timings = measure((1, 2, 4), clock.decode, clock=clock)
    assert [timing.threads for timing in timings] == [4]
    assert len(clock.calls) == 2


def test_fewer_threads_win_inside_the_noise() -> None:
    timings = (ThreadTiming(1, 10.4), ThreadTiming(2, 10.0), ThreadTiming(4, 30.0))
    assert choose(timings) == 1
    assert choose((ThreadTiming(1, 12.0), ThreadTiming(2, 10.0))) == 2
