"""A configuration as JSON, to hand it to another process."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from moestream.config import EngineConfig, SamplingConfig, SpeculationConfig, StreamingConfig

__all__ = ["config_from_json", "config_to_json"]


def config_to_json(config: EngineConfig) -> dict[str, Any]:
    """Plain JSON types; the paths in it are absolute."""
    values = asdict(config)
    values["model"] = str(Path(config.model).absolute())
    if config.chat_template is not None:
        values["chat_template"] = str(config.chat_template.absolute())
    return values


def config_from_json(values: dict[str, Any]) -> EngineConfig:
    """What :func:`config_to_json` made into JSON."""
    rest = dict(values)
    streaming = StreamingConfig(**rest.pop("streaming"))
    sampling = SamplingConfig(**rest.pop("sampling"))
    speculation = SpeculationConfig(**rest.pop("speculation"))
    template = rest.pop("chat_template")
    return EngineConfig(
        **rest,
        chat_template=None if template is None else Path(template),
        streaming=streaming,
        sampling=sampling,
        speculation=speculation,
    )
