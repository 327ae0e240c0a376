"""Tables of ratios, and where they are kept."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def entry_state() -> dict[str, Any]:
    """What the machine was doing when a measurement began."""
    memory = dict(
        line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if ":" in line
    )
    cpu = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "cpu": cpu[0] if cpu else platform.processor(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load_1m": os.getloadavg()[0],
        "mem_available_mib": int(memory["MemAvailable"].split()[0]) // 1024,
    }


def spread(values: list[float]) -> float:
    """Largest over smallest, minus one: the noise floor of repeated runs."""
    return max(values) / min(values) - 1 if values and min(values) > 0 else float("nan")


def median(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")


def markdown(header: list[str], rows: list[list[object]]) -> str:
    def cell(value: object) -> str:
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell(v) for v in row) + " |" for row in rows]
    return "\n".join(lines)


def publish(name: str, text: str, raw: dict[str, Any], *, save: bool) -> None:
    """Print the table; with ``save`` also keep it and the raw data under results/."""
    print(text)
    if save:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text + "\n")
        (RESULTS / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
        print(f"\nsaved as results/{name}.md and .json")
