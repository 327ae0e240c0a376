"""A browser and a server for the tests of the app; skipped where there is no browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.app import App, running_app

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
_PATIENCE_MS = 20_000

#: Streamed with a cache that half of the experts fit into, one thread: the same everywhere.
OPTIONS = ("--moe-stream", "--cache-mb", "4", "--threads", "1")

NewPage = Callable[..., Any]


def chromium() -> str | None:
    """Where Chromium is, if anywhere."""
    named = os.environ.get("MOESTREAM_CHROMIUM")
    names = ("chromium", "chromium-browser", "google-chrome")
    return named or next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Chromium, once for all tests of this folder: its driver runs an event loop in this thread."""
    pytest.importorskip("fastapi", reason="no server: pip install 'moestream[serve]'")
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: pip install 'moestream[e2e]'"
    )
    path = chromium()
    if path is None:
        pytest.skip("no Chromium is installed, and MOESTREAM_CHROMIUM names none")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def new_page(browser: Any) -> Iterator[NewPage]:
    """``new_page(url, **context options)``; at the end no page may have complained.

    Every page has a profile of its own. Requests that leave this machine fail the test.
    """
    contexts: list[Any] = []
    complaints: list[str] = []

    def make(url: str, *, width: int = 1280, height: int = 800, **options: Any) -> Any:
        options.setdefault("service_workers", "block")
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(_PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("console", lambda message: _console(message, complaints))
        page.on("request", lambda request: _request(request, url, complaints))
        page.goto(url)
        return page

    yield make
    for context in contexts:
        context.close()
    assert complaints == []


def _console(message: Any, complaints: list[str]) -> None:
    # What the server refuses, or that it is away, is part of some tests.
    expected = ("Failed to load resource", "Service Worker registration blocked")
    if message.type in ("error", "warning") and not message.text.startswith(expected):
        complaints.append(f"{message.type}: {message.text}")


def _request(request: Any, url: str, complaints: list[str]) -> None:
    if not request.url.startswith((url.partition("#")[0].rstrip("/"), "data:", "blob:")):
        complaints.append(f"the app asked elsewhere: {request.url}")


@pytest.fixture(scope="module")
def app(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A server with a new data directory, for the tests of a module."""
    with running_app(tmp_path_factory.mktemp("data"), *OPTIONS) as running:
        yield running


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """For a server of a test's own."""
    return tmp_path / "data"
