"""The engine's life: loading, giving way, being killed, coming back, giving up."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from moestream.config import EMBEDDED_MODEL, EngineConfig
from moestream.errors import ConfigError, GGUFError, ModelError
from moestream.server.worker import (
    EngineBusyError,
    EngineClient,
    EngineCrashedError,
    EngineState,
    EngineUnavailableError,
    TokenDelta,
    TurnDone,
    TurnRequest,
)
from moestream.server.worker import client as client_module
from tests.server.process import command_of, eventually
from tests.server.worker.helpers import NANO, engine, failure, run, turn, until

LONG = TurnRequest(prompt="Once upon a time", max_tokens=400)


def test_states_from_nothing_to_ready_and_back() -> None:
    async def main() -> None:
        seen: list[EngineState] = []
        async with EngineClient() as client:

            async def follow() -> None:
                async for state in client.subscribe():
                    seen.append(state)

            following = asyncio.create_task(follow())
            await asyncio.sleep(0)
            error = await failure(turn(client, prompt="x"))
            assert isinstance(error, EngineUnavailableError)
            assert client.worker_pid is None
            await client.load(NANO)
            assert client.state.model == EMBEDDED_MODEL
            assert client.state.config == NANO
            assert client.state.report is not None
            assert client.state.report["n_ctx"] == 512
            memory = client.memory()
            assert memory["used_mib"] > 0
            assert memory["budget_mib"] > 0
            await client.unload()
            assert client.state == EngineState()
            assert client.worker_pid is None
            await asyncio.sleep(0)
        await following
        phases = [state.phase for state in seen]
        assert phases[0] == "unloaded"
        assert {"loading", "ready"} <= set(phases)
        assert phases[-1] == "unloaded"

    run(main())


def test_a_model_that_cannot_be_opened(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + bytes(100))

    async def main() -> None:
        async with EngineClient() as client:
            error = await failure(client.load(replace(NANO, model=damaged)))
            assert type(error) is GGUFError
            assert client.state.phase == "failed"
            assert client.state.error == str(error)
            assert isinstance(await failure(turn(client, prompt="x")), EngineUnavailableError)
            error = await failure(client.load(replace(NANO, model=tmp_path / "none.gguf")))
            assert type(error) is ModelError
            error = await failure(client.load(replace(NANO, threads=0)))
            assert type(error) is ConfigError
            await client.load(NANO)
            _, done = await turn(client, prompt="Once", max_tokens=2)
            assert done.usage.completion_tokens == 2

    run(main())


def test_a_later_load_takes_over_from_an_earlier_one() -> None:
    async def main() -> None:
        async with EngineClient() as client:
            first = asyncio.create_task(client.load(NANO))
            await until(lambda: client.state.phase == "loading", "loading")
            await client.load(replace(NANO, n_ctx=256))
            assert isinstance(await failure(first), EngineUnavailableError)
            assert client.state.report is not None
            assert client.state.report["n_ctx"] == 256
            second = asyncio.create_task(client.load(NANO))
            await until(lambda: client.state.phase == "loading", "loading")
            await client.unload()
            assert isinstance(await failure(second), EngineUnavailableError)
            assert client.state.phase == "unloaded"

    run(main())


def test_a_load_waits_for_the_running_turn_or_cancels_it() -> None:
    async def main() -> None:
        async with engine() as client:
            running = asyncio.create_task(turn(client, prompt="Once upon a time", max_tokens=100))
            await until(lambda: client.queue.running, "running")
            waiting = asyncio.create_task(turn(client, prompt="Once", max_tokens=3, client="b"))
            await until(lambda: client.queue.waiting, "waiting")
            await client.load(replace(NANO, n_ctx=256))
            assert (await running)[1].finish_reason == "length"
            # Who waited in the queue gets the new model.
            assert (await waiting)[1].usage.completion_tokens == 3
            running = asyncio.create_task(turn(client, prompt="Once upon a time"))
            await until(lambda: client.queue.running, "running")
            await client.load(NANO, cancel=True)
            assert (await running)[1].finish_reason == "cancelled"

    run(main())


def test_unloading_refuses_those_who_wait() -> None:
    async def main() -> None:
        async with engine() as client:
            running = asyncio.create_task(turn(client, prompt="Once upon a time", max_tokens=200))
            await until(lambda: client.queue.running, "running")
            waiting = asyncio.create_task(turn(client, prompt="Once"))
            await until(lambda: client.queue.waiting, "waiting")
            await client.unload()
            assert (await running)[1].usage.completion_tokens == 200
            assert isinstance(await failure(waiting), EngineUnavailableError)

    run(main())


def test_closing_the_iterator_ends_the_turn() -> None:
    async def main() -> None:
        async with engine() as client:
            async with aclosing(client.generate(LONG)) as events:
                async for event in events:
                    if isinstance(event, TokenDelta):
                        break
            await until(lambda: not client.queue.running, "the engine is free")
            assert client.counters.finished == {"cancelled": 1}
            assert client.counters.generated_tokens < 400
            # Cancelling the task that reads does the same, in the queue as well.
            reading = asyncio.create_task(turn(client, prompt="Once upon a time", max_tokens=400))
            await until(lambda: client.queue.running, "running")
            waiting = asyncio.create_task(turn(client, prompt="Once"))
            await until(lambda: client.queue.waiting, "waiting")
            waiting.cancel()
            await asyncio.wait({waiting})
            assert client.queue.waiting == 0
            reading.cancel()
            await until(lambda: not client.queue.running, "the engine is free")
            assert client.counters.finished == {"cancelled": 2}
            _, done = await turn(client, prompt="Once", max_tokens=2)
            assert done.usage.completion_tokens == 2

    run(main())


def test_cancel_from_elsewhere() -> None:
    async def main() -> None:
        async with engine() as client:
            assert not await client.cancel()
            reading = asyncio.create_task(turn(client, prompt="Once upon a time", max_tokens=400))
            await until(lambda: client.queue.running, "running")
            assert await client.cancel()
            _, done = await reading
            assert done.finish_reason == "cancelled"
            assert done.usage.completion_tokens < 400

    run(main())


def test_clients_take_turns_and_too_many_are_refused() -> None:
    async def main() -> None:
        async with engine(queue_limit=3) as client:
            order: list[str] = []

            async def ask(name: str) -> None:
                await turn(client, prompt="Once", max_tokens=60, client=name)
                order.append(name)

            tasks = []
            for name in ("a", "a", "a", "a"):
                tasks.append(asyncio.create_task(ask(name)))
                await asyncio.sleep(0)
            await until(lambda: client.queue.waiting == 3, "three wait")
            error = await failure(ask("a"))
            assert isinstance(error, EngineBusyError)
            assert error.retry_after is not None
            assert error.retry_after >= 1
            # Somebody else is let in before those who have been served already; the newest of the
            # one who asks for most gives way.
            await ask("b")
            ends = [await asyncio.gather(task, return_exceptions=True) for task in tasks]
            assert [type(end[0]) for end in ends].count(EngineBusyError) == 1
            assert order.index("b") <= 2
            assert client.counters.rejected == 2

    run(main())


def test_a_killed_engine_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with engine() as client:
            events = client.generate(LONG)
            seen: list[object] = []

            async def read(events: AsyncIterator[object]) -> None:
                async for event in events:
                    seen.append(event)
                    if isinstance(event, TokenDelta) and client.worker_pid is not None:
                        os.kill(client.worker_pid, signal.SIGKILL)

            error = await failure(read(events))
            assert isinstance(error, EngineCrashedError)
            assert error.retry_after is not None
            assert "SIGKILL" in str(error)
            assert client.state.phase == "restarting"
            refused = await failure(turn(client, prompt="Once"))
            assert isinstance(refused, EngineUnavailableError)
            assert refused.retry_after is not None
            await until(lambda: client.state.phase == "ready", "ready again")
            _, done = await turn(client, prompt="Once", max_tokens=2)
            assert done.usage.completion_tokens == 2
            assert client.counters.crashes == 1
            assert client.counters.finished == {"error": 1, "length": 1}

    run(main())
    (line,) = [record for record in caplog.records if "SIGKILL" in record.getMessage()]
    assert line.levelname == "ERROR"


def test_a_crash_while_an_unload_waits_starts_nothing() -> None:
    async def main() -> None:
        async with engine() as client:
            answering = asyncio.create_task(failure(turn(client, prompt="x", max_tokens=400)))
            await until(lambda: client.queue.running, "the turn runs")
            pid = client.worker_pid
            assert pid is not None
            unloading = asyncio.create_task(client.unload())
            await asyncio.sleep(0)
            os.kill(pid, signal.SIGKILL)
            assert isinstance(await answering, EngineUnavailableError)
            await unloading
            assert client.state == EngineState()
            assert client._restarts is None
            assert client.worker_pid is None

    run(main())


def test_an_engine_that_keeps_dying_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_BACKOFF", (0.0,))
    monkeypatch.setattr(client_module, "_MOST_CRASHES", 2)

    async def main() -> None:
        async with engine() as client:
            while client.state.phase != "failed":
                pid = client.worker_pid
                if pid is not None:
                    with suppress(ProcessLookupError):  # dead, and not noticed yet
                        os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(0.01)
            assert client.state.error is not None
            assert "3 times in a row" in client.state.error
            assert "SIGKILL" in client.state.error
            await client.load(NANO)
            _, done = await turn(client, prompt="Once", max_tokens=2)
            assert done.usage.completion_tokens == 2

    run(main())


def test_live_numbers_reach_whoever_watches() -> None:
    async def main() -> None:
        async with engine() as client:
            seen: list[int] = []

            async def watch() -> None:
                async for metrics in client.watch():
                    seen.append(metrics["index"])

            watching = asyncio.create_task(watch())
            await asyncio.sleep(0)
            await turn(client, prompt="Once upon a time", max_tokens=50)
            await until(lambda: 49 in seen, "the last numbers")
        await watching
        assert seen == sorted(seen)

    run(main())


def test_draining_lets_the_running_turn_end() -> None:
    async def main() -> None:
        async with engine() as client:
            running = asyncio.create_task(turn(client, prompt="Once upon a time", max_tokens=100))
            await until(lambda: client.queue.running, "running")
            waiting = asyncio.create_task(turn(client, prompt="Once"))
            await until(lambda: client.queue.waiting, "waiting")
            await client.drain(60.0)
            assert (await running)[1].finish_reason == "length"
            assert isinstance(await failure(waiting), EngineUnavailableError)
            assert isinstance(await failure(turn(client, prompt="x")), EngineUnavailableError)
        async with engine() as client:
            running = asyncio.create_task(turn(client, prompt="Once upon a time"))
            await until(lambda: client.queue.running, "running")
            await client.drain(0.0)
            assert (await running)[1].finish_reason == "cancelled"

    run(main())


@pytest.mark.parametrize("moment", ["loading", "ready", "answering"])
def test_no_engine_outlives_its_server(moment: str) -> None:
    program = textwrap.dedent(
        f"""
        import asyncio, os, sys
        from moestream.config import EngineConfig
        from moestream.server.worker import EngineClient, TokenDelta, TurnRequest
        from moestream.server.worker.process import WorkerProcess

        async def main():
            client = EngineClient()
            loading = asyncio.create_task(client.load(EngineConfig(threads=1)))
            while client.state.phase != "loading":
                await asyncio.sleep(0.001)
            if {moment!r} == "loading":
                await asyncio.sleep(0.2)
            else:
                await loading
            if {moment!r} == "answering":
                async for event in client.generate(TurnRequest(prompt="Once", max_tokens=4000)):
                    if isinstance(event, TokenDelta):
                        break
            children = open(f"/proc/{{os.getpid()}}/task/{{os.getpid()}}/children").read()
            print(children, flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.kill()
    assert pids
    eventually(
        lambda: not any("server.worker" in command_of(pid) for pid in pids), "the engine ends"
    )


def test_the_last_event_says_how_it_ended() -> None:
    async def main() -> None:
        async with engine(EngineConfig(threads=1, n_ctx=16)) as client:
            events = [e async for e in client.generate(TurnRequest(prompt="Once upon a time"))]
            done = events[-1]
            assert isinstance(done, TurnDone)
            assert done.finish_reason == "length"  # the context is full
            assert done.usage.prompt_tokens + done.usage.completion_tokens <= 17

    run(main())
