"""What the server and the engine's process tell each other: JSON objects, one a line.

To the engine: ``turn`` (a :class:`TurnRequest`), ``cancel``, ``exit``. From it: ``progress``,
``loaded``, ``failed`` while it opens the model; then, with the ``id`` of the turn, ``started``,
``tokens``, ``done``, ``error``; and ``warning`` at any time. The first line to it is the
configuration. When its input ends, it ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeAlias

from moestream import errors
from moestream.config import (
    EMBEDDED_MODEL,
    EngineConfig,
    SamplingConfig,
    SpeculationConfig,
    StreamingConfig,
)
from moestream.engine.report import LoadReport
from moestream.errors import MoestreamError
from moestream.server.worker.turns import TurnRequest

__all__ = [
    "Message",
    "config_from_json",
    "config_to_json",
    "decode",
    "encode",
    "error_from_json",
    "error_to_json",
    "report_to_json",
    "request_from_json",
    "request_to_json",
]

Message: TypeAlias = dict[str, Any]

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


def encode(message: Mapping[str, Any]) -> bytes:
    """A line. Half a surrogate pair, which JSON may carry and UTF-8 may not, becomes ``?``."""
    return f"{_ENCODER.encode(message)}\n".encode("utf-8", "replace")


def decode(line: bytes) -> Message:
    """What :func:`encode` made."""
    found: Message = json.loads(line)
    return found


def config_to_json(config: EngineConfig) -> Message:
    """Plain JSON types; the paths in it are absolute."""
    values = asdict(config)
    if str(config.model) != EMBEDDED_MODEL:
        values["model"] = str(Path(config.model).expanduser().absolute())
    if config.chat_template is not None:
        values["chat_template"] = str(config.chat_template.absolute())
    return values


def config_from_json(values: Mapping[str, Any]) -> EngineConfig:
    """What :func:`config_to_json` made into JSON."""
    template = values["chat_template"]
    return EngineConfig(
        **{
            **values,
            "chat_template": None if template is None else Path(template),
            "streaming": StreamingConfig(**values["streaming"]),
            "sampling": SamplingConfig(**values["sampling"]),
            "speculation": SpeculationConfig(**values["speculation"]),
        }
    )


def report_to_json(report: LoadReport) -> Message:
    """Every field by its name; paths as text."""
    return {**asdict(report), "paths": [str(path) for path in report.paths]}


def request_to_json(request: TurnRequest) -> Message:
    """All that the engine's process needs of it."""
    return {
        "prompt": request.prompt,
        "messages": request.messages,
        "tools": request.tools,
        "template_variables": dict(request.template_variables),
        "enable_thinking": request.enable_thinking,
        "add_generation_prompt": request.add_generation_prompt,
        "max_tokens": request.max_tokens,
        "stop": request.stop,
        "sampling": None if request.sampling is None else asdict(request.sampling),
        "logprobs": request.logprobs,
        "draft": request.draft,
        "record_to": None if request.record_to is None else str(request.record_to.absolute()),
    }


def request_from_json(values: Mapping[str, Any]) -> TurnRequest:
    """What :func:`request_to_json` made into JSON."""
    prompt, sampling, record_to = values["prompt"], values["sampling"], values["record_to"]
    messages = values["messages"]
    return TurnRequest(
        **{
            **values,
            "prompt": tuple(prompt) if isinstance(prompt, list) else prompt,
            "messages": None if messages is None else tuple(messages),
            "tools": tuple(values["tools"]),
            "stop": tuple(values["stop"]),
            "sampling": None if sampling is None else SamplingConfig(**sampling),
            "record_to": None if record_to is None else Path(record_to),
        }
    )


def error_to_json(error: MoestreamError) -> Message:
    """Kind and words."""
    kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in errors.__all__)
    return {"kind": kind, "message": str(error)}


def error_from_json(values: Mapping[str, Any]) -> MoestreamError:
    """The error of that kind, with these words."""
    kind = values["kind"]
    made = getattr(errors, kind) if kind in errors.__all__ else MoestreamError
    error: MoestreamError = made(values["message"])
    return error
