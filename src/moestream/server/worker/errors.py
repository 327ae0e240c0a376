"""What can go wrong with the engine as a service.

MoestreamError
└── EngineError                     the engine cannot take or finish a turn
    ├── EngineBusyError             too many turns wait already (429)
    └── EngineUnavailableError      no model is ready (503)
        └── EngineCrashedError      the engine's process died under the turn (503)
"""

from __future__ import annotations

from moestream.errors import MoestreamError

__all__ = ["EngineBusyError", "EngineCrashedError", "EngineError", "EngineUnavailableError"]


class EngineError(MoestreamError):
    """The engine cannot take or finish a turn; ``retry_after`` seconds may change that."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """Say why, and after how many seconds to try again."""
        super().__init__(message)
        self.retry_after = retry_after


class EngineBusyError(EngineError):
    """Too many turns wait already."""


class EngineUnavailableError(EngineError):
    """No model is ready: none is loaded, one is being loaded, or it failed."""


class EngineCrashedError(EngineUnavailableError):
    """The engine's process died under the turn; it is being started again."""
