from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moestream.streaming.budget import (
    AutoCache,
    auto_cache,
    cliff_warning,
    drop_warning,
    page_table_bytes,
    usable_memory,
    widest_ubatch,
)
from moestream.telemetry.system import MemoryState

MIB = 2**20
GIB = 2**30


def state(
    available: int | None,
    total: int | None = 24 * GIB,
    cgroup: tuple[int, int] | None = None,
) -> MemoryState:
    limit, free = cgroup if cgroup is not None else (None, None)
    return MemoryState(total=total, available=available, cgroup_limit=limit, cgroup_available=free)


def test_a_machine_keeps_five_percent_or_half_a_gib() -> None:
    large = usable_memory(state(20 * GIB), reserved=0)
    assert large.floor == int(24 * GIB * 0.05)
    assert large.bytes == 20 * GIB - large.floor
    small = usable_memory(state(3 * GIB, total=4 * GIB), reserved=0)
    assert small.floor == 512 * MIB
    assert small.source == "machine"


def test_a_control_group_keeps_three_percent_or_128_mib() -> None:
    usable = usable_memory(state(20 * GIB, cgroup=(3 * GIB, 2 * GIB)), reserved=0)
    assert usable.source == "cgroup"
    assert usable.floor == 128 * MIB
    assert usable.bytes == 2 * GIB - 128 * MIB
    assert usable_memory(state(20 * GIB, cgroup=(10 * GIB, GIB)), reserved=0).floor == int(
        10 * GIB * 0.03
    )


def test_the_tighter_of_the_two_counts() -> None:
    assert usable_memory(state(GIB, cgroup=(12 * GIB, 10 * GIB)), reserved=0).source == "machine"


def test_what_is_promised_is_taken_off_and_nothing_goes_below_zero() -> None:
    before = usable_memory(state(8 * GIB), reserved=0).bytes
    assert usable_memory(state(8 * GIB), reserved=GIB).bytes == before - GIB
    assert usable_memory(state(8 * GIB), reserved=99 * GIB).bytes == 0


def test_a_machine_that_does_not_say_gives_half() -> None:
    usable = usable_memory(state(None), reserved=0)
    assert (usable.bytes, usable.source) == (12 * GIB, "unknown")
    assert usable_memory(state(None, total=None), reserved=0).bytes == 0


def test_auto_is_the_smallest_of_three() -> None:
    assert auto_cache(10, ceiling=None, all_experts=100) == AutoCache(10, "memory")
    assert auto_cache(10, ceiling=5, all_experts=100) == AutoCache(5, "ceiling")
    assert auto_cache(10, ceiling=50, all_experts=7) == AutoCache(7, "model")
    assert auto_cache(10, ceiling=50, all_experts=100) == AutoCache(10, "memory")


def test_page_tables_take_a_five_hundredth() -> None:
    assert page_table_bytes(512 * MIB, 4096) == MIB + 8


@given(
    budget=st.integers(0, 10**10),
    n_expert=st.integers(1, 512),
    used=st.integers(1, 16),
    size=st.integers(1, 10**8),
    n_ctx=st.integers(1, 10**6),
)
def test_the_width_is_the_widest_that_fits(
    budget: int, n_expert: int, used: int, size: int, n_ctx: int
) -> None:
    used = min(used, n_expert)
    width = widest_ubatch(
        budget=budget, n_expert=n_expert, n_expert_used=used, max_expert_bytes=size, n_ctx=n_ctx
    )

    def fits(n: int) -> bool:
        return min(n * used, n_expert) * size <= budget

    assert width in {2**i for i in range(10)}
    assert width <= n_ctx or width == 1
    assert width == 1 or fits(width)
    if width < 512 and width * 2 <= n_ctx:
        assert not fits(width * 2)


def test_a_cache_below_one_tokens_demand_is_warned_about_with_a_number_that_is_enough() -> None:
    def warn(budget: int) -> str | None:
        return cliff_warning(
            budget=budget * MIB,
            token_demand=500 * MIB,
            layer_demand=50 * MIB,
            needed=500 * MIB + MIB // 2,
        )

    warning = warn(100)
    assert warning is not None
    assert "100 MiB is below what one token routes (500.0 MiB)" in warning
    assert "exactly zero" in warning
    assert "501 MiB or more" in warning
    almost = warn(460)
    assert almost is not None
    assert "next to nothing" in almost
    assert warn(501) is None


@pytest.mark.parametrize(("fraction", "used"), [(0.0, 2), (0.5, 8), (1.0, 5)])
def test_dropping_is_quiet_where_it_is_off_or_experts_are_many(fraction: float, used: int) -> None:
    assert drop_warning(fraction=fraction, n_expert_used=used) is None


def test_dropping_few_experts_is_warned_about_with_the_real_share() -> None:
    warning = drop_warning(fraction=0.8, n_expert_used=4)
    assert warning is not None
    assert "up to 20%" in warning
    assert "60% together" in warning
