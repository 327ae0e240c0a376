"""A memory limit for runs, by a control group (Linux, versions 1 and 2), and cold caches.

With it a model is made bigger than memory on any machine. A run's process, and whatever it starts,
enters a fresh group; all that is charged to it counts, the page cache of its reads included.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moestream.errors import ConfigError, PlatformError

__all__ = ["Group", "MemoryRegime", "drop_caches", "limit_bytes", "parse_size"]

_ROOT: Final = Path("/sys/fs/cgroup")
_DROP: Final = Path("/proc/sys/vm/drop_caches")
_PREFIX: Final = "moestream-bench-"
#: A process does not start in less than that.
_LEAST: Final = 32 * 2**20
_UNITS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgt])(i?))?b?\s*", re.IGNORECASE)
_REMEDY: Final = "run as root, or leave out --memory-limit and --ram-ratio"


def parse_size(text: str) -> int:
    """Bytes of ``6GiB``, ``6G`` (the same), ``500MB`` (decimal, as it says) or a bare number.

    Raises:
        ConfigError: it is none of these.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ConfigError(f"{text!r} is no size; write it like 6GiB, 512M or 6000000000")
    unit, binary = (match[2] or "").lower(), bool(match[3])
    decimal = text.strip().lower().endswith("b") and not binary
    return int(float(match[1]) * (1000 if decimal else 1024) ** _UNITS[unit])


def limit_bytes(memory_limit: str | None, ram_ratio: float | None, model_bytes: int) -> int | None:
    """The limit that was asked for, in bytes; ``None`` without one.

    Args:
        memory_limit: a size, as :func:`parse_size` reads it.
        ram_ratio: how many times the model is bigger than the memory it gets.
        model_bytes: size of the model.

    Raises:
        ConfigError: both are given, or the limit is too small for any process.
    """
    if memory_limit is None and ram_ratio is None:
        return None
    if memory_limit is not None and ram_ratio is not None:
        raise ConfigError("--memory-limit and --ram-ratio exclude each other; give one")
    if memory_limit is not None:
        limit = parse_size(memory_limit)
    else:
        assert ram_ratio is not None
        if not 0 < ram_ratio < float("inf"):
            raise ConfigError(
                f"--ram-ratio is model size over memory and must be above 0, got {ram_ratio:g}"
            )
        limit = int(model_bytes / ram_ratio)
    if limit < _LEAST:
        raise ConfigError(
            f"a limit of {limit / 2**20:.1f} MiB is too small for any process; "
            f"give at least {_LEAST // 2**20} MiB"
        )
    return limit


def drop_caches(path: Path = _DROP) -> bool:
    """Forget the page cache; ``False`` where that is not permitted (or not Linux)."""
    if not os.access(path, os.W_OK):
        return False
    os.sync()
    try:
        path.write_text("3\n")
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Group:
    """A control group that exists now."""

    directory: Path
    version: int

    @property
    def entrance(self) -> Path:
        """A process enters by writing its id to this file."""
        return self.directory / "cgroup.procs"

    def peak_bytes(self) -> int | None:
        """Most memory ever charged; ``None`` where the kernel does not say (before 5.19)."""
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        return _number(self.directory / name)

    def killed_for_memory(self) -> bool:
        """Whether the kernel ended a process for lack of memory."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        for line in _lines(self.directory / name):
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.strip().isdigit():
                return int(value) > 0
        return False

    def processes(self) -> tuple[int, ...]:
        """Ids of the processes in it."""
        return tuple(int(line) for line in _lines(self.entrance) if line.strip().isdigit())


@dataclass(frozen=True, slots=True)
class MemoryRegime:
    """Groups of one limit, one after the other.

    Attributes:
        limit: bytes.
        root: where control groups are mounted.
    """

    limit: int
    root: Path = _ROOT

    def check(self) -> None:
        """Make a group, enter it with a process, remove it: whether runs can be limited here.

        Groups that a killed campaign left behind are removed first.

        Raises:
            PlatformError: they cannot; the message says why.
        """
        if sys.platform != "linux":
            raise PlatformError(
                f"memory limits need Linux control groups, and this is {sys.platform}; "
                "leave out --memory-limit and --ram-ratio"
            )
        self._sweep()
        with self.group() as group:
            command = ["/bin/sh", "-c", 'echo $$ > "$0"', str(group.entrance)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise PlatformError(
                    f"a process may not enter the control group {group.directory}: {reason}; "
                    f"{_REMEDY}"
                )

    @contextmanager
    def group(self) -> Iterator[Group]:
        """A fresh group for the time of the block. What is still in it then is killed.

        Raises:
            PlatformError: it cannot be made.
        """
        base, version = self._base()
        directory = base / f"{_PREFIX}{os.getpid()}"
        group = Group(directory, version)
        try:
            if directory.exists():
                _remove(group)
            directory.mkdir()
        except OSError as error:
            raise PlatformError(
                f"cannot make the control group {directory}: {error.strerror}; {_REMEDY}"
            ) from error
        try:
            try:
                self._set_limit(group)
            except OSError as error:
                raise PlatformError(
                    f"cannot limit the memory of the control group {directory}: {error.strerror}; "
                    f"{_REMEDY}"
                ) from error
            yield group
        finally:
            _remove(group)

    def _base(self) -> tuple[Path, int]:
        """Directory to make groups in, and the version of control groups."""
        if (self.root / "cgroup.controllers").exists():
            if "memory" not in _words(self.root / "cgroup.controllers"):
                raise PlatformError(
                    f"the kernel has no memory controller in {self.root}; boot without "
                    "cgroup_disable=memory, or leave out --memory-limit and --ram-ratio"
                )
            control = self.root / "cgroup.subtree_control"
            if "memory" not in _words(control):
                try:
                    control.write_text("+memory")
                except OSError as error:
                    raise PlatformError(
                        f"cannot switch on the memory controller in {control}: {error.strerror}; "
                        f"{_REMEDY}"
                    ) from error
            return self.root, 2
        if (self.root / "memory").is_dir():
            return self.root / "memory", 1
        raise PlatformError(
            f"there are no memory control groups in {self.root}; mount them, or leave out "
            "--memory-limit and --ram-ratio"
        )

    def _set_limit(self, group: Group) -> None:
        limit = str(self.limit)
        if group.version == 2:
            (group.directory / "memory.max").write_text(limit)
            with suppress(OSError):  # no swap, or swap is not accounted
                (group.directory / "memory.swap.max").write_text("0")
            return
        (group.directory / "memory.limit_in_bytes").write_text(limit)
        with suppress(OSError):
            (group.directory / "memory.memsw.limit_in_bytes").write_text(limit)

    def _sweep(self) -> None:
        base, version = self._base()
        for directory in base.glob(f"{_PREFIX}*"):
            owner = directory.name.removeprefix(_PREFIX)
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                _remove(Group(directory, version))


def _remove(group: Group) -> None:
    """Kill what is in the group and remove it; a group stays busy for a moment after that."""
    for _ in range(100):
        for process in group.processes():
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        try:
            group.directory.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
