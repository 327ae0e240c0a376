"""Probes of the machine and of this process. What cannot be measured is ``None``, never zero."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moestream.telemetry.cgroup import cpu_quota, memory_levels

__all__ = [
    "MemoryState",
    "ProcessMemory",
    "address_space_left",
    "available_cpus",
    "bytes_read_by_process",
    "cpu_time_and_major_faults",
    "memory_state",
    "process_memory",
]

_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Memory that this process may still take.

    Attributes:
        total: of the machine.
        available: of the machine, without swapping (page cache counts as available).
        cgroup_limit: the tightest control group's limit, if there is one.
        cgroup_available: what can still be charged to it.
    """

    total: int | None
    available: int | None
    cgroup_limit: int | None
    cgroup_available: int | None


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Resident memory of this process in bytes, by kind."""

    rss: int
    anon: int | None
    file: int | None
    swap: int | None


def memory_state() -> MemoryState:
    """Look at the machine and at every control group above this process."""
    total, available = _machine_memory()
    levels = memory_levels() if sys.platform == "linux" else ()
    tightest = min(levels, key=lambda level: level.available, default=None)
    return MemoryState(
        total=total,
        available=available,
        cgroup_limit=None if tightest is None else tightest.limit,
        cgroup_available=None if tightest is None else tightest.available,
    )


def process_memory() -> ProcessMemory | None:
    """Resident memory of this process."""
    values = _kib_values(Path("/proc/self/status"))
    if "VmRSS" not in values:
        return None
    shared = values.get("RssShmem", 0)
    anon = values.get("RssAnon")
    return ProcessMemory(
        rss=values["VmRSS"],
        anon=None if anon is None else anon + shared,
        file=values.get("RssFile"),
        swap=values.get("VmSwap"),
    )


def address_space_left() -> int | None:
    """Bytes of address space that the process may still use; ``None`` where nothing limits it."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    except (ImportError, OSError, ValueError, IndexError):
        return None
    return None if limit == resource.RLIM_INFINITY else max(limit - used, 0)


def available_cpus() -> int:
    """Cores this process may use: affinity mask and control group quota respected."""
    if sys.platform == "linux":
        allowed = len(os.sched_getaffinity(0))
        quota = cpu_quota()
        if quota is not None:
            allowed = min(allowed, max(int(quota + 0.5), 1))
        return max(allowed, 1)
    return os.cpu_count() or 1


def cpu_time_and_major_faults() -> tuple[float, int] | None:
    """CPU seconds and major page faults of this process so far; take differences."""
    if sys.platform == "win32":
        return None
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_majflt


def bytes_read_by_process() -> int | None:
    """Bytes this process has asked the kernel to read so far, cached or not; take differences."""
    try:
        text = Path("/proc/self/io").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "rchar":
            return int(value)
    return None


def _machine_memory() -> tuple[int | None, int | None]:
    if sys.platform == "linux":
        values = _kib_values(Path("/proc/meminfo"))
        return values.get("MemTotal"), values.get("MemAvailable")
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None, None
    return total, None


def _kib_values(path: Path) -> dict[str, int]:
    values: dict[str, int] = {}
    try:
        text = path.read_text()
    except OSError:
        return values
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if fields and fields[0].isdigit() and (len(fields) == 1 or fields[1] == "kB"):
            values[name] = int(fields[0]) * _KIB
    return values
