"""Opening a streamed model: what is resolved, what is refused, what is warned about."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from moestream import (
    ConfigError,
    MemoryBudgetError,
    PlatformError,
    Session,
    StreamingConfig,
    UnsupportedModelError,
)
from moestream.engine import memory
from moestream.gguf import read_model
from moestream.llama.runtime import runtime
from moestream.streaming.source import choose_layout, expert_count_used, resolve_overlap
from moestream.telemetry.system import MemoryState
from tests.conftest import ModelMaker
from tests.engine.helpers import RESIDENT, open_session

MIB = 2**20


@pytest.fixture(scope="module")
def big(tiny: ModelMaker) -> Path:
    """Experts of 204 KiB, 3.2 MiB a layer, 13 MiB in all."""
    return tiny("qwen3moe", n_embd=256, n_ff=256)


def pretend(monkeypatch: pytest.MonkeyPatch, mib: float) -> None:
    """A control group with this much left (and 128 MiB of it left alone)."""
    free = int((mib + 128) * MIB)
    state = MemoryState(
        total=2**36, available=2**36, cgroup_limit=1024 * MIB, cgroup_available=free
    )
    monkeypatch.setattr(memory, "memory_state", lambda: state)


def test_auto_takes_all_experts_where_there_is_room(big: Path) -> None:
    with open_session(big, StreamingConfig()) as session:
        info = session.info
        assert info.streamed
        assert info.cache_auto
        assert info.cache_limited_by == "model"
        assert info.cache_bytes >= info.expert_bytes
        assert info.load_expert_bytes == 0
        assert info.warnings == ()


def test_the_load_reads_the_dense_bytes_and_no_expert(big: Path) -> None:
    with open_session(big, StreamingConfig()) as session:
        info = session.info
        assert info.load_read_bytes is not None
        # Headers are read a few times over, experts not at all.
        assert info.dense_bytes <= info.load_read_bytes < info.dense_bytes + info.expert_bytes / 4


def test_a_ceiling_bounds_auto(big: Path) -> None:
    with open_session(big, StreamingConfig(cache_ceil_mb=9), n_ubatch=1) as session:
        assert session.info.cache_limited_by == "ceiling"
        assert session.info.cache_bytes == 9 * MIB
        assert session.info.cache_ceiling_bytes == 9 * MIB


def test_auto_takes_what_memory_leaves(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 16)
    with open_session(big, StreamingConfig()) as session:
        info = session.info
        assert info.cache_limited_by == "memory"
        assert info.cache_bytes == 16 * MIB - info.reserved_bytes
        assert info.floor_bytes == 128 * MIB
        assert info.reserved_bytes >= info.compute_bytes


def test_the_prefill_width_is_what_the_budget_holds(big: Path) -> None:
    widths = {}
    for cache in (3, 4, 6, 64):
        with open_session(big, StreamingConfig(cache_mb=cache), n_ubatch=None) as session:
            info = session.info
            widths[cache] = info.n_ubatch
            store = session._opened.source.store
            floor = store.floor_bytes(lanes=2, n_ubatch=info.n_ubatch, n_expert_used=4)
            assert floor <= info.cache_bytes
            if info.n_ubatch < 256:
                wider = store.floor_bytes(lanes=2, n_ubatch=info.n_ubatch * 2, n_expert_used=4)
                assert wider > info.cache_bytes
    assert widths[3] < widths[6] <= widths[64]
    assert widths[64] == 256


def test_no_cache_holds_one_layer_and_hits_nothing(big: Path) -> None:
    with open_session(big, StreamingConfig(cache_mb=0)) as session:
        assert not session.info.cache_retains
        assert session.info.cache_bytes < session.info.expert_bytes
        list(session.generate([1, 2, 3], max_tokens=5))
        assert session.last_summary is not None
        assert session.last_summary.hit_pct == 0.0
        assert session.last_summary.mib_per_token is not None


def test_a_cache_too_small_for_one_layer_is_refused_with_the_number(big: Path) -> None:
    with pytest.raises(MemoryBudgetError, match=r"needs .* MiB of them at once; .* at least 2 MiB"):
        open_session(big, StreamingConfig(cache_mb=1), n_ubatch=None)
    with pytest.raises(MemoryBudgetError, match="use a smaller micro-batch"):
        open_session(big, StreamingConfig(cache_mb=3), n_ubatch=64)


def test_a_cache_larger_than_memory_is_refused(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, -120)
    with pytest.raises(MemoryBudgetError, match=r"does not fit: 8 MiB are available"):
        open_session(big, StreamingConfig(cache_mb=12))


def test_a_cache_below_one_tokens_demand_is_warned_about_and_hits_nothing(big: Path) -> None:
    with open_session(big, StreamingConfig(cache_mb=2), n_ubatch=1) as session:
        (warning,) = session.info.warnings
        assert "hit rate will be exactly zero" in warning
        list(session.generate([1] * 3, max_tokens=6))
        assert session.last_summary is not None
        assert session.last_summary.hit_pct == 0.0
    needed = int(warning.split("give it ")[1].split(" MiB")[0])
    with open_session(big, StreamingConfig(cache_mb=needed), n_ubatch=1) as session:
        assert session.info.warnings == ()
        # The same token again and again routes alike, so it now finds its experts.
        list(session.generate([1] * 12, max_tokens=1))
        assert session._opened.source.store.counters()["hits"] > 0


def test_dropping_among_few_experts_is_warned_about(big: Path) -> None:
    streaming = StreamingConfig(drop_cold_experts=0.5)
    with open_session(big, streaming) as session:
        assert "routes only 4 experts" in session.info.warnings[0]
    with open_session(big, streaming, n_expert_used=5) as session:
        assert session.info.warnings == ()


def test_a_model_without_memory_for_its_dense_part_is_refused_before_loading(
    big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, -128 + 0.1)
    with pytest.raises(MemoryBudgetError, match=r"without its experts takes .* leave dense"):
        open_session(big, StreamingConfig())


def test_overlap_is_taken_where_it_is_possible(big: Path) -> None:
    possible = any(mover != "inplace" for mover in runtime().core.platform_movers())
    with open_session(big, StreamingConfig()) as session:
        assert session.info.overlap == possible
    with open_session(big, StreamingConfig(overlap=False)) as session:
        assert not session.info.overlap


def test_overlap_is_refused_with_the_reason_where_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = runtime().core
    monkeypatch.setattr(core, "platform_movers", lambda: ["inplace"])
    monkeypatch.setattr(core, "why_no_overlap", lambda: "no userfaultfd here")
    with pytest.raises(PlatformError, match="no userfaultfd here; leave it out"):
        resolve_overlap(True)
    automatic = resolve_overlap(None)
    assert not automatic.enabled
    assert automatic.note is not None
    assert "no userfaultfd here" in automatic.note
    assert resolve_overlap(False).note is None


def test_a_platform_that_cannot_stream_says_so(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime().core, "platform_movers", list)
    gguf = read_model(big)
    with pytest.raises(PlatformError):
        choose_layout(gguf, True, [])
    notes: list[str] = []
    assert choose_layout(gguf, None, notes) is None
    assert "no way to do it" in notes[0]


def dense_model(path: Path, source: Path) -> Path:
    """The same file under an architecture that has no recipe."""
    data = bytearray(source.read_bytes())
    assert data.count(b"qwen3moe") > 1
    path.write_bytes(bytes(data).replace(b"qwen3moe", b"qwen3mox"))
    return path


def test_an_architecture_without_a_recipe_is_refused_by_name(tmp_path: Path, big: Path) -> None:
    gguf = read_model(dense_model(tmp_path / "other.gguf", big))
    with pytest.raises(UnsupportedModelError, match=r"'qwen3mox' cannot be streamed; supported"):
        choose_layout(gguf, True, [])
    notes: list[str] = []
    assert choose_layout(gguf, None, notes) is None
    assert "not streamed" in notes[0]


def test_expert_counts_that_would_abort_the_process_are_refused(big: Path) -> None:
    gguf = read_model(big)
    assert expert_count_used(gguf, None) == (16, 4)
    assert expert_count_used(gguf, 9) == (16, 9)
    with pytest.raises(ConfigError, match="not be more than the model's 16"):
        expert_count_used(gguf, 17)


@pytest.mark.parametrize("streaming", [StreamingConfig(), RESIDENT])
def test_nothing_is_left_open(big: Path, streaming: StreamingConfig) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    open_session(big, streaming).close()
    before = descriptors()
    for _ in range(3):
        open_session(big, streaming).close()
    assert descriptors() == before


def test_a_failed_start_leaves_nothing_behind(big: Path) -> None:
    def failing() -> None:
        with pytest.raises(MemoryBudgetError):
            open_session(big, StreamingConfig(cache_mb=1))

    failing()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        failing()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_metrics_of_a_streamed_token_add_up(big: Path) -> None:
    with open_session(big, StreamingConfig(cache_mb=6), n_ubatch=2) as session:
        before: dict[str, Any] = dict(session._opened.source.store.counters())
        events = list(session.generate(list(range(20, 30)), max_tokens=10))
        after = session._opened.source.store.counters()
        summary = session.last_summary
        assert summary is not None
        read = sum(event.metrics.read_bytes for event in events)
        assert read == after["read_bytes"] - before["read_bytes"]
        assert summary.read_bytes + summary.prefill_read_bytes == read
        assert sum(event.metrics.misses for event in events) == after["misses"] - before["misses"]
        for event in events[1:]:
            metrics = event.metrics
            assert metrics.hits + metrics.misses == 4 * 4
            assert metrics.routed == 4 * 4
            assert 0 <= metrics.stall_ms <= metrics.wall_ms


def test_major_faults_and_cpu_time_are_measured(big: Path) -> None:
    assert resource is not None
    with open_session(big, StreamingConfig()) as session:
        (first, *_) = session.generate([1, 2], max_tokens=3)
        assert first.metrics.cpu_ms is not None
        assert first.metrics.majflt is not None


def test_the_session_type_is_what_is_exported() -> None:
    import moestream

    assert moestream.Session is Session


def test_a_context_that_does_not_fit_is_refused_before_loading(
    big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, 100)
    with pytest.raises(MemoryBudgetError, match=r"a context of 4000000 tokens takes .* smaller"):
        open_session(big, StreamingConfig(), n_ctx=4_000_000)
