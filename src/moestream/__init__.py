"""Runs Mixture-of-Experts language models that are bigger than memory, on the CPU.

    from moestream import Session, EngineConfig

    with Session(EngineConfig(model="model.gguf")) as session:
        for event in session.generate("Once upon a time", max_tokens=64):
            print(event.text, end="", flush=True)

Everything here is imported when it is first used, so that ``import moestream`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moestream.config import EngineConfig, SamplingConfig, SpeculationConfig, StreamingConfig
    from moestream.engine.events import GenerationSummary, SpeculationSummary, TokenEvent
    from moestream.engine.session import Session
    from moestream.errors import (
        AbiError,
        ConfigError,
        ContextOverflowError,
        DecodeError,
        DownloadError,
        GenerationError,
        GGUFError,
        MemoryBudgetError,
        ModelError,
        MoestreamError,
        PlatformError,
        SessionStateError,
        StreamReadError,
        UnsupportedModelError,
    )

__all__ = [
    "AbiError",
    "ConfigError",
    "ContextOverflowError",
    "DecodeError",
    "DownloadError",
    "EngineConfig",
    "GGUFError",
    "GenerationError",
    "GenerationSummary",
    "MemoryBudgetError",
    "ModelError",
    "MoestreamError",
    "PlatformError",
    "SamplingConfig",
    "Session",
    "SessionStateError",
    "SpeculationConfig",
    "SpeculationSummary",
    "StreamReadError",
    "StreamingConfig",
    "TokenEvent",
    "UnsupportedModelError",
    "__version__",
]

_HOMES = {
    "EngineConfig": "moestream.config",
    "SamplingConfig": "moestream.config",
    "SpeculationConfig": "moestream.config",
    "StreamingConfig": "moestream.config",
    "GenerationSummary": "moestream.engine.events",
    "SpeculationSummary": "moestream.engine.events",
    "TokenEvent": "moestream.engine.events",
    "Session": "moestream.engine.session",
}
#: Of a source tree that was never installed.
_FALLBACK_VERSION = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = _version()
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in __all__:
        value = getattr(import_module("moestream.errors"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("moestream")
    except PackageNotFoundError:
        return _FALLBACK_VERSION
