"""Who is let in: by name, by origin, by key, and up to a size."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.types import Message

from moestream.errors import ConfigError
from moestream.server.config import ServerConfig, is_loopback
from moestream.server.errors import add_handlers
from moestream.server.security import Gate, client_of


def ask(
    config: ServerConfig,
    path: str = "/v1/models",
    *,
    method: str = "GET",
    body: bytes = b"",
    peer: str = "127.0.0.1",
    **headers: str,
) -> tuple[int, Any]:
    """Status and JSON of an answer of an application behind the gate."""
    app = FastAPI()
    add_handlers(app)

    async def answer(request: Request) -> dict[str, Any]:
        return {"client": client_of(request.scope), "bytes": len(await request.body())}

    app.add_api_route("/{path:path}", answer, methods=["GET", "POST", "OPTIONS"])
    named = {"host": "127.0.0.1:8080", **{k.replace("_", "-"): v for k, v in headers.items()}}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(k.encode(), v.encode()) for k, v in named.items() if v],
        "client": (peer, 5000),
        "server": ("127.0.0.1", 8080),
    }
    sent: list[Message] = []
    parts = [body[at : at + 1000] for at in range(0, len(body), 1000)] or [b""]

    async def receive() -> Message:
        if not parts:
            return {"type": "http.disconnect"}
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(Gate(app, config)(scope, receive, send))
    data = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(data)


def config(**options: Any) -> ServerConfig:
    found = ServerConfig(data_dir=Path("unused"), **options)
    found.validate()
    return found


LOCAL = config()
OPEN = config(host="0.0.0.0")


@pytest.mark.parametrize(
    ("settings", "host", "status"),
    [
        (LOCAL, "127.0.0.1:8080", 200),
        (LOCAL, "localhost", 200),
        (LOCAL, "LOCALHOST:1", 200),
        (LOCAL, "app.localhost:8080", 200),
        (LOCAL, "[::1]:8080", 200),
        (LOCAL, "", 200),
        (LOCAL, "evil.example", 403),
        (LOCAL, "192.168.1.5:8080", 403),
        (LOCAL, "localhost.evil.example", 403),
        (config(allowed_hosts=("box.lan",)), "box.lan:8080", 200),
        (config(allowed_hosts=("*",)), "whatever", 200),
        (OPEN, "192.168.1.5:8080", 200),
        (OPEN, "[fd00::1]:8080", 200),
        (OPEN, "evil.example", 403),
        (config(host="0.0.0.0", api_keys=("k",)), "proxied.example", 401),
    ],
)
def test_the_name_by_which_it_is_called(settings: ServerConfig, host: str, status: int) -> None:
    assert ask(settings, host=host)[0] == status


@pytest.mark.parametrize(
    ("settings", "origin", "status"),
    [
        (LOCAL, "", 200),
        (LOCAL, "http://127.0.0.1:8080", 200),
        (LOCAL, "http://127.0.0.1:9999", 403),
        (LOCAL, "https://evil.example", 403),
        (LOCAL, "null", 403),
        (LOCAL, "http://[", 403),
        (LOCAL, "//127.0.0.1:8080", 403),
        (LOCAL, "http://127.0.0.1:8080#x", 403),
        (config(cors_origins=("https://good.example",)), "https://good.example", 200),
        (config(cors_origins=("https://good.example",)), "https://evil.example", 403),
        (config(cors_origins=("*",)), "https://evil.example", 200),
    ],
)
def test_pages_of_other_sites(settings: ServerConfig, origin: str, status: int) -> None:
    found, body = ask(settings, method="POST", origin=origin)
    assert found == status
    if status == 403:
        assert body["error"]["code"] == "forbidden_origin"


@pytest.mark.parametrize(
    ("path", "given", "status"),
    [
        ("/v1/models", "", 401),
        ("/api/state", "", 401),
        ("/metrics", "", 401),
        ("/health", "", 200),
        ("/", "", 200),
        ("/assets/x.js", "", 200),
        ("/v1", "", 401),
        ("/v1/models", "Bearer one", 200),
        ("/v1/models", "bearer two", 200),
        ("/v1/models", "Bearer three", 401),
        ("/v1/models", "Basic one", 401),
        ("/v1/models", "Bearer ", 401),
        ("/v1/models", "one", 401),
    ],
)
def test_the_key(path: str, given: str, status: int) -> None:
    found, body = ask(config(api_keys=("one", "two")), path, authorization=given)
    assert found == status
    if status == 401:
        assert body["error"]["code"] == "invalid_api_key"


def test_clients_are_told_apart_by_key_and_address() -> None:
    keyed = config(host="0.0.0.0", api_keys=("one", "two"))
    names = {
        ask(keyed, peer=peer, authorization=f"Bearer {key}")[1]["client"]
        for peer in ("10.0.0.1", "10.0.0.2")
        for key in ("one", "two")
    }
    assert len(names) == 4
    assert not any("one" in name for name in names)  # the key itself goes nowhere


def test_the_size() -> None:
    small = config(max_body_bytes=4096)
    assert ask(small, method="POST", body=b"x" * 4096)[1]["bytes"] == 4096
    for headers in ({}, {"content_length": "4097"}):
        status, body = ask(small, method="POST", body=b"x" * 4097, **headers)
        assert status == 413
        assert body["error"]["code"] == "request_too_large"
        assert "--max-body-mb" in body["error"]["message"]


def test_what_is_local() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": 70000}, "65535"),
        ({"port": -1}, "65535"),
        ({"queue_limit": -1}, "queue limit"),
        ({"max_body_bytes": 0}, "longest request"),
        ({"shutdown_s": -1.0}, "shut down"),
        ({"api_keys": ("",)}, "API key"),
        ({"api_keys": ("a b",)}, "API key"),
        ({"api_keys": ("clé",)}, "API key"),
        ({"cors_origins": ("example.org",)}, "origin"),
        ({"cors_origins": ("http://[",)}, "origin"),
        ({"cors_origins": ("https://example.org/x",)}, "origin"),
    ],
)
def test_settings_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config(**options)
