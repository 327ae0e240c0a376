"""The route trace of real sessions: what it says agrees with counters, metrics and the model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moestream import ConfigError, EngineConfig, Session, SpeculationConfig, StreamingConfig
from moestream.engine.events import TokenEvent
from moestream.gguf import GGUFModel, read_model
from moestream.streaming.recipes import recipe_for
from moestream.telemetry import route_trace
from moestream.telemetry.reading import RouteTraceFile, read_route_trace
from moestream.telemetry.route_trace import COLUMNS, NOT_A_BENCHMARK, ROUTE_ENTRY, RouteTrace
from tests.conftest import ModelMaker
from tests.engine.helpers import RESIDENT, assert_same_bits, open_session
from tests.fixtures import FIXTURE_ARCHS
from tests.fixtures.reference import Reference
from tests.fixtures.tiny import NEXTN_ARCHS
from tests.identity.matrix import FIRST, N_UBATCH, Cell, bound_the_cache, conversation

MISS, HIT, PREFETCHED = 0, 1, 2
PROMPT = FIRST[:21]  # a full prefill step and a rest
N_TOKENS = 7
#: Slices of whole pages, so that the bytes of the slices are the bytes read.
PAGES = {"expert_type": "F16", "alignment": 4096}


def cell(**changes: Any) -> Cell:
    settings: dict[str, Any] = {
        "cache": "some", "overlap": False, "prefetch": 0, "lanes": 2, "dense": "anon", "split": 1,
    }  # fmt: skip
    return Cell(**(settings | changes))


@contextmanager
def traced(session: Session, path: Path) -> Iterator[RouteTrace]:
    """Trace ``session`` for the time of the block."""
    trace = RouteTrace(path, protected=session.load_report.paths)
    opened = session._opened
    try:
        trace.begin(opened.source, mtp=session.config.speculation.source == "mtp")
        opened.loop.evaluator.observer = trace.record
        yield trace
    finally:
        opened.loop.evaluator.observer = None
        trace.close()


def generate(session: Session, trace: RouteTrace, prompt: list[int], n: int) -> list[TokenEvent]:
    trace.begin_turn()
    return list(session.generate(prompt, max_tokens=n))


def first_of_decode(file: RouteTraceFile, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Indices of the first row of each expert a layer; ``rows`` are of one decode."""
    found = np.flatnonzero(rows)
    keys = np.stack([file.layer[found], file.expert[found]])
    return found[np.unique(keys, axis=1, return_index=True)[1]]


@pytest.mark.parametrize("arch", ["qwen3moe", "qwen35moe", "gpt-oss"])
@pytest.mark.parametrize("cache", ["none", "one layer", "some", "large"])
def test_rows_are_what_the_metrics_count(
    tiny: ModelMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str, cache: Any
) -> None:
    serial = cell(cache=cache)
    bound_the_cache(monkeypatch, serial)
    options = PAGES | ({"n_embd": 256, "n_ff": 256} if arch == "gpt-oss" else {})
    path = tmp_path / "trace"
    with open_session(tiny(arch, **options), serial.streaming(), n_ubatch=64) as session:
        with traced(session, path) as trace:
            turns = [generate(session, trace, PROMPT, N_TOKENS)]
            answer = [event.token_id for event in turns[0] if event.token_id is not None]
            turns.append(generate(session, trace, [*PROMPT, *answer, 31, 32], N_TOKENS))
        k, reused = session.load_report.n_expert_used, session.last_summary
        assert reused is not None
        start = [0, reused.reused_tokens]
    file = read_route_trace(path)
    assert file.n_rows
    assert not file.cut
    for turn, events in enumerate(turns):
        for event in events:
            metrics = event.metrics
            decode = metrics.phase == "decode"
            rows = (file.turn == turn) & (file.decode == decode)
            if decode:
                rows &= file.step == event.position - 1
                assert (file.slot[rows].reshape(-1, k) == np.arange(k)).all()
            assert rows.sum() == metrics.routed
            misses = rows & (file.residency == MISS)
            assert misses.sum() == metrics.misses
            assert file.expert_bytes[rows].sum() == metrics.read_bytes
            assert (file.expert_bytes[rows] > 0).sum() == metrics.misses
            if decode or turn:  # one decode, in which an expert of a layer counts once
                first = first_of_decode(file, rows)
                assert (file.residency[first] == HIT).sum() == metrics.hits
        steps = np.unique(file.step[file.turn == turn])
        assert list(steps) == list(range(start[turn], events[-1].position))
    assert not file.dropped.any()
    assert not np.isnan(file.weight).any()
    sizes = {layer: size.expert_bytes for layer, size in file.layers.items()}
    read = file.expert_bytes > 0
    assert all(
        sizes[i] == n for i, n in zip(file.layer[read], file.expert_bytes[read], strict=True)
    )


def test_lanes_that_run_beside_compute(
    tiny: ModelMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlapped = cell(overlap=True, prefetch=2, cache="some")
    bound_the_cache(monkeypatch, overlapped)
    path = tmp_path / "trace"
    with open_session(tiny("qwen35moe", **PAGES), overlapped.streaming()) as session:
        store = session._opened.source.store
        store.wait_idle()
        before = store.counters()
        with traced(session, path) as trace:
            for _ in range(3):
                generate(session, trace, PROMPT, 12)
                session.reset()
        store.wait_idle()
        after = store.counters()
    file = read_route_trace(path)
    assert file.n_rows == after["routed"] - before["routed"]
    assert (file.residency == MISS).sum() == after["misses"] - before["misses"]
    ahead = file.residency == PREFETCHED
    assert ahead.sum() == after["prefetch_used"] - before["prefetch_used"]
    assert not file.expert_bytes[ahead].any()
    # The rest was read ahead.
    assert file.expert_bytes.sum() <= after["read_bytes"] - before["read_bytes"]


@pytest.mark.parametrize("in_prefill", [False, True])
def test_dropped_rows(
    tiny: ModelMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_prefill: bool
) -> None:
    lossy = cell()
    bound_the_cache(monkeypatch, lossy)
    streaming = lossy.streaming(drop_cold_experts=1.0, drop_in_prefill=in_prefill)
    path = tmp_path / "trace"
    with (
        open_session(tiny("qwen3moe", **PAGES), streaming) as session,
        traced(session, path) as trace,
    ):
        events = generate(session, trace, PROMPT, 20)
    file = read_route_trace(path)
    for decode, metrics in [
        (False, [events[0].metrics]),
        (True, [event.metrics for event in events[1:]]),
    ]:
        rows = file.decode == decode
        gone = rows & file.dropped
        assert gone.sum() == sum(m.dropped for m in metrics)
        assert (gone.sum() > 0) == (decode or in_prefill)
        assert (rows & ~file.dropped & (file.residency == MISS)).sum() == sum(
            m.misses for m in metrics
        )
        assert file.expert_bytes[rows].sum() == sum(m.read_bytes for m in metrics)
        assert not file.expert_bytes[gone].any()
        assert (file.residency[gone] == MISS).all()
    # Weights and experts are the router's, not what dropping made of them.
    k = session.load_report.n_expert_used
    weight, dropped = file.weight.reshape(-1, k), file.dropped.reshape(-1, k)
    assert (weight > 0).all()
    assert (np.diff(weight) <= 0).all()
    assert not dropped[:, 0].any()
    assert (weight[dropped] < (weight.mean(axis=1, keepdims=True) * np.ones(k))[dropped]).all()
    assert all(len(set(row)) == k for row in file.expert.reshape(-1, k))


@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
def test_ids_and_weights_are_the_routers_in_rank_order(
    tiny: ModelMaker, tmp_path: Path, arch: str
) -> None:
    model, path = tiny(arch), tmp_path / "trace"
    with open_session(model, cell(cache="large").streaming(), n_ubatch=64) as session:
        with traced(session, path) as trace:
            events = generate(session, trace, PROMPT, 2)
        token = events[0].token_id
        assert token is not None
    file, gguf = read_route_trace(path), read_model(model)
    k = session.load_report.n_expert_used
    recipe = recipe_for(arch).with_gating(gguf.get_int("expert_gating_func", 0))
    with Reference(
        model, routing_node=recipe.routing_node, weights_node=recipe.weights_node, mtp=False
    ) as reference:
        reference.decode(PROMPT)
        reference.decode([token])
        watched = reference.watched
    layers = sorted(set(file.layer))
    assert layers == sorted(watched.routing)
    for layer in layers:
        rows = file.layer == layer
        ids, weight = file.expert[rows].reshape(-1, k), file.weight[rows].reshape(-1, k)
        steps = file.step[rows].reshape(-1, k)
        assert (steps == steps[:, :1]).all()
        # A last layer may leave out rows that nobody wants the logits of.
        at = steps[:, 0]
        if layer != layers[-1]:
            assert list(at) == list(range(len(PROMPT) + 1))
        assert list(at[-2:]) == [len(PROMPT) - 1, len(PROMPT)]
        assert np.array_equal(ids, np.array(watched.routing[layer])[at])
        np.testing.assert_allclose(weight, np.array(watched.weights[layer])[at], atol=1e-5)
        score = weight + selection_bias(gguf, layer)[ids]
        assert (np.diff(score) <= 1e-6).all()


def selection_bias(gguf: GGUFModel, layer: int) -> np.ndarray[Any, Any]:
    """What a router adds to the probabilities to choose, but not to weight."""
    info = gguf.tensors.get(f"blk.{layer}.exp_probs_b.bias")
    if info is None:
        return np.zeros(gguf.get_int("expert_count"), np.float32)
    raw = gguf.paths[info.shard].read_bytes()[info.offset : info.offset + info.nbytes]
    return np.frombuffer(raw, np.float32)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("arch", ["qwen35moe", "gpt-oss", "glm4moe"])
def test_traced_output_is_the_same_to_the_last_bit(
    tiny: ModelMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str, overlap: bool
) -> None:
    streamed = cell(overlap=overlap, cache="one layer")
    with open_session(tiny(arch), RESIDENT, n_ubatch=N_UBATCH) as session:
        expected = conversation(session)
    bound_the_cache(monkeypatch, streamed)
    with (
        open_session(tiny(arch), streamed.streaming(), n_ubatch=N_UBATCH) as session,
        traced(session, tmp_path / "trace"),
    ):
        assert_same_bits(conversation(session), expected)
        assert session._opened.source.store.counters()["guard_loads"] == 0


def test_one_expert_a_token(tiny: ModelMaker, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    streaming = cell(cache="large").streaming()
    with (
        open_session(tiny("qwen3moe"), streaming, n_expert_used=1) as session,
        traced(session, path) as trace,
    ):
        generate(session, trace, PROMPT, 3)
    file = read_route_trace(path)
    assert file.number("n_expert_used") == 1
    assert set(file.slot) == {0}
    assert (file.weight > 0).all()


@pytest.mark.parametrize("arch", NEXTN_ARCHS)
def test_the_mtp_block_is_one_more_layer(tiny: ModelMaker, tmp_path: Path, arch: str) -> None:
    model, path = tiny(arch, nextn=1), tmp_path / "trace"
    config = EngineConfig(
        model=model,
        n_ctx=256,
        n_ubatch=16,
        threads=1,
        streaming=StreamingConfig(moe_stream=True, cache_mb=64),
        speculation=SpeculationConfig(source="mtp", draft=2),
    )
    with Session(config) as session, traced(session, path) as trace:
        before = session._opened.source.store.counters()
        generate(session, trace, PROMPT, 12)
        after = session._opened.source.store.counters()
        n_layer, k = session.load_report.n_layer, session.load_report.n_expert_used
    file = read_route_trace(path)
    assert file.number("n_layer") == n_layer + 1
    assert file.number("n_layer_nextn") == 1
    assert set(file.layers) == set(range(n_layer + 1))
    assert file.layers[n_layer].expert_bytes > 0
    head = file.layer == n_layer
    assert head.any()
    assert (file.slot[head].reshape(-1, k) == np.arange(k)).all()
    assert file.n_rows == after["routed"] - before["routed"]
    assert (file.residency == MISS).sum() == after["misses"] - before["misses"]
    assert not np.isnan(file.weight).any()
    # The head is at most the draft ahead of the last position that the trunk has verified.
    assert file.step[head].max() <= file.step[~head].max() + 2


def test_preamble_says_what_was_traced(tiny: ModelMaker, tmp_path: Path) -> None:
    model, path = tiny("deepseek2"), tmp_path / "trace"
    with open_session(model, cell(cache="large").streaming()) as session:
        with traced(session, path):
            pass
        report, layout = session.load_report, session._opened.source.layout
    assert layout is not None
    lines = path.read_text().splitlines()
    assert lines[0] == "# route_trace v1"
    assert lines[-1] == ",".join(COLUMNS)
    file = read_route_trace(path)
    assert file.n_rows == 0
    assert file.preamble["note"] == NOT_A_BENCHMARK
    assert file.preamble["model"] == report.model
    assert file.preamble["arch"] == report.arch
    assert file.number("n_layer") == report.n_layer == len(file.layers)
    assert file.number("n_expert") == report.n_expert
    assert file.number("n_expert_used") == report.n_expert_used
    # The first layer of this model has no experts.
    assert file.layers[0].expert_bytes == 0
    assert file.layers[1].expert_bytes == layout.expert_bytes_of(1) > 0
    in_layers = sum(size.dense_bytes for size in file.layers.values())
    gguf = read_model(model)
    outside = sum(t.nbytes for name, t in gguf.tensors.items() if not name.startswith("blk."))
    assert in_layers + outside == report.dense_bytes


def test_cancelled_and_failed_decodes(
    tiny: ModelMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serial = cell(cache="one layer")
    bound_the_cache(monkeypatch, serial)
    path = tmp_path / "trace"
    with open_session(tiny("qwen3moe"), serial.streaming()) as session:
        store = session._opened.source.store
        before = store.counters()
        with traced(session, path) as trace:
            trace.begin_turn()
            generation = session.generate(PROMPT, max_tokens=9)
            next(generation)
            session.cancel()
            assert list(generation)[-1].finish_reason == "cancelled"
            store.inject_read_error(after_reads=3)
            trace.begin_turn()
            with pytest.raises(Exception, match="injected"):
                list(session.generate([7, 8, 9], max_tokens=3))
            generate(session, trace, PROMPT, 3)
        after = store.counters()
    file = read_route_trace(path)
    assert set(file.turn) == {0, 1, 2}
    assert file.n_rows == after["routed"] - before["routed"]
    assert (file.residency == MISS).sum() == after["misses"] - before["misses"]


def test_decodes_that_nobody_recorded_are_counted_as_lost(tiny: ModelMaker, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with open_session(tiny("qwen3moe"), cell(cache="large").streaming()) as session:
        trace = RouteTrace(path)
        trace.begin(session._opened.source)
        list(session.generate([1, 2, 3], max_tokens=2))
        session._opened.loop.evaluator.observer = trace.record
        generate(session, trace, [4, 5, 6, 7], 1)
        trace.close()
        trace.close()
        list(session.generate([4, 5, 6, 7], max_tokens=2))
    file = read_route_trace(path)
    assert trace.lost > 0
    assert file.number("lost") == trace.lost
    assert set(file.step) == {0, 1, 2, 3}


def test_last_rows_of_a_batch_have_the_last_positions() -> None:
    entries = np.zeros(2 * 3 + 2, ROUTE_ENTRY)
    entries["layer"] = [0, 0, 0, 0, 0, 0, 1, 1]
    entries["row"] = [0, 0, 1, 1, 2, 2, 0, 0]
    assert list(route_trace._rows_of_batch(entries, None)) == [0, 0, 1, 1, 2, 2, 2, 2]
    assert list(route_trace._rows_of_batch(entries, 3)) == [0, 0, 1, 1, 2, 2, 2, 2]
    assert list(route_trace._rows_of_batch(entries[6:], 5)) == [4, 4]
    assert list(route_trace._rows_of_batch(entries[6:], None)) == [0, 0]


ENTRY = st.tuples(
    st.one_of(st.just(0), st.integers(0, 2**63)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**20),
    st.integers(0, 2**32 - 1),
    st.one_of(st.floats(0, 1, width=32), st.floats(width=32)),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2),
    st.integers(0, 1),
    st.just(b""),
)


@settings(max_examples=60)
@given(rows=st.lists(ENTRY, min_size=1, max_size=20), turn=st.integers(0, 10**6))
def test_text_is_what_formatting_row_by_row_gives(rows: list[Any], turn: int) -> None:
    entries = np.array(rows, ROUTE_ENTRY)
    steps = entries["row"].astype(np.int64) + 5
    lines = route_trace._lines(entries, steps, turn, True).decode().splitlines()
    assert len(lines) == len(rows)
    for entry, step, line in zip(entries, steps, lines, strict=True):
        weight = float(entry["weight"])
        fields = line.split(",")
        text = fields.pop(COLUMNS.index("weight"))
        assert fields == [
            str(int(value))
            for value in (
                turn, 0, step, entry["layer"], entry["slot"], entry["expert"],
                entry["residency"], entry["expert_bytes"], entry["dropped"],
            )
        ]  # fmt: skip
        if 0.0 <= weight < 1e9:
            assert abs(float(text) - weight) <= 0.51e-8 + weight * 1e-15
            assert len(text.partition(".")[2]) == 8
        else:
            assert text == ""


def test_places_that_cannot_be_written_to(tiny: ModelMaker, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "trace", Path("nul\0name")):
        with pytest.raises(ConfigError, match="directory"):
            RouteTrace(path)
    model = tiny("qwen3moe")
    with pytest.raises(ConfigError, match="is the model itself"):
        RouteTrace(model, protected=[model])


def test_what_a_file_held_stays_until_the_trace_begins(tmp_path: Path, tiny: ModelMaker) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("something\n" * 1000)
    for path in (old, new):
        RouteTrace(path).close()
    assert old.read_text() == "something\n" * 1000
    assert not new.exists()
    streaming = cell(cache="large").streaming()
    with open_session(tiny("qwen3moe"), streaming) as session, traced(session, old):
        pass
    assert read_route_trace(old).n_rows == 0


def test_a_resident_model_has_nothing_to_trace(tiny: ModelMaker, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with (
        open_session(tiny("qwen3moe"), RESIDENT) as session,
        pytest.raises(ConfigError, match="needs streamed experts"),
        traced(session, path),
    ):
        pass
    assert not path.exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_at_the_beginning_ends_the_trace_and_not_the_session(
    tiny: ModelMaker,
) -> None:
    with (
        open_session(tiny("qwen3moe"), cell(cache="large").streaming()) as session,
        traced(session, Path("/dev/full")) as trace,
    ):
        assert trace.failure is not None
        assert "No space left" in trace.failure
        assert len(generate(session, trace, PROMPT, 3)) == 3


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_an_error_later_ends_the_trace_and_not_the_session(tiny: ModelMaker) -> None:
    reader, writer = os.pipe()
    with open_session(tiny("qwen3moe"), cell(cache="large").streaming()) as session:
        with traced(session, Path(f"/dev/fd/{writer}")) as trace:
            os.close(writer)
            assert os.read(reader, 1000).startswith(b"# route_trace v1\n")
            os.close(reader)
            assert len(generate(session, trace, PROMPT, 3)) == 3
            assert trace.failure is not None
            assert "ends early" in trace.failure
        assert session._opened.source.store.take_route_trace() == (b"", 0)
