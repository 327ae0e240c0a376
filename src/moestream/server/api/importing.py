"""A CSV from elsewhere, taken in: received up to a limit, looked through, and kept or refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from moestream.errors import ConfigError
from moestream.server.errors import ApiError
from moestream.server.store.errors import file_errors
from moestream.server.store.runs import Run, Runs
from moestream.telemetry.reading import read_run

__all__ = ["MOST_BYTES", "MOST_FIELDS", "receive"]

MOST_BYTES: Final = 16 << 20
#: Fields in all. A few bytes of file make a number in memory, which is larger.
MOST_FIELDS: Final = 2_500_000

_NAME_LENGTH: Final = 120


async def receive(body: AsyncIterator[bytes], runs: Runs, name: str | None) -> Run:
    """Keep what ``body`` brings as a run.

    Raises:
        ApiError: it is larger than is taken.
        ConfigError: it is no recorded run; the message names the line.
        StoreError: it cannot be kept.
    """
    path = runs.import_path()
    try:
        await _write(body, path)
        await asyncio.to_thread(_check, path)
        return await asyncio.to_thread(runs.take, path, _clean(name))
    finally:
        path.unlink(missing_ok=True)


async def _write(body: AsyncIterator[bytes], path: Path) -> None:
    size = fields = 0
    with file_errors("cannot keep the file"), path.open("wb") as file:
        async for piece in body:
            size += len(piece)
            fields += piece.count(b",") + piece.count(b"\n")
            if size > MOST_BYTES:
                raise _too_large(
                    f"the file is larger than {MOST_BYTES >> 20} MiB, which is the most that is "
                    "imported; record shorter runs, or cut it"
                )
            if fields > MOST_FIELDS:
                raise _too_large(
                    f"the file has more than {MOST_FIELDS} fields, which is the most that is "
                    "imported; record shorter runs, or cut it"
                )
            # A piece is small, and the server is the only one to wait for it.
            file.write(piece)


def _too_large(message: str) -> ApiError:
    return ApiError(message, status=413, code="too_large")


def _check(path: Path) -> None:
    try:
        run = read_run(path)
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(path), "the file")) from error
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror or error}") from error
    if run.n_rows == 0:
        raise ConfigError("the file has a header but no row of a token")


def _clean(name: str | None) -> str:
    text = " ".join("".join(c if c.isprintable() else " " for c in name or "").split())
    return text.removesuffix(".csv")[:_NAME_LENGTH] or "imported"
