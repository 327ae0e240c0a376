"""The MTP block is streamed like any layer, accounted for, and refused where it cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moestream import (
    ConfigError,
    EngineConfig,
    SamplingConfig,
    Session,
    SpeculationConfig,
    StreamingConfig,
    UnsupportedModelError,
)
from moestream.gguf import GGMLType, read_model
from moestream.gguf.writer import write_model
from moestream.models.plan import plan_model
from moestream.streaming.layout import expert_layout
from moestream.telemetry.route_trace import ROUTE_ENTRY
from tests.conftest import ModelMaker
from tests.engine.helpers import open_session
from tests.engine.sources import open_speculating
from tests.fixtures import NEXTN_ARCHS
from tests.fixtures.builder import Sizes
from tests.fixtures.tiny import build

PROMPT = [(37 * i) % 450 + 20 for i in range(37)]
MTP = SpeculationConfig(source="mtp", draft=3)
STREAMED = StreamingConfig(moe_stream=True, cache_mb=64)


@pytest.mark.parametrize("arch", NEXTN_ARCHS)
def test_no_expert_of_the_block_is_in_memory_before_it_is_routed(
    arch: str, tiny: ModelMaker
) -> None:
    model = tiny(arch, nextn=1)
    with open_speculating(model, STREAMED, speculation=MTP) as session:
        report = session.load_report
        assert report.load_expert_bytes == 0
        layout = expert_layout(read_model(model))
        assert any(tensor.layer == layout.n_layer for tensor in layout.tensors)
        # No byte of the file is mapped, and the arena holds no page.
        assert str(model) not in Path("/proc/self/maps").read_text()
        assert session._opened.source.store.present_pages() == 0


@pytest.mark.parametrize("arch", NEXTN_ARCHS)
def test_the_bytes_read_are_those_of_the_routed_slices(arch: str, tiny: ModelMaker) -> None:
    # Whole pages are read, so slices of whole pages make the count exact.
    model = tiny(arch, nextn=1, expert_type="F16", alignment=4096)
    layout = expert_layout(read_model(model))
    with open_speculating(model, STREAMED, speculation=MTP) as session:
        store = session._opened.source.store
        rows: dict[int, set[int]] = {}
        store.set_route_trace(True)

        def collect(position: int, prefill: bool, count: int) -> None:
            packed, lost = store.take_route_trace()
            assert lost == 0
            for entry in np.frombuffer(packed, ROUTE_ENTRY):
                rows.setdefault(int(entry["layer"]), set()).add(int(entry["expert"]))

        session._opened.loop.evaluator.observer = collect
        generation = session.generate(PROMPT, max_tokens=40)
        list(generation)
        summary = generation.summary
        # The cache holds everything, so each expert that was ever routed was read once.
        expected = sum(
            len(rows.get(layer, ())) * layout.expert_bytes_of(layer)
            for layer in range(layout.n_block)
        )
        assert summary.read_bytes + summary.prefill_read_bytes == expected
        assert rows[layout.n_layer], "the block's own layer was routed"
        assert summary.speculation is not None
        assert summary.speculation.draft_read_bytes <= expected


def about(size: int) -> object:
    """llama.cpp reports MiB with two digits."""
    return pytest.approx(size, abs=0.02 * 2**20)


def test_without_the_flag_the_block_is_not_loaded(tiny: ModelMaker) -> None:
    model = tiny("qwen35moe")
    with (
        open_session(model, STREAMED) as plain,
        open_speculating(model, STREAMED, speculation=MTP) as drafting,
    ):
        a, b = plain.load_report, drafting.load_report
        assert (a.snapshot_bytes, a.draft_kv_bytes, a.draft_compute_bytes) == (0, 0, 0)
        assert b.recurrent_bytes > 0
        assert b.snapshot_bytes == about(3 * b.recurrent_bytes)
        assert b.recurrent_bytes == about(a.recurrent_bytes)
        assert b.draft_kv_bytes > 0
        assert b.draft_compute_bytes > 0
        assert b.draft_dense_bytes == expert_layout(read_model(model)).nextn_dense_bytes > 0
        assert b.reserved_bytes >= a.reserved_bytes + b.draft_compute_bytes


def test_lookup_pays_for_the_snapshots_only(tiny: ModelMaker) -> None:
    lookup = SpeculationConfig(source="ngram", draft=5)
    with open_speculating(tiny("qwen35moe"), STREAMED, speculation=lookup) as session:
        report = session.load_report
        assert report.snapshot_bytes == about(5 * report.recurrent_bytes)
        assert report.draft_kv_bytes == report.draft_compute_bytes == report.draft_dense_bytes == 0


def write(path: Path, nextn: int, *, claimed: int | None = None, without: str = "") -> Path:
    built = build("qwen35moe", Sizes(4, 128, 96, 16, 4, nextn), GGMLType.Q8_0)
    if claimed is not None:
        built.keys(nextn_predict_layers=claimed)
    tensors = [tensor for tensor in built.tensors if not without or without not in tensor.name]
    write_model(path, built.metadata, tensors)
    return path


def refusal(model: Path | str, **settings: object) -> str:
    config = EngineConfig(
        model=model,
        n_ctx=256,
        threads=1,
        speculation=MTP,
        **settings,  # type: ignore[arg-type]
    )
    with pytest.raises((ConfigError, UnsupportedModelError)) as caught:
        Session(config)
    return str(caught.value)


def test_a_model_without_a_block_is_refused(tiny: ModelMaker) -> None:
    assert "has no multi-token-prediction (nextn) block" in refusal(tiny("qwen3moe"))
    assert "--ngram" in refusal(tiny("qwen35moe", nextn=0))


@pytest.mark.parametrize(
    "part", ["nextn.eh_proj", "nextn.enorm", "nextn.hnorm", "attn_norm", "ffn_gate_inp"]
)
def test_a_block_that_is_not_all_there_is_refused(tmp_path: Path, part: str) -> None:
    model = write(tmp_path / "m.gguf", 1, without=f"blk.4.{part}.weight")
    assert f"lacks blk.4.{part}.weight" in refusal(model)
    with pytest.raises(UnsupportedModelError, match=r"lacks blk\.4"):
        plan_model(model, EngineConfig(model=model, speculation=MTP), seconds=0)


def test_chained_blocks_are_refused_by_name(tmp_path: Path) -> None:
    assert "2 chained multi-token-prediction blocks" in refusal(write(tmp_path / "m.gguf", 2))


def test_an_architecture_whose_block_cannot_run_is_refused_by_name(tmp_path: Path) -> None:
    built = build("olmoe", Sizes(4, 128, 96, 16, 4, 0), GGMLType.Q8_0)
    built.keys(nextn_predict_layers=1)
    write_model(tmp_path / "m.gguf", built.metadata, built.tensors)
    said = refusal(tmp_path / "m.gguf")
    assert "architecture 'olmoe' cannot be run" in said
    assert "qwen35moe" in said


def test_settings_that_contradict_are_refused(tiny: ModelMaker) -> None:
    model = tiny("qwen35moe")
    assert "temperature of 0" in refusal(model, sampling=SamplingConfig(temperature=0.5))
    assert "too narrow to verify 3 drafts; it must hold at least 5" in refusal(model, n_ubatch=4)
    for settings, words in (
        ({"source": "mtp", "draft": 0}, "1..8"),
        ({"source": "mtp", "draft": 9}, "1..8"),
        ({"source": "mtp", "mtp_p_min": 1.5}, "0..1"),
        ({"source": "mtp", "ngram_min_match": 4}, "--ngram"),
        ({"source": "ngram", "mtp_p_min": 0.5}, "--mtp"),
        ({"source": "none", "draft": 2}, "--mtp or --ngram"),
        ({"source": "ngram", "ngram_min_match": 0}, "at least 1"),
        ({"source": "none", "synthetic_acceptance": 0.5}, "draft source"),
    ):
        with pytest.raises(ConfigError, match=words):
            EngineConfig(speculation=SpeculationConfig(**settings)).validate()  # type: ignore[arg-type]


def test_the_narrowest_batch_that_is_accepted_works(tiny: ModelMaker) -> None:
    for draft in (1, 3, 8):
        speculation = SpeculationConfig(source="mtp", draft=draft)
        with open_speculating(
            tiny("qwen35moe"), STREAMED, speculation=speculation, n_ubatch=draft + 2
        ) as session:
            assert len(list(session.generate(PROMPT, max_tokens=12))) == 12


def test_a_tiny_budget_takes_the_narrowest_batch(tiny: ModelMaker) -> None:
    tight = StreamingConfig(moe_stream=True, cache_mb=2)
    with open_speculating(
        tiny("qwen35moe", n_expert=64), tight, speculation=MTP, n_ubatch=None
    ) as session:
        assert session.load_report.n_ubatch >= 5
        assert len(list(session.generate(PROMPT, max_tokens=12))) == 12
