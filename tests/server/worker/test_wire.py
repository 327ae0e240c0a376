"""What crosses between the processes arrives as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from moestream import errors
from moestream.config import EngineConfig, SamplingConfig, SpeculationConfig, StreamingConfig
from moestream.errors import ConfigError, MoestreamError
from moestream.server.worker import TurnRequest
from moestream.server.worker.wire import (
    config_from_json,
    config_to_json,
    decode,
    encode,
    error_from_json,
    error_to_json,
    request_from_json,
    request_to_json,
)


@pytest.mark.parametrize(
    "config",
    [
        EngineConfig(),
        EngineConfig(
            model=Path("/models/a.gguf"),
            n_ctx=100,
            chat_template=Path("/t.jinja"),
            streaming=StreamingConfig(cache_mb=7, overlap=False),
            sampling=SamplingConfig(temperature=0.5, seed=1),
        ),
        EngineConfig(speculation=SpeculationConfig(source="mtp", draft=2, mtp_p_min=0.25)),
    ],
)
def test_configurations(config: EngineConfig) -> None:
    found = config_from_json(decode(encode(config_to_json(config))))
    assert str(found.model) == str(config.model)
    assert found == EngineConfig(**{**_fields(config), "model": found.model})


def _fields(config: EngineConfig) -> dict[str, object]:
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


@pytest.mark.parametrize(
    "request_",
    [
        TurnRequest(prompt="a\n\u2028é"),
        TurnRequest(prompt=(1, 2), sampling=SamplingConfig(), record_to=Path("/x.csv"), logprobs=0),
        TurnRequest(
            messages=({"role": "user", "content": "x"},),
            tools=({"type": "function", "function": {"name": "f"}},),
            template_variables={"a": [1]},
            enable_thinking=False,
            stop=("a", "b"),
            draft=False,
        ),
    ],
)
def test_requests(request_: TurnRequest) -> None:
    assert request_from_json(decode(encode(request_to_json(request_)))) == request_


def test_every_error_keeps_its_kind() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        found = error_from_json(error_to_json(kind("words")))
        assert type(found) is kind
        assert str(found) == "words"


def test_errors_from_elsewhere_become_the_nearest_kind() -> None:
    class Special(ConfigError):
        pass

    assert type(error_from_json(error_to_json(Special("x")))) is ConfigError
    assert type(error_from_json({"kind": "unexpected", "message": "x"})) is MoestreamError


def test_a_line_is_a_line_whatever_is_in_it() -> None:
    line = encode({"text": "a\nb\r\u2028\ud800"})
    assert line.count(b"\n") == 1
    assert decode(line)["text"] == "a\nb\r\u2028?"
