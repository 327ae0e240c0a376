"""What a route trace says, on traces small enough to count by hand, and against simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from moestream.errors import ConfigError
from moestream.telemetry.reading import read_route_trace
from moestream.telemetry.trace_report import TraceReport, trace_report
from tests.telemetry.recordings import Routing, routing, trace_text
from tests.telemetry.test_stack_distance import simulated_hits

MIB = 2**20


@pytest.fixture
def report(tmp_path: Path) -> object:
    def make(
        rows: Sequence[Routing],
        *,
        at: Sequence[int] = (),
        sizes: Mapping[int, int] | None = None,
        **preamble: object,
    ) -> TraceReport:
        path = tmp_path / "trace.csv"
        path.write_text(trace_text(rows, sizes=sizes, preamble=preamble))
        return trace_report(read_route_trace(path), sizes=at)

    return make


def token(step: int, layer: int, experts: Sequence[int], **more: int) -> list[Routing]:
    return [routing(step, layer, expert, slot=i, **more) for i, expert in enumerate(experts)]


def test_hits_bytes_and_popularity_by_layer(report) -> None:  # type: ignore[no-untyped-def]
    rows = [
        *token(0, 0, [1, 2], residency=0, size=MIB),
        *token(0, 1, [3, 4], residency=0, size=2 * MIB),
        *token(1, 0, [1, 2]),
        *token(1, 1, [3, 5]),
        *token(2, 0, [1, 7], residency=2),
        *token(2, 1, [8, 9], residency=0, size=2 * MIB),
    ]
    found = report(rows, n_expert=10, n_expert_used=2, n_layer=2, model="m", arch="a")
    assert (found.model, found.arch, found.rows, found.turns) == ("m", "a", 12, 1)
    assert [phase.phase for phase in found.phases] == ["decode"]
    decode = found.phases[0]
    assert decode.tokens == 3
    first, second = decode.layers
    assert (first.tokens, first.routings, first.touched, first.n_expert) == (3, 6, 3, 10)
    assert (first.accesses, first.hits, first.prefetched) == (6, 4, 2)
    assert first.read_bytes == 2 * MIB
    assert (first.expert_bytes, second.expert_bytes) == (MIB, 2 * MIB)
    assert second.hit_rate == pytest.approx(2 / 6)
    assert first.reuse == pytest.approx(3 / 4)  # token 1 both, token 2 one of two
    assert second.reuse == pytest.approx(1 / 4)
    assert first.top_share == pytest.approx(3 / 6)  # of ten experts the first one
    assert first.popularity[0] == 0.0
    assert first.popularity[-1] == 1.0
    assert decode.hit_rate == pytest.approx(6 / 12)
    assert decode.mib_per_token == pytest.approx(10 / 3)
    assert found.token_bytes == 2 * 3 * MIB
    assert found.all_expert_bytes == 10 * 3 * MIB


def test_an_expert_counts_once_in_a_pass(report) -> None:  # type: ignore[no-untyped-def]
    rows = [
        routing(0, 0, 1, phase=0, residency=0, size=5),
        routing(1, 0, 1, phase=0, residency=1),
        routing(2, 0, 1, phase=0, residency=1),
        routing(3, 0, 2, phase=0, residency=1),
    ]
    found = report(rows)
    layer = found.phases[0].layers[0]
    assert (layer.routings, layer.accesses, layer.hits) == (4, 2, 1)
    assert layer.reuse is None  # that is a matter of decodes


def test_dropped_routings_are_no_lookups(report) -> None:  # type: ignore[no-untyped-def]
    rows = [
        routing(0, 0, 1, residency=0, dropped=1),
        routing(0, 0, 2, slot=1, residency=1),
        routing(1, 0, 3, residency=0, size=4),
        routing(1, 0, 2, slot=1, residency=1),
    ]
    layer = report(rows).phases[0].layers[0]
    assert layer.dropped == pytest.approx(1 / 4)
    assert layer.hit_rate == pytest.approx(2 / 3)


def test_phases_stand_apart(report) -> None:  # type: ignore[no-untyped-def]
    rows = [*token(0, 0, [1], phase=0), *token(1, 0, [1], phase=0), *token(2, 0, [1])]
    found = report(rows)
    assert [(phase.phase, phase.tokens) for phase in found.phases] == [
        ("prefill", 2),
        ("decode", 1),
    ]
    assert found.phases[1].layers[0].reuse is None  # the token before was the prefill's
    assert found.phase("decode") is found.phases[1]


def test_reuse_after_a_rejected_draft(report) -> None:  # type: ignore[no-untyped-def]
    rows = [
        # A verify batch of positions 5 to 7; 7 is rejected and comes again.
        *token(5, 0, [1, 2]), *token(6, 0, [1, 3]), *token(7, 0, [8, 9]),
        *token(5, 1, [0, 1]), *token(6, 1, [0, 1]), *token(7, 1, [0, 1]),
        *token(7, 0, [1, 3]), *token(8, 0, [1, 3]),
        *token(7, 1, [0, 1]), *token(8, 1, [0, 1]),
    ]  # fmt: skip
    layers = report(rows).phases[0].layers
    # 6 shares one with 5, the rejected 7 none with 6, the second 7 both with 6, 8 both with that.
    assert layers[0].reuse == pytest.approx((1 + 0 + 2 + 2) / 8)
    assert layers[1].reuse == 1.0


def test_turns_are_not_neighbours(report) -> None:  # type: ignore[no-untyped-def]
    rows = [*token(5, 0, [1]), *token(6, 0, [1], turn=1), *token(7, 0, [1], turn=1)]
    found = report(rows)
    assert found.turns == 2
    assert found.phases[0].layers[0].reuse == 1.0  # of 7; 6 has no neighbour in its turn


@pytest.mark.parametrize("counted", [True, False])
def test_the_draft_context_stands_apart(report, counted: bool) -> None:  # type: ignore[no-untyped-def]
    rows = [*token(0, 0, [1]), *token(0, 1, [1]), *token(1, 2, [1]), *token(1, 0, [1])]
    preamble = {"n_layer": 3, "n_layer_nextn": 1} if counted else {"n_layer": 2}
    found = report(rows, sizes={0: MIB, 1: MIB, 2: MIB}, n_expert_used=1, **preamble)
    decode = found.phases[0]
    assert found.n_layer == 2
    assert [layer.layer for layer in decode.layers] == [0, 1]
    assert [layer.layer for layer in decode.draft_layers] == [2]
    assert decode.draft_layers[0].draft
    assert found.token_bytes == 2 * MIB
    assert decode.tokens == 2


def test_the_cache_table_against_simulation(report) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(3)
    rows, batches, decodes = [], [], []
    sizes = {0: 3 * MIB, 1: 5 * MIB}
    for step in range(120):
        for layer in (0, 1):
            experts = sorted(rng.choice(12, 3, replace=False, p=PULL).tolist())
            rows += token(step, layer, experts[::-1], phase=int(step >= 20))
            batches.append({layer * 100 + expert for expert in experts})
            decodes += [step >= 20] * 3
    size = [sizes[item // 100] for item in range(200)]
    capacities = [MIB * mib for mib in (0, 10, 24, 30, 41, 60, 80, 200)]
    found = report(rows, at=capacities, sizes=sizes, n_expert=12)
    assert [point.cache_bytes for point in found.cache] == capacities
    items = [item for batch in batches for item in sorted(batch)]
    for point in found.cache:
        hits = np.array(simulated_hits(batches, size, point.cache_bytes))
        assert point.hit_rate == pytest.approx(hits[decodes].mean())
        missed = sum(
            size[item] for item, hit, counts in zip(items, hits, decodes, strict=True)
            if counts and not hit
        )  # fmt: skip
        assert point.mib_per_token == pytest.approx(missed / MIB / 100)
    assert found.cache[-1].hit_rate == found.ceiling
    rates = [point.hit_rate for point in found.curve]
    assert rates == sorted(rates)
    assert found.curve[-1].cache_bytes == found.all_expert_bytes


PULL = np.arange(12, 0, -1) / np.arange(1, 13).sum()


def test_sizes_to_look_at_without_any(report) -> None:  # type: ignore[no-untyped-def]
    rows = token(0, 0, [1, 2])
    found = report(rows, sizes={0: 100 * MIB}, n_expert=256)
    mib = [point.cache_bytes // MIB for point in found.cache]
    assert mib[0] == 520
    assert mib[-1] == 26000
    assert mib == sorted(set(mib))
    small = report(rows, sizes={0: 1000}, n_expert=4)
    assert [point.cache_bytes for point in small.cache] == [MIB]


def test_without_sizes_there_is_no_curve(report) -> None:  # type: ignore[no-untyped-def]
    found = report(token(0, 0, [1, 2]))
    assert found.cache == found.curve == ()
    assert found.ceiling is None
    assert found.token_bytes is None


def test_absurd_sizes(report) -> None:  # type: ignore[no-untyped-def]
    huge = 10**11
    found = report(
        token(0, 0, [1, 2]), sizes=dict.fromkeys(range(300), huge), n_expert=2**20, at=[2**80]
    )
    assert found.cache[0].hit_rate == 0.0
    assert found.all_expert_bytes == huge * 2**20


def test_numbers_far_apart(report) -> None:  # type: ignore[no-untyped-def]
    rows = [
        routing(2**31 - 1, 32767, 2**31 - 1, turn=2**31 - 1),
        routing(0, 0, 0),
        routing(2**31 - 1, 32767, 2**31 - 1, turn=2**31 - 1),
    ]
    decode = report(rows).phases[0]
    assert decode.tokens == 2
    assert [layer.layer for layer in decode.layers] == [0, 32767]


def test_nothing_routed(report) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match="no row"):
        report([])
