"""Every exception moestream raises on purpose, under one base to catch.

    MoestreamError
    ├── ConfigError               a setting is out of range or contradicts another (exit code 2)
    ├── ModelError                the model file cannot be used
    │   ├── GGUFError             the file is not a well-formed GGUF (or a shard is missing)
    │   ├── UnsupportedModelError the file is fine, but this model cannot be streamed
    │   └── DownloadError         the model could not be fetched
    ├── PlatformError             this machine or build cannot do what was asked
    │   └── AbiError              llama.cpp is not the version the native core was built for
    ├── MemoryBudgetError         the model cannot run in the memory there is
    └── GenerationError           a running session could not go on
        ├── ContextOverflowError  the prompt does not fit into the context
        ├── StreamReadError       expert weights could not be read from disk
        ├── DecodeError           llama.cpp refused or failed to decode
        └── SessionStateError     the session is closed, busy, or used in a forked process

A message says what is wrong, what was found, and what to do.
"""

from __future__ import annotations

__all__ = [
    "AbiError",
    "ConfigError",
    "ContextOverflowError",
    "DecodeError",
    "DownloadError",
    "GGUFError",
    "GenerationError",
    "MemoryBudgetError",
    "ModelError",
    "MoestreamError",
    "PlatformError",
    "SessionStateError",
    "StreamReadError",
    "UnsupportedModelError",
]


class MoestreamError(Exception):
    """Base of every error that moestream raises on purpose."""


class ConfigError(MoestreamError):
    """A setting is out of range, or contradicts another one."""


class ModelError(MoestreamError):
    """The model file cannot be used."""


class GGUFError(ModelError):
    """The file is not a well-formed GGUF, or a shard of it is missing."""


class UnsupportedModelError(ModelError):
    """The file is well-formed, but this model cannot be streamed or loaded."""


class DownloadError(ModelError):
    """The model could not be fetched."""


class PlatformError(MoestreamError):
    """This machine, kernel or build cannot do what was asked."""


class AbiError(PlatformError):
    """The installed llama.cpp is not the one the native core was built for."""


class MemoryBudgetError(MoestreamError):
    """The model cannot run in the memory that is available."""


class GenerationError(MoestreamError):
    """A running session could not go on; the session itself stays usable unless said otherwise."""


class ContextOverflowError(GenerationError):
    """The prompt does not fit into the context window."""


class StreamReadError(GenerationError):
    """Expert weights could not be read from disk; no token computed from them was emitted."""


class DecodeError(GenerationError):
    """llama.cpp refused or failed to decode a batch."""


class SessionStateError(GenerationError):
    """The session is closed, busy in another thread, or used in a forked process."""
