"""Settings of the wrong type are refused where they are checked, not deep inside."""

from __future__ import annotations

from typing import Any

import pytest

from moestream import EngineConfig, SamplingConfig, StreamingConfig
from moestream.errors import ConfigError

WRONG: list[tuple[type[Any], dict[str, object]]] = [
    (EngineConfig, {"model": 5}),
    (EngineConfig, {"model": None}),
    (EngineConfig, {"n_ctx": "64"}),
    (EngineConfig, {"n_ctx": 64.5}),
    (EngineConfig, {"n_ubatch": True}),
    (EngineConfig, {"threads": "1"}),
    (EngineConfig, {"n_expert_used": 1.5}),
    (EngineConfig, {"chat_template": "file"}),
    (EngineConfig, {"streaming": None}),
    (EngineConfig, {"sampling": {}}),
    (StreamingConfig, {"cache_mb": True}),
    (StreamingConfig, {"cache_mb": 1.5}),
    (StreamingConfig, {"cache_ceil_mb": 1.5}),
    (StreamingConfig, {"io_threads": 2.5}),
    (StreamingConfig, {"prefetch": 1.5}),
    (StreamingConfig, {"drop_cold_experts": "1"}),
    (StreamingConfig, {"moe_stream": "no"}),
    (StreamingConfig, {"overlap": "no"}),
    (StreamingConfig, {"repack": 1}),
    (SamplingConfig, {"temperature": "1"}),
    (SamplingConfig, {"temperature": True}),
    (SamplingConfig, {"top_k": 1.5}),
    (SamplingConfig, {"seed": 1.5}),
]


@pytest.mark.parametrize(("kind", "values"), WRONG)
def test_wrong_type(kind: type[Any], values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values)).split("_")[0]):
        kind(**values).validate()


def test_whole_numbers_do_for_fractions() -> None:
    SamplingConfig(temperature=1, top_p=1, min_p=0, repeat_penalty=1).validate()
    StreamingConfig(drop_cold_experts=1).validate()
