"""One replica's application, with a real engine and without Ray."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from moestream.config import EngineConfig
from moestream.deploy.replica_app import REPLICA_HEADER, make_replica_app, with_label
from moestream.server.config import ServerConfig
from moestream.server.worker import EngineClient

BASE = EngineConfig(threads=1, n_ctx=256)
ASK = {"model": "default", "prompt": "The old house", "max_tokens": 4, "temperature": 0}


@asynccontextmanager
async def replica(
    *, wait_s: float = 60.0, **options: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, EngineClient]]:
    """A replica called ``one``, and a client of it."""
    config = ServerConfig(host="0.0.0.0", data_dir=Path("unused"), **options)
    engine = EngineClient(queue_limit=config.queue_limit)
    app = make_replica_app(engine, config, BASE, replica="one", restart_wait_s=wait_s)
    transport = httpx.ASGITransport(app)
    async with (
        engine,
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=120) as client,
    ):
        await engine.load(BASE)
        yield client, engine


def test_it_serves_what_keeps_nothing() -> None:
    async def scenario() -> None:
        async with replica() as (client, _engine):
            answer = await client.post("/v1/completions", json=ASK)
            assert answer.status_code == 200
            assert answer.json()["usage"]["completion_tokens"] == 4
            assert answer.headers[REPLICA_HEADER] == "one"
            assert (await client.get("/health")).json() == {"status": "ok"}
            assert (await client.get("/")).json()["api"] == "/v1"
            for path in ("/api/state", "/api/conversations"):
                missing = await client.get(path)
                assert missing.status_code == 404
                assert missing.json().keys() == {"error"}

    asyncio.run(scenario())


def test_every_number_is_of_a_replica() -> None:
    async def scenario() -> None:
        async with replica() as (client, _engine):
            text = (await client.get("/metrics")).text
            samples = [line for line in text.splitlines() if line and not line.startswith("#")]
            assert samples
            assert all('{replica="one"' in line for line in samples)

    asyncio.run(scenario())


def test_who_has_no_key_is_refused_at_once() -> None:
    async def scenario() -> None:
        async with replica(api_keys=("secret",)) as (client, _engine):
            assert (await client.post("/v1/completions", json=ASK)).status_code == 401
            key = {"Authorization": "Bearer secret"}
            answer = await client.post("/v1/completions", json=ASK, headers=key)
            assert answer.status_code == 200
            assert (await client.get("/metrics")).status_code == 401
            assert (await client.get("/health")).status_code == 200

    asyncio.run(scenario())


async def crash(engine: EngineClient) -> None:
    """Kill the engine's process, and wait until that is known."""
    pid = engine.worker_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    async for state in engine.subscribe():
        if state.phase == "restarting":
            return


def test_requests_wait_for_an_engine_that_is_started_again() -> None:
    async def scenario() -> None:
        async with replica() as (client, engine):
            await crash(engine)
            answer = await client.post("/v1/completions", json=ASK)
            assert answer.status_code == 200
            assert engine.counters.crashes == 1

    asyncio.run(scenario())


def test_they_do_not_wait_longer_than_they_are_told_to() -> None:
    async def scenario() -> None:
        async with replica(wait_s=0.0) as (client, engine):
            await crash(engine)
            answer = await client.post("/v1/completions", json=ASK)
            assert answer.status_code == 503
            assert int(answer.headers["Retry-After"]) >= 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("sample", "labelled"),
    [
        ("up 1", 'up{replica="a"} 1'),
        ('t{le="+Inf"} 2.5', 't{replica="a",le="+Inf"} 2.5'),
        ('vllm:x{m="a b}"} 0', 'vllm:x{replica="a",m="a b}"} 0'),
        ("# HELP up Whether 1", "# HELP up Whether 1"),
        ("", ""),
    ],
)
def test_a_label_joins_those_there_are(sample: str, labelled: str) -> None:
    assert with_label(sample, "replica", "a") == labelled


def test_a_label_is_escaped() -> None:
    assert with_label("up 1", "replica", 'a"\\\n') == 'up{replica="a\\"\\\\\\n"} 1'
