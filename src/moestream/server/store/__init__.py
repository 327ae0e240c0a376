"""What the server keeps: conversations, settings, pulls and runs, in one directory."""

from __future__ import annotations

from moestream.server.store.datadir import DataDir
from moestream.server.store.errors import (
    NotKeptError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
)

__all__ = [
    "DataDir",
    "NotKeptError",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "StoreFullError",
]
