"""A memory-limited control group for one process, versions 1 and 2."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path


class MemoryCgroup:
    """Use with :func:`limited`; processes enter it by :meth:`enter` (between fork and exec)."""

    def __init__(self, directory: Path, version: int) -> None:
        self.directory = directory
        self.version = version

    def enter(self) -> None:
        (self.directory / "cgroup.procs").write_text(str(os.getpid()))

    def peak_bytes(self) -> int:
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        return int((self.directory / name).read_text())


@contextlib.contextmanager
def limited(limit_bytes: int) -> Iterator[MemoryCgroup]:
    """A fresh group of that size; removed at the end. Needs root."""
    root = Path("/sys/fs/cgroup")
    version = 2 if (root / "cgroup.controllers").exists() else 1
    base = root if version == 2 else root / "memory"
    directory = base / f"moestream-bench-{os.getpid()}"
    try:
        directory.mkdir()
        if version == 2:
            (directory / "memory.max").write_text(str(limit_bytes))
            (directory / "memory.swap.max").write_text("0")
        else:
            (directory / "memory.limit_in_bytes").write_text(str(limit_bytes))
    except OSError as err:
        raise SystemExit(f"cannot make a memory cgroup ({err}); run as root") from err
    try:
        yield MemoryCgroup(directory, version)
    finally:
        for _ in range(50):
            try:
                directory.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def drop_caches() -> None:
    """Forget the page cache. Needs root."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError as err:
        raise SystemExit(f"cannot drop the page cache ({err}); run as root") from err


@contextlib.contextmanager
def read_ahead(path: Path, kib: int | None) -> Iterator[int]:
    """Set the read-ahead of the block device that holds ``path``; yields the setting in KiB."""
    device = os.stat(path).st_dev
    queue = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    setting = queue / "queue" / "read_ahead_kb"
    if not setting.exists():  # a partition: the queue is the disk's
        setting = queue.resolve().parent / "queue" / "read_ahead_kb"
    before = int(setting.read_text())
    if kib is None or kib == before:
        yield before
        return
    setting.write_text(str(kib))
    try:
        yield kib
    finally:
        setting.write_text(str(before))
