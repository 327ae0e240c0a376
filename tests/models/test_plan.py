"""Planning: arithmetic with given numbers, and the real thing on tiny models."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moestream import EngineConfig, Session, StreamingConfig
from moestream.gguf import GGUFModel, read_model
from moestream.models.estimate import (
    NEIGHBOUR_OVERLAP,
    compute_seconds,
    estimate_speed,
    hit_range,
)
from moestream.models.plan import (
    MemoryPlan,
    Verdict,
    memory_plan,
    plan_model,
    used_bytes,
    verdict_of,
)
from moestream.streaming.layout import expert_layout
from moestream.telemetry.system import MemoryState
from tests.conftest import ModelMaker
from tests.fixtures import FIXTURE_ARCHS

MIB = 2**20
GIB = 2**30

sizes = st.integers(1, 2**45)


def machine(available: int) -> MemoryState:
    return MemoryState(
        total=available, available=available, cgroup_limit=None, cgroup_available=None
    )


def planned(
    model: GGUFModel, state: MemoryState, config: EngineConfig | None = None
) -> tuple[MemoryPlan, Verdict]:
    layout = expert_layout(model)
    memory = memory_plan(model, layout, config or EngineConfig(), n_ctx=512, state=state)
    return memory, verdict_of(memory, streamable=True)


@settings(deadline=None)
@given(cache=sizes, experts=sizes, cliff=sizes)
def test_hit_range(cache: int, experts: int, cliff: int) -> None:
    hits = hit_range(cache_bytes=cache, expert_bytes=experts, cliff_bytes=cliff)
    assert 0.0 <= hits.low <= hits.high <= 1.0
    if cache >= experts:
        assert hits.low == hits.high == 1.0
    elif cache < cliff:
        assert hits.low == hits.high == 0.0
    else:
        assert hits.low == pytest.approx(cache / experts)
        assert hits.high >= NEIGHBOUR_OVERLAP


@settings(deadline=None)
@given(
    compute=st.floats(1e-4, 10),
    demand=sizes,
    rate=st.floats(1e6, 1e11),
    cache=sizes,
    experts=sizes,
)
def test_estimates_are_ordered(
    compute: float, demand: int, rate: float, cache: int, experts: int
) -> None:
    hits = hit_range(cache_bytes=cache, expert_bytes=experts, cliff_bytes=demand)
    speed = estimate_speed(compute_s=compute, token_demand=demand, disk_bytes_per_s=rate, hits=hits)
    assert 0 <= speed.io_s_low <= speed.io_s_high
    assert speed.tok_s_low <= speed.tok_s_high <= speed.tok_s_resident
    assert speed.tok_s_no_cache <= speed.tok_s_low * 1.000001


def test_a_known_case() -> None:
    # 528 MiB a token at 800 MiB/s, half of all experts cached, 250 ms of compute.
    hits = hit_range(cache_bytes=8 * GIB, expert_bytes=16 * GIB, cliff_bytes=600 * MIB)
    speed = estimate_speed(
        compute_s=0.25, token_demand=528 * MIB, disk_bytes_per_s=800 * MIB, hits=hits
    )
    assert speed.io_s_high == pytest.approx(0.33)
    assert speed.tok_s_low == pytest.approx(1 / 0.58)
    assert speed.tok_s_high == pytest.approx(4.0)


def test_types_without_a_rate_take_the_slowest() -> None:
    used = {"Q4_K": 100.0, "Q6_K": 50.0, "F32": 10.0}
    assert compute_seconds(used, {"Q4_K": 10.0, "Q6_K": 5.0}) == pytest.approx(22.0)
    assert compute_seconds(used, {}) is None


@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
def test_the_verdict_follows_memory(tiny: ModelMaker, arch: str) -> None:
    model = read_model(tiny(arch))
    need, verdict = planned(model, machine(64 * GIB))
    assert verdict == "resident"
    # What is needed besides experts, and the floor of a small machine.
    base = need.dense + need.context.total + need.checkpoint + need.page_tables + 512 * MIB
    assert planned(model, machine(base + need.cliff))[1] == "streams"
    assert planned(model, machine(base + need.cliff - 1))[1] == "thrashes"
    assert planned(model, machine(base + need.layer_demand - 1))[1] == "too-big"


def test_a_control_group_counts(tiny: ModelMaker) -> None:
    model = read_model(tiny("qwen3moe"))
    state = MemoryState(
        total=64 * GIB,
        available=64 * GIB,
        cgroup_limit=256 * MIB,
        cgroup_available=130 * MIB,
    )
    memory, verdict = planned(model, state)
    assert memory.source == "cgroup"
    assert verdict == "too-big"


def test_ceiling_and_override_count(tiny: ModelMaker) -> None:
    model = read_model(tiny("qwen3moe"))
    config = EngineConfig(n_expert_used=2, streaming=StreamingConfig(cache_ceil_mb=1))
    memory, _verdict = planned(model, machine(64 * GIB), config)
    usual, _verdict = planned(model, machine(64 * GIB))
    assert memory.auto_cache == MIB
    assert memory.limited_by == "ceiling"
    assert memory.token_demand * 2 == usual.token_demand


@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
def test_what_is_planned_is_what_is_taken(tiny: ModelMaker, arch: str) -> None:
    path = tiny(arch)
    config = EngineConfig(model=path, n_ctx=512, threads=1)
    memory = plan_model(path, config, seconds=0).memory
    with Session(config) as session:
        report = session.load_report
    assert memory.dense == report.dense_bytes
    assert memory.token_demand == report.token_demand_bytes
    assert memory.layer_demand == report.layer_demand_bytes
    # llama.cpp says both in hundredths of a MiB.
    assert memory.context.kv == pytest.approx(report.kv_bytes, abs=0.02 * MIB)
    assert memory.context.recurrent == pytest.approx(report.recurrent_bytes, abs=0.02 * MIB)
    assert report.compute_bytes / 2 < memory.context.compute < report.compute_bytes * 2


@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
def test_weights_a_token_uses(tiny: ModelMaker, arch: str) -> None:
    model = read_model(tiny(arch))
    layout = expert_layout(model)
    some = sum(used_bytes(model, layout, 1).values())
    more = sum(used_bytes(model, layout, 3).values())
    assert more - some == pytest.approx(layout.token_demand(2))
    assert more <= layout.dense_bytes + layout.token_demand(3)
