"""The application as a whole, before a model is there: health, files, unknown addresses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from moestream.server.app import make_app
from moestream.server.config import ServerConfig
from moestream.server.static_files import AppFiles


def get(app: FastAPI, method: str, path: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(ask())


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return make_app(ServerConfig(data_dir=tmp_path / "data"))


def test_before_a_model_is_open(app: FastAPI) -> None:
    health = get(app, "GET", "/health")
    assert (health.status_code, health.json()) == (503, {"status": "unloaded"})
    assert get(app, "GET", "/v1/models").json() == {"object": "list", "data": []}
    assert get(app, "GET", "/v1/models/x").status_code == 404
    assert "moestream_up 0" in get(app, "GET", "/metrics").text.splitlines()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/none", 404), ("GET", "/api/none", 404), ("DELETE", "/v1/models", 405)],
)
def test_unknown_addresses_are_errors_of_the_api(
    app: FastAPI, method: str, path: str, status: int
) -> None:
    answer = get(app, method, path, accept="text/html")
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_the_document_names_every_route(app: FastAPI) -> None:
    paths = get(app, "GET", "/openapi.json").json()["paths"]
    assert {"/v1/models", "/v1/chat/completions", "/v1/completions", "/health"} <= set(paths)
    for path in ("/docs", "/redoc"):  # they would load scripts from elsewhere
        assert path not in paths


def test_files_of_the_app(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<html>app</html>")
    (tmp_path / "assets" / "a.js").write_text("1")
    app = FastAPI()
    app.mount("/", AppFiles(directory=tmp_path, html=True))
    for path in ("/", "/runs/3", "/index.html"):
        page = get(app, "GET", path, accept="text/html,*/*")
        assert page.text == "<html>app</html>"
        assert "default-src 'self'" in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-cache"
    script = get(app, "GET", "/assets/a.js")
    assert "immutable" in script.headers["cache-control"]
    assert script.headers["x-content-type-options"] == "nosniff"
    for path in ("/assets/none.js", "/none.png", "/../secret", "/api/x", "/%2e%2e/secret"):
        assert get(app, "GET", path, accept="*/*").status_code == 404
    assert get(app, "GET", "/api/x", accept="text/html").status_code == 404
    assert get(app, "POST", "/", accept="text/html").status_code == 405


def test_cors_is_off_unless_asked_for(app: FastAPI, tmp_path: Path) -> None:
    origin = "https://good.example"
    preflight = {"origin": origin, "access-control-request-method": "POST"}
    assert get(app, "OPTIONS", "/v1/models", **preflight).status_code == 403
    allowing = make_app(ServerConfig(data_dir=tmp_path / "other", cors_origins=(origin,)))
    answer = get(allowing, "OPTIONS", "/v1/models", **preflight)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert (
        get(allowing, "GET", "/health", origin=origin).headers["access-control-allow-origin"]
        == origin
    )
    assert get(allowing, "GET", "/health", origin="https://evil.example").status_code == 403
