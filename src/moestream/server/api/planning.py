"""Plans, each made in a process of its own: it measures, and must not disturb the server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from moestream.errors import ModelError, PlatformError

__all__ = ["Planning"]

_MOST_S: Final = 60.0
_LIMIT: Final = 1 << 20


class Planning:
    """Makes plans, one at a time: two measurements at once would disturb each other."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._turn = asyncio.Lock()

    async def plan(self, path: Path, values: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """What ``moestream plan`` says about the model at ``path``, as JSON.

        Args:
            values: settings, complete or in part.
            seconds: to spend on measuring; 0 measures nothing.

        Raises:
            ModelError: the file is no well-formed model, or cannot be run as the settings want.
            PlatformError: the plan could not be made.
        """
        job = json.dumps({"path": str(path), "values": dict(values), "seconds": seconds})
        async with self._turn:
            answer, complaint = await _ask(job)
        try:
            plan: dict[str, Any] = json.loads(answer)
        except ValueError:
            raise PlatformError(f"the plan could not be made: {complaint}") from None
        if "error" in plan:
            raise ModelError(plan["error"])
        return plan


async def _ask(job: str) -> tuple[bytes, str]:
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "moestream.server.api.plan_child",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True, limit=_LIMIT,
        )  # fmt: skip
    except OSError as error:
        raise PlatformError(f"the plan could not be made: {error.strerror or error}") from error
    try:
        out, err = await asyncio.wait_for(process.communicate(job.encode()), _MOST_S)
    except asyncio.TimeoutError:
        raise PlatformError(f"the plan was not made within {_MOST_S:.0f} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    last = err.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return out, last or f"exit code {process.returncode}"
