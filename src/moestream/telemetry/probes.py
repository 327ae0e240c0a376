"""Memory of the process and of the machine, cheap enough to be asked for every token.

The two files of ``/proc`` are opened once and read once a sample: tens of microseconds.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

__all__ = ["MemoryProbe", "MemorySample", "page_size"]

_KIB_PER_MIB: Final = 1024.0
#: More than either file ever says.
_MOST: Final = 16384


def page_size() -> int | None:
    """Bytes of a memory page."""
    try:
        return os.sysconf("SC_PAGESIZE")
    except (AttributeError, ValueError, OSError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """Memory at one moment, in MiB; ``None`` where the platform does not say.

    Attributes:
        rss: resident memory of the process.
        rss_anon: part of it that is anonymous or shared.
        rss_file: part of it that is mapped from files.
        swap: memory of the process in swap.
        available: memory of the machine that can be taken without swapping.
        free: memory of the machine that nothing uses.
        swap_free: swap of the machine that nothing uses.
    """

    rss: float | None = None
    rss_anon: float | None = None
    rss_file: float | None = None
    swap: float | None = None
    available: float | None = None
    free: float | None = None
    swap_free: float | None = None


class MemoryProbe:
    """Samples memory. Belongs to the process that made it; close it."""

    def __init__(self, status: str = "/proc/self/status", meminfo: str = "/proc/meminfo") -> None:
        """Open the files; where one is missing its part of every sample is ``None``."""
        self._status = _open(status)
        self._meminfo = _open(meminfo)

    def sample(self) -> MemorySample:
        """Memory now."""
        own, machine = _read(self._status), _read(self._meminfo)
        anon = _mib(own, b"RssAnon:")
        return MemorySample(
            rss=_mib(own, b"VmRSS:"),
            rss_anon=None if anon is None else anon + (_mib(own, b"RssShmem:") or 0.0),
            rss_file=_mib(own, b"RssFile:"),
            swap=_mib(own, b"VmSwap:"),
            available=_mib(machine, b"MemAvailable:"),
            free=_mib(machine, b"MemFree:"),
            swap_free=_mib(machine, b"SwapFree:"),
        )

    def close(self) -> None:
        """Close the files; samples say nothing from here on."""
        descriptors = [self._status, self._meminfo]
        self._status = self._meminfo = None
        for descriptor in descriptors:
            if descriptor is not None:
                os.close(descriptor)


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return None


def _read(descriptor: int | None) -> bytes:
    if descriptor is None:
        return b""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        return b"\n" + os.read(descriptor, _MOST)
    except OSError:
        return b""


def _mib(text: bytes, name: bytes) -> float | None:
    start = text.find(b"\n" + name)
    if start < 0:
        return None
    start += 1 + len(name)
    number = text[start : text.find(b"kB", start)].strip()
    return int(number) / _KIB_PER_MIB if number.isdigit() else None
