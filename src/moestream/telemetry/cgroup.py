"""Memory limits of the control group this process lives in (Linux, versions 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["CgroupMemory", "cpu_quota", "memory_levels"]

_ROOT: Final = Path("/sys/fs/cgroup")
_SELF: Final = Path("/proc/self/cgroup")
# Version 1 says "no limit" with a number close to 2^63.
_UNLIMITED: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class CgroupMemory:
    """One level of the hierarchy that has a limit."""

    path: str
    limit: int
    usage: int
    reclaimable: int

    @property
    def available(self) -> int:
        """Bytes that can still be charged before the limit is met."""
        return max(self.limit - max(self.usage - self.reclaimable, 0), 0)


def memory_levels(*, root: Path = _ROOT, membership: Path = _SELF) -> tuple[CgroupMemory, ...]:
    """Every limited level from this process's group up to the root, innermost first."""
    groups = _groups(membership)
    if (root / "cgroup.controllers").exists():
        group = groups.get("")
        return () if group is None else _levels_v2(root, group)
    group = groups.get("memory")
    base = root / "memory"
    return () if group is None or not base.is_dir() else _levels_v1(base, group)


def cpu_quota(*, root: Path = _ROOT, membership: Path = _SELF) -> float | None:
    """Cores that the tightest CPU quota allows, or ``None``."""
    groups = _groups(membership)
    quotas: list[float] = []
    if (root / "cgroup.controllers").exists():
        for directory in _ancestors(root, groups.get("", "/")):
            fields = _read(directory / "cpu.max").split()
            if len(fields) == 2 and fields[0].isdigit() and int(fields[1]) > 0:
                quotas.append(int(fields[0]) / int(fields[1]))
    else:
        group = groups.get("cpu", "/")
        for directory in _ancestors(root / "cpu", group):
            quota = _read_int(directory / "cpu.cfs_quota_us")
            period = _read_int(directory / "cpu.cfs_period_us")
            if quota is not None and quota > 0 and period:
                quotas.append(quota / period)
    return min(quotas, default=None)


def _groups(membership: Path) -> dict[str, str]:
    """Controller name to group path; the unified hierarchy is the empty name."""
    groups: dict[str, str] = {}
    for line in _read(membership).splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                groups[controller] = parts[2]
    return groups


def _ancestors(base: Path, group: str) -> list[Path]:
    """Directories of the group and its ancestors, innermost first.

    In a container the group's path may be the host's, and only the mount's top is visible.
    """
    names = [name for name in group.split("/") if name not in ("", ".", "..")]
    paths = [base.joinpath(*names[:count]) for count in range(len(names), -1, -1)]
    return [path for path in paths if path.is_dir()]


def _levels_v2(root: Path, group: str) -> tuple[CgroupMemory, ...]:
    levels = []
    for directory in _ancestors(root, group):
        limits = [
            value
            for name in ("memory.max", "memory.high")
            if (value := _read_int(directory / name)) is not None
        ]
        usage = _read_int(directory / "memory.current")
        if not limits or usage is None:
            continue
        stat = _stat(directory / "memory.stat")
        reclaimable = (
            stat.get("active_file", 0)
            + stat.get("inactive_file", 0)
            + stat.get("slab_reclaimable", 0)
        )
        levels.append(CgroupMemory(str(directory), min(limits), usage, reclaimable))
    return tuple(levels)


def _levels_v1(base: Path, group: str) -> tuple[CgroupMemory, ...]:
    levels = []
    for directory in _ancestors(base, group):
        limit = _read_int(directory / "memory.limit_in_bytes")
        usage = _read_int(directory / "memory.usage_in_bytes")
        if limit is None or usage is None or limit >= _UNLIMITED:
            continue
        stat = _stat(directory / "memory.stat")
        reclaimable = stat.get("total_active_file", 0) + stat.get("total_inactive_file", 0)
        levels.append(CgroupMemory(str(directory), limit, usage, reclaimable))
    return tuple(levels)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _read_int(path: Path) -> int | None:
    try:
        return int(_read(path))
    except ValueError:
        return None


def _stat(path: Path) -> dict[str, int]:
    values: dict[str, int] = {}
    for line in _read(path).splitlines():
        name, _, value = line.partition(" ")
        if value.isdigit():
            values[name] = int(value)
    return values
