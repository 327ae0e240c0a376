"""The baseline says what a session says."""

from __future__ import annotations

from pathlib import Path

import pytest

from moestream.bench.baseline import PlainSession
from moestream.config import EngineConfig
from moestream.engine.session import Session
from moestream.errors import ContextOverflowError, ModelError
from tests.conftest import ModelMaker

PROMPT = [5, 6, 7, 8, 9]


@pytest.mark.parametrize("arch", ["qwen3moe", "qwen35moe"])
def test_the_text_is_a_sessions(tiny: ModelMaker, arch: str) -> None:
    config = EngineConfig(model=tiny(arch), n_ctx=64, n_ubatch=4, threads=1)
    with Session(config) as session:
        wanted = [event.token_id for event in session.generate(PROMPT, max_tokens=6)]
        summary = session.last_summary
    with PlainSession(config) as plain:
        for _ in range(2):  # nothing is carried over
            events = list(plain.generate(PROMPT, max_tokens=6))
            assert [event.token_id for event in events] == wanted
    own = plain.last_summary
    assert own is not None
    assert summary is not None
    assert own.finish_reason == summary.finish_reason
    assert (own.prompt_tokens, own.generated_tokens) == (5, len(wanted))
    assert own.decodes == len(wanted) - 1
    assert [event.position for event in events] == list(range(5, 5 + len(wanted)))
    assert events[0].metrics.phase == "prefill"
    assert own.decode_s >= own.wall_s


def test_a_full_context_ends_it(tiny: ModelMaker) -> None:
    config = EngineConfig(model=tiny("qwen3moe"), n_ctx=256, threads=1)
    with PlainSession(config) as plain:
        with pytest.raises(ContextOverflowError, match="leaves no room"):
            list(plain.generate([5] * 256, max_tokens=2))
        events = list(plain.generate([5] * 250, max_tokens=100))
        assert events[-1].finish_reason in ("length", "stop")
        assert events[-1].position <= 256


def test_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF nonsense")
    with pytest.raises(ModelError, match=r"bad\.gguf"):
        PlainSession(EngineConfig(model=path, threads=1))
