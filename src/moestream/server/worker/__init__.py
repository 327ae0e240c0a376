"""The engine's own process, and the server's side of it."""

from __future__ import annotations

from moestream.server.worker.client import EngineClient
from moestream.server.worker.errors import (
    EngineBusyError,
    EngineCrashedError,
    EngineError,
    EngineUnavailableError,
)
from moestream.server.worker.turns import (
    EngineState,
    QueueState,
    TokenDelta,
    ToolCall,
    TurnDone,
    TurnEvent,
    TurnMetrics,
    TurnRequest,
    TurnStarted,
    Usage,
)

__all__ = [
    "EngineBusyError",
    "EngineClient",
    "EngineCrashedError",
    "EngineError",
    "EngineState",
    "EngineUnavailableError",
    "QueueState",
    "TokenDelta",
    "ToolCall",
    "TurnDone",
    "TurnEvent",
    "TurnMetrics",
    "TurnRequest",
    "TurnStarted",
    "Usage",
]
