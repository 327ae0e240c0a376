"""Pulls that run: one at a time, each in a process that can be stopped at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from moestream.errors import ConfigError
from moestream.models.download import discard_partial
from moestream.models.reference import RepoFile, parse_reference
from moestream.server.store import StoreError
from moestream.server.store.pulls import Pull, Pulls, PullState, moved

__all__ = ["PullLimitError", "Pulling", "pull_as_json"]

_MOST_WAITING: Final = 16
_GRACE_S: Final = 10.0
_LINE_LIMIT: Final = 1 << 20
#: Time over which the rate is averaged, about.
_RATE_S: Final = 3.0


class PullLimitError(ConfigError):
    """Too many pulls wait already."""


class Pulling:
    """Fetches models, and remembers what it fetched."""

    def __init__(self, pulls: Pulls, notify: Callable[[dict[str, Any]], None]) -> None:
        """Fetch what is asked for.

        Args:
            pulls: remembers.
            notify: told about every change, as JSON, from the event loop.
        """
        self._pulls = pulls
        self._notify = notify
        self._turn = asyncio.Lock()  # fair: first come, first served
        self._live: dict[str, Pull] = {}
        self._rates: dict[str, _Rate] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closing = False

    async def all(self) -> list[dict[str, Any]]:
        """Every pull, newest first, as JSON."""
        stored = await asyncio.to_thread(self._pulls.all)
        return [self._json(self._live.get(pull.id, pull)) for pull in stored]

    async def begin(self, reference: str) -> dict[str, Any]:
        """Fetch a model; one that is being fetched already is not fetched twice.

        Raises:
            ConfigError: this is no reference.
            PullLimitError: too many wait already.
            StoreError: it cannot be remembered.
        """
        if parse_reference(reference) is None:
            raise ConfigError(
                f"{reference!r} is not of the form OWNER/NAME[:QUANT], such as "
                "unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M"
            )
        for pull in self._live.values():
            if pull.reference == reference:
                return self._json(pull)
        self._check_room()
        return self._start(await asyncio.to_thread(self._pulls.add, reference))

    async def resume(self, pull_id: str) -> dict[str, Any]:
        """Go on with a pull that has ended, whatever ended it.

        Raises:
            NotKeptError: there is no such pull.
            PullLimitError: too many wait already.
        """
        if pull_id in self._live:
            return self._json(self._live[pull_id])
        pull = await asyncio.to_thread(self._pulls.get, pull_id)
        for other in self._live.values():
            if other.reference == pull.reference:
                raise ConfigError(f"{pull.reference} is being pulled already")
        self._check_room()
        pull = moved(pull, "waiting")
        await asyncio.to_thread(self._pulls.save, pull)
        return self._start(pull)

    async def cancel(self, pull_id: str) -> dict[str, Any]:
        """Stop a pull; what was fetched stays, to go on from. One that has ended is left alone.

        Raises:
            NotKeptError: there is no such pull.
        """
        task = self._tasks.get(pull_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            self._finish(pull_id, "cancelled")
        return self._json(await asyncio.to_thread(self._pulls.get, pull_id))

    async def delete(self, pull_id: str) -> None:
        """Forget a pull, and delete what it has fetched only in part.

        Raises:
            NotKeptError: there is no such pull.
        """
        await self.cancel(pull_id)
        pull = await asyncio.to_thread(self._pulls.get, pull_id)
        if pull.state != "done":
            await asyncio.to_thread(_discard, pull)
        await asyncio.to_thread(self._pulls.delete, pull_id)
        self._notify({**self._json(pull), "state": "deleted"})

    async def close(self) -> None:
        """Stop everything; what was running counts as interrupted."""
        self._closing = True
        tasks = dict(self._tasks)
        for task in tasks.values():
            task.cancel()
        if tasks:
            await asyncio.wait(tasks.values())
        for pull_id in tasks:
            self._finish(pull_id, "interrupted")

    def _check_room(self) -> None:
        if len(self._live) >= _MOST_WAITING:
            raise PullLimitError(
                f"{len(self._live)} pulls are waiting already; cancel one, or wait for one to end"
            )

    def _start(self, pull: Pull) -> dict[str, Any]:
        self._live[pull.id] = pull
        task = asyncio.create_task(self._run(pull.id))
        self._tasks[pull.id] = task
        self._tell(pull)
        return self._json(pull)

    async def _run(self, pull_id: str) -> None:
        error: str | None = None
        try:
            async with self._turn:
                error = await self._fetch(pull_id)
        except asyncio.CancelledError:
            self._finish(pull_id, "interrupted" if self._closing else "cancelled")
            return
        except (OSError, ValueError) as failure:
            error = f"the pull could not be made: {failure}"
        self._finish(pull_id, "failed" if error else "done", error)

    def _finish(self, pull_id: str, state: PullState, error: str | None = None) -> None:
        """The pull has ended; nothing happens if that is known."""
        pull = self._live.pop(pull_id, None)
        if pull is not None:
            self._tasks.pop(pull_id, None)
            self._rates.pop(pull_id, None)
            self._save(moved(pull, state, error=error))

    async def _fetch(self, pull_id: str) -> str | None:
        """Fetch one; returns what went wrong."""
        pull = moved(self._live[pull_id], "listing")
        self._keep(pull)
        self._save(pull)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "moestream.server.api.pull_child", pull.reference,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True, limit=_LINE_LIMIT,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        complaints = asyncio.create_task(_last_line(process.stderr))
        error: str | None = None
        try:
            async for line in process.stdout:
                said = json.loads(line)
                error = said.get("error", error)
                self._hear(pull_id, said)
            code = await process.wait()
            if code != 0 and error is None:
                error = f"the pull ended by itself ({await complaints or f'exit code {code}'})"
        finally:
            await _end(process)
            complaints.cancel()
        return error

    def _hear(self, pull_id: str, said: dict[str, Any]) -> None:
        pull = self._live[pull_id]
        if "files" in said:
            files = tuple(RepoFile(*file) for file in said["files"])
            pull = replace(moved(pull, "fetching"), files=files, bytes_total=said["total"])
            self._rates[pull_id] = _Rate()
        pull = replace(pull, bytes_done=said.get("done", pull.bytes_done))
        if "path" in said:
            pull = replace(pull, path=said["path"])
        if "done" in said and pull_id in self._rates:
            self._rates[pull_id].add(pull.bytes_done)
        self._keep(pull)
        if "files" in said:
            self._save(pull)
        else:
            self._tell(pull)

    def _keep(self, pull: Pull) -> None:
        self._live[pull.id] = pull

    def _save(self, pull: Pull) -> None:
        # Not in a thread: this also runs while a task is being cancelled, and it is one small row.
        try:
            self._pulls.save(pull)
        except StoreError as error:
            pull = replace(pull, error=pull.error or f"it cannot be remembered: {error}")
        self._tell(pull)

    def _tell(self, pull: Pull) -> None:
        self._notify(self._json(pull))

    def _json(self, pull: Pull) -> dict[str, Any]:
        rate = self._rates.get(pull.id)
        return pull_as_json(pull, None if rate is None else rate.mean)


class _Rate:
    """A running mean of bytes a second."""

    def __init__(self) -> None:
        self.mean: float | None = None
        self._last: tuple[float, int] | None = None

    def add(self, done: int) -> None:
        """So many bytes are there now."""
        now = time.monotonic()
        if self._last is not None and now > self._last[0]:
            span = now - self._last[0]
            rate = (done - self._last[1]) / span
            weight = min(span / _RATE_S, 1.0)
            self.mean = rate if self.mean is None else self.mean + weight * (rate - self.mean)
        self._last = (now, done)


def pull_as_json(pull: Pull, rate: float | None) -> dict[str, Any]:
    """A pull as the app gets it; sizes in bytes, times in seconds since the epoch."""
    return {
        "id": pull.id,
        "reference": pull.reference,
        "state": pull.state,
        "bytes_total": pull.bytes_total,
        "bytes_done": pull.bytes_done,
        "bytes_per_s": None if rate is None else round(rate),
        "files": [{"name": file.name, "bytes": file.size} for file in pull.files],
        "path": pull.path,
        "error": pull.error,
        "created": pull.created,
        "updated": pull.updated,
    }


async def _end(process: asyncio.subprocess.Process) -> None:
    """Have the process end; it is given time to close its files."""
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        try:
            await asyncio.wait_for(process.wait(), _GRACE_S)
        except asyncio.TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _last_line(stream: asyncio.StreamReader) -> str:
    last = b""
    async for line in stream:
        last = line.strip() or last
    return last.decode("utf-8", "replace")[:300]


def _discard(pull: Pull) -> None:
    from huggingface_hub import constants

    reference = parse_reference(pull.reference)
    if reference is not None:
        for file in pull.files:
            discard_partial(Path(constants.HF_HUB_CACHE), reference.repo, file)
