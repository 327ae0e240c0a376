"""Starts cells as processes, inside a memory cgroup or not, and keeps what they print."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from moestream.bench.regime import MemoryRegime

ROOT = Path(__file__).parent.parent


def run_cell(spec: dict[str, Any], *, limit_bytes: int | None = None) -> dict[str, Any]:
    """The cell's JSON, with wall time and, in a cgroup, the peak of charged memory.

    A cell that fails is a result, too: ``{"failed": reason}``.
    """
    command = [sys.executable, "-m", "benchmarks.cell", json.dumps(spec)]
    started = time.perf_counter()
    if limit_bytes is None:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        peak = None
    else:
        with MemoryRegime(limit_bytes).group() as group:
            inside = ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group.entrance)]
            done = subprocess.run(
                [*inside, *command], cwd=ROOT, capture_output=True, text=True, check=False
            )
            peak = group.peak_bytes()
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"failed": f"exit {done.returncode}: {last}"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    result["process_s"] = time.perf_counter() - started
    result["peak_bytes"] = peak
    return result
