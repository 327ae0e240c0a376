"""How far the kernel reads ahead in a mapped file: what llama.cpp's own mapping lives and dies by.

A setting of the block device. Far too large for experts picked at random, it reads mostly what
nobody wants, and makes a baseline look bad that is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from moestream.errors import PlatformError

__all__ = ["device_setting", "read_ahead", "read_ahead_kib"]

_SYS: Final = Path("/sys/dev/block")


def device_setting(file: Path, *, root: Path = _SYS) -> Path | None:
    """The setting of the device that holds ``file``; ``None`` where there is none to be seen."""
    try:
        device = os.stat(file).st_dev
    except OSError:
        return None
    block = root / f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError):
        # Of a partition the queue is the disk's.
        for place in (block, block.resolve().parent):
            setting = place / "queue" / "read_ahead_kb"
            if setting.is_file():
                return setting
    return None


def read_ahead_kib(file: Path, *, root: Path = _SYS) -> int | None:
    """KiB that are read ahead in ``file``; ``None`` if that cannot be told."""
    setting = device_setting(file, root=root)
    try:
        return None if setting is None else int(setting.read_text())
    except (OSError, ValueError):
        return None


@contextmanager
def read_ahead(file: Path, kib: int | None, *, root: Path = _SYS) -> Iterator[None]:
    """Read ``kib`` ahead in ``file`` for the time of the block; ``None`` changes nothing.

    Raises:
        PlatformError: it cannot be set here.
    """
    before = read_ahead_kib(file, root=root)
    if kib is None or kib == before:
        yield
        return
    setting = device_setting(file, root=root)
    if setting is None or before is None:
        raise PlatformError(
            f"the device that holds {file} has no read-ahead to set; leave out --read-ahead"
        )
    try:
        setting.write_text(str(kib))
    except OSError as error:
        raise PlatformError(
            f"cannot set the read-ahead in {setting}: {error.strerror}; run as root, or leave out "
            "--read-ahead"
        ) from error
    try:
        yield
    finally:
        with suppress(OSError):
            setting.write_text(str(before))
