"""Fixtures that every part of the tests may use."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.fixtures import make_fixture

# A busy machine is slow, not wrong; and a failure must be the same everywhere.
settings.register_profile(
    "moestream", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("moestream")

# A shell gives its background jobs an ignored Ctrl-C, and so would every program started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ModelMaker = Callable[..., Path]


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for tiny models, shared by all tests: nobody may change a file in it."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def tiny(model_dir: Path) -> ModelMaker:
    """``tiny(arch, **options)``: path of a shared tiny model, made when first asked for."""

    def make(arch: str, **options: Any) -> Path:
        return make_fixture(arch, model_dir, **options)

    return make
