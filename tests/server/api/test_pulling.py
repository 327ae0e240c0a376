"""Pulls against a hub on the loopback interface: progress, cancel, resume, and what fails."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from moestream.errors import ConfigError
from moestream.server.api.pulling import Pulling, PullLimitError
from moestream.server.store import NotKeptError
from moestream.server.store.database import Database
from moestream.server.store.pulls import Pulls
from tests.models.hub import Hub
from tests.server.api.conftest import HUB_FILE as NAME
from tests.server.api.conftest import HUB_REPO as REPO


@pytest.fixture
def pulls(tmp_path: Path) -> Iterator[Pulls]:
    database = Database(tmp_path / "kept.db")
    yield Pulls(database)
    database.close()


@dataclass
class Told:
    """What a listener was told."""

    events: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    async def until(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for event in self.events:
                if what(event):
                    return event
            await asyncio.sleep(0.01)
        raise AssertionError(self.events)

    async def ended(self, pull: dict[str, Any]) -> dict[str, Any]:
        ends = ("done", "failed", "cancelled", "interrupted")
        return await self.until(lambda e: e["id"] == pull["id"] and e["state"] in ends)


def run(test: Callable[[Pulling, Told], Awaitable[None]], pulls: Pulls) -> None:
    async def whole() -> None:
        told = Told()
        pulling = Pulling(pulls, told)
        try:
            await test(pulling, told)
        finally:
            await pulling.close()

    asyncio.run(whole())


def parts(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("hf/hub/models--*/blobs/*.incomplete"))


def test_a_pull_to_its_end(hub: Hub, pulls: Pulls) -> None:
    async def test(pulling: Pulling, told: Told) -> None:
        pull = await pulling.begin(f"{REPO}:q8_0")
        assert pull["state"] == "waiting"
        done = await told.ended(pull)
        assert (done["state"], done["error"]) == ("done", None)
        assert done["bytes_done"] == done["bytes_total"] == len(hub.files[NAME])
        assert Path(done["path"]).read_bytes() == hub.files[NAME]
        assert done["files"] == [{"name": NAME, "bytes": 6_000_000}]
        states = [event["state"] for event in told.events]
        assert sorted(set(states), key=states.index) == ["waiting", "listing", "fetching", "done"]
        counts = [e["bytes_done"] for e in told.events if e["state"] == "fetching"]
        assert counts == sorted(counts)
        assert (await pulling.all())[0] == done

    run(test, pulls)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_cancelled_pull_keeps_its_part_and_goes_on(
    hub: Hub, pulls: Pulls, tmp_path: Path
) -> None:
    hub.stall_after = 3_000_000

    async def test(pulling: Pulling, told: Told) -> None:
        pull = await pulling.begin(f"{REPO}:Q8_0")
        await told.until(lambda event: 2_000_000 < event["bytes_done"] < 6_000_000)
        begun = time.monotonic()
        cancelled = await pulling.cancel(pull["id"])
        assert time.monotonic() - begun < 30
        assert cancelled["state"] == "cancelled"
        (part,) = parts(tmp_path)
        size = part.stat().st_size
        assert 2_000_000 < size < 6_000_000

        hub.stall_after = None
        told.events.clear()
        assert (await pulling.resume(pull["id"]))["state"] == "waiting"
        done = await told.ended(pull)
        assert done["state"] == "done", done["error"]
        assert hub.fetched()[-1] == (NAME, f"bytes={size}-")
        assert Path(done["path"]).read_bytes() == hub.files[NAME]
        assert not parts(tmp_path)
        first = next(event for event in told.events if event["state"] == "fetching")
        assert first["bytes_done"] >= size

    run(test, pulls)


def test_deleting_a_pull_deletes_its_part(hub: Hub, pulls: Pulls, tmp_path: Path) -> None:
    hub.stall_after = 3_000_000

    async def test(pulling: Pulling, told: Told) -> None:
        pull = await pulling.begin(f"{REPO}:Q8_0")
        await told.until(lambda event: event["bytes_done"] > 2_000_000)
        await pulling.delete(pull["id"])
        assert not parts(tmp_path)
        assert await pulling.all() == []
        assert told.events[-1]["state"] == "deleted"
        for call in (pulling.delete, pulling.cancel, pulling.resume):
            with pytest.raises(NotKeptError, match="no pull"):
                await call(pull["id"])

    run(test, pulls)


def test_deleting_a_pull_that_is_done_leaves_the_model(hub: Hub, pulls: Pulls) -> None:
    async def test(pulling: Pulling, told: Told) -> None:
        done = await told.ended(await pulling.begin(f"{REPO}:Q4_0"))
        await pulling.delete(done["id"])
        assert Path(done["path"]).is_file()

    run(test, pulls)


def test_a_server_that_stops_leaves_a_pull_to_go_on_with(hub: Hub, pulls: Pulls) -> None:
    hub.stall_after = 3_000_000

    async def stopped(pulling: Pulling, told: Told) -> None:
        await pulling.begin(f"{REPO}:Q8_0")
        waiting = await pulling.begin(f"{REPO}:Q4_0")
        await told.until(lambda event: event["bytes_done"] > 2_000_000)
        assert waiting["state"] == "waiting"

    run(stopped, pulls)
    assert [pull.state for pull in pulls.all()] == ["interrupted"] * 2
    hub.stall_after = None

    async def again(pulling: Pulling, told: Told) -> None:
        for pull in await pulling.all():
            await pulling.resume(pull["id"])
            done = await told.ended(pull)
            assert done["state"] == "done", done["error"]

    run(again, pulls)


def test_a_killed_server_leaves_a_pull_to_go_on_with(tmp_path: Path) -> None:
    database = Database(tmp_path / "kept.db")
    Pulls(database).add(f"{REPO}:Q8_0")
    database.close()
    database = Database(tmp_path / "kept.db")
    assert [pull.state for pull in Pulls(database).all()] == ["interrupted"]
    database.close()


def test_a_pull_whose_process_is_killed_fails_in_words(hub: Hub, pulls: Pulls) -> None:
    hub.stall_after = 3_000_000

    async def test(pulling: Pulling, told: Told) -> None:
        pull = await pulling.begin(f"{REPO}:Q8_0")
        await told.until(lambda event: event["bytes_done"] > 2_000_000)
        os.kill(_child(), signal.SIGKILL)
        failed = await told.ended(pull)
        assert failed["state"] == "failed"
        assert "ended by itself" in failed["error"]

    run(test, pulls)


def _child() -> int:
    """The process of the pull that runs."""
    psutil = pytest.importorskip("psutil")
    (child,) = psutil.Process().children()
    return int(child.pid)


def test_what_cannot_be_pulled(hub: Hub, pulls: Pulls) -> None:
    async def test(pulling: Pulling, told: Told) -> None:
        for reference in ("nonsense", "", "../../x", "a/b/c:Q8_0", "/etc/passwd"):
            with pytest.raises(ConfigError, match="OWNER/NAME"):
                await pulling.begin(reference)
        unknown = await told.ended(await pulling.begin(f"{REPO}:Q5_K_S"))
        assert (unknown["state"], "no Q5_K_S" in unknown["error"]) == ("failed", True)
        several = await told.ended(await pulling.begin(REPO))
        assert "several models" in several["error"]
        nowhere = await told.ended(await pulling.begin("someone/else:Q8_0"))
        assert "no such repository" in nowhere["error"]

    run(test, pulls)


def test_one_at_a_time_and_not_too_many(hub: Hub, pulls: Pulls) -> None:
    hub.stall_after = 1_000_000

    async def test(pulling: Pulling, told: Told) -> None:
        first = await pulling.begin(f"{REPO}:Q8_0")
        again = await pulling.begin(f"{REPO}:Q8_0")
        assert first["id"] == again["id"]
        for number in range(15):
            await pulling.begin(f"someone/repo{number}")
        with pytest.raises(PullLimitError, match="16 pulls are waiting"):
            await pulling.begin("someone/more")
        await told.until(lambda event: event["state"] == "fetching")
        assert {e["state"] for e in told.events if e["id"] != first["id"]} == {"waiting"}

    run(test, pulls)
