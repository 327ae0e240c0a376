"""Starts a run as a process, and tells what became of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moestream.bench.regime import Group, MemoryRegime

__all__ = ["Outcome", "run_job"]

#: Of what a process printed, so much is looked at.
_MOST_OUTPUT: Final = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a process left.

    Attributes:
        value: its result; ``None`` if it failed, or is a command.
        failure: why it failed; ``None`` if it did not.
        output: what it printed to stdout and stderr.
        peak_bytes: most memory charged to its control group.
    """

    value: Mapping[str, Any] | None
    failure: str | None
    output: str
    peak_bytes: int | None


def run_job(
    job: Mapping[str, Any], *, regime: MemoryRegime | None = None, timeout_s: float
) -> Outcome:
    """Do ``job`` in a process (see :mod:`moestream.bench.child`), and wait for it.

    Whatever ends this call, the process and what it started are ended with it.

    Raises:
        PlatformError: there can be no such control group here.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moestream-")))
        group = None if regime is None else stack.enter_context(regime.group())
        result = directory / "result.json"
        whole = {
            **job,
            "parent": os.getpid(),
            "entrance": None if group is None else str(group.entrance),
            "result": str(result),
        }
        log = stack.enter_context((directory / "output").open("w+b"))
        code = _run(json.dumps(whole), log.fileno(), timeout_s)
        log.seek(max(log.seek(0, os.SEEK_END) - _MOST_OUTPUT, 0))
        output = log.read().decode("utf-8", "replace")
        peak = None if group is None else group.peak_bytes()
        failure, value = _failure(code, output, group, timeout_s), None
        if failure is None and job["kind"] != "command":
            value, failure = _read(result)
        return Outcome(value=value, failure=failure, output=output, peak_bytes=peak)


def _run(text: str, log: int, timeout_s: float) -> int | None:
    """The exit code; ``None`` if the time ran out."""
    process = subprocess.Popen(
        [sys.executable, "-m", "moestream.bench.child"],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        # A group of its own: it can be ended as a whole, and Ctrl-C reaches the campaign alone.
        start_new_session=True,
    )
    try:
        with suppress(subprocess.TimeoutExpired):
            process.communicate(text.encode(), timeout=timeout_s)
            return process.returncode
        return None
    finally:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failure(code: int | None, output: str, group: Group | None, timeout_s: float) -> str | None:
    if code == 0:
        return None
    if group is not None and group.killed_for_memory():
        return "killed by the kernel: it needed more memory than the limit allows"
    if code is None:
        return f"nothing came of it within {timeout_s:g} s, so it was ended (--run-timeout)"
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    said = f": {last[:300]}" if last else ", and it said nothing"
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"crashed with {name}{said}"
    return f"exit code {code}{said}"


def _read(path: Path) -> tuple[Mapping[str, Any] | None, str | None]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return None, f"it ended without a result ({error})"
    failure = value.get("failure")
    return (value, None) if failure is None else (None, str(failure))
