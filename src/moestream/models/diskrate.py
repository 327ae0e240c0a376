"""How fast this disk gives random slices of this very file: measured, bounded in time."""

from __future__ import annotations

import mmap
import os
import random
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DiskMeasurement", "DiskRate", "FileRange", "measure_disk"]

_PAGE = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of a file that reads may be taken from."""

    file: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRate:
    """Random reads of one size by a number of threads at once."""

    lanes: int
    reads: int
    seconds: float
    bytes: int

    @property
    def bytes_per_s(self) -> float:
        """All lanes together."""
        return self.bytes / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskMeasurement:
    """What was measured, and how.

    Attributes:
        direct: the page cache was bypassed; if not, the rates may be the memory's.
        note: what to know about them, or ``None``.
    """

    read_bytes: int
    direct: bool
    rates: tuple[DiskRate, ...]
    note: str | None

    @property
    def best(self) -> DiskRate | None:
        """The fastest; fewer lanes where more gain under 5 %."""
        best: DiskRate | None = None
        for rate in self.rates:
            if best is None or rate.bytes_per_s > 1.05 * best.bytes_per_s:
                best = rate
        return best


def measure_disk(
    files: Sequence[Path],
    ranges: Sequence[FileRange],
    *,
    read_bytes: int,
    lanes: Sequence[int] = (1, 2, 4),
    seconds: float = 1.0,
) -> DiskMeasurement:
    """Read random pieces for about ``seconds`` with each number of lanes.

    Raises:
        OSError: a file cannot be opened or read.
    """
    size = -(-read_bytes // _PAGE) * _PAGE
    if not hasattr(os, "preadv"):
        return DiskMeasurement(
            read_bytes=size, direct=False, rates=(), note="this platform has no vectored reads"
        )
    with ExitStack() as stack:
        descriptors, direct = _open(files, stack)
        offsets = _Offsets(ranges, size)
        rates = tuple(_measure(descriptors, offsets, size, count, seconds) for count in lanes)
    note = None
    if not direct:
        note = "the filesystem refuses direct I/O, so these reads may come from the page cache"
    return DiskMeasurement(read_bytes=size, direct=direct, rates=rates, note=note)


def _open(files: Sequence[Path], stack: ExitStack) -> tuple[list[int], bool]:
    """Descriptors of all files, with direct I/O if every one of them takes it."""
    flag = getattr(os, "O_DIRECT", 0)
    if flag:
        try:
            return [_open_one(path, flag, stack) for path in files], True
        except OSError:
            pass
    descriptors = [_open_one(path, 0, stack) for path in files]
    if hasattr(os, "posix_fadvise"):
        for descriptor in descriptors:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return descriptors, False


def _open_one(path: Path, flag: int, stack: ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY | flag)
    stack.callback(os.close, descriptor)
    if flag:
        # Some filesystems accept the flag and refuse the reads.
        with mmap.mmap(-1, _PAGE) as page:
            os.preadv(descriptor, [page], 0)
    return descriptor


class _Offsets:
    """Draws where to read: ranges by their length, page-aligned, inside the range."""

    def __init__(self, ranges: Sequence[FileRange], size: int) -> None:
        if not ranges:
            raise ValueError("nothing to read from")
        self._ranges = ranges
        self._weights = [float(entry.length) for entry in ranges]
        self._size = size

    def draw(self, rng: random.Random) -> tuple[int, int]:
        """Index of a file and an offset in it."""
        (entry,) = rng.choices(self._ranges, self._weights)
        start = entry.offset // _PAGE
        last = max((entry.offset + entry.length - self._size) // _PAGE, start)
        return entry.file, rng.randint(start, last) * _PAGE


def _measure(
    descriptors: Sequence[int], offsets: _Offsets, size: int, lanes: int, seconds: float
) -> DiskRate:
    counts = [0] * lanes
    volumes = [0] * lanes
    failures: list[OSError] = []
    begin = time.perf_counter()
    deadline = begin + seconds

    def lane(index: int) -> None:
        rng = random.Random(index + 1000 * lanes)
        with mmap.mmap(-1, size) as buffer:
            while True:  # at least once, however little time there is
                file, offset = offsets.draw(rng)
                try:
                    volumes[index] += os.preadv(descriptors[file], [buffer], offset)
                except OSError as error:
                    failures.append(error)
                    return
                counts[index] += 1
                if time.perf_counter() >= deadline:
                    return

    threads = [threading.Thread(target=lane, args=(i,), daemon=True) for i in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return DiskRate(
        lanes=lanes,
        reads=sum(counts),
        seconds=time.perf_counter() - begin,
        bytes=sum(volumes),
    )
