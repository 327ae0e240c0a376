"""A database for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moestream.server.store.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "kept.db")
    yield opened
    opened.close()
