"""Servers for a module of tests: one with the embedded model loaded, and one with none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ModelMaker
from tests.models.hub import Hub, serve
from tests.server.api.serving import Served, served

HUB_REPO = "someone/Tiny-GGUF"
HUB_FILE = "tiny-Q8_0.gguf"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """With moestream-nano loaded."""
    with served(tmp_path_factory.mktemp("data"), load=True) as running:
        yield running


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, tiny: ModelMaker) -> Iterator[Served]:
    """With nothing loaded, and a folder with one tiny model."""
    folder = tmp_path_factory.mktemp("listed")
    (folder / "tiny-Q8_0.gguf").write_bytes(tiny("qwen3moe").read_bytes())
    with served(tmp_path_factory.mktemp("data"), models_dirs=[folder]) as running:
        yield running


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with one repository, and an empty cache of its own."""
    from huggingface_hub import constants

    files = {HUB_FILE: os.urandom(6_000_000), "tiny-Q4_0.gguf": os.urandom(50_000)}
    with serve(Hub(HUB_REPO, files)) as running:
        for name in list(os.environ):
            if name.startswith(("HF_", "HUGGING")) or name.lower().endswith("_proxy"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
        yield running
