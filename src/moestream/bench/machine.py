"""Which machine a campaign runs on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from moestream.bench.result import MachineFacts
from moestream.telemetry.system import memory_state

__all__ = ["machine_facts"]


def machine_facts() -> MachineFacts:
    """Processor, cores, kernel and memory, as far as they can be told."""
    total = memory_state().total
    return MachineFacts(
        cpu=_processor(),
        cores=os.cpu_count() or 1,
        kernel=f"{platform.system()} {platform.release()}",
        ram_mib=None if total is None else total // 2**20,
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"
