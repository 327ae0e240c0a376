"""The block device's read-ahead: found, set, and put back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moestream.bench.read_ahead import read_ahead, read_ahead_kib
from moestream.errors import PlatformError


@pytest.fixture
def block(tmp_path: Path) -> Path:
    """The device that holds the temporary files, as /sys shows it."""
    device = os.stat(tmp_path).st_dev
    return tmp_path / "block" / f"{os.major(device)}:{os.minor(device)}"


@pytest.mark.parametrize("partition", [False, True])
def test_it_is_set_and_put_back(tmp_path: Path, block: Path, partition: bool) -> None:
    disk = tmp_path / "disk"
    place = disk / "part" if partition else disk
    place.mkdir(parents=True)
    (disk / "queue").mkdir()
    setting = disk / "queue" / "read_ahead_kb"
    setting.write_text("8192\n")
    block.parent.mkdir()
    block.symlink_to(place)
    root = block.parent
    assert read_ahead_kib(tmp_path, root=root) == 8192
    seen = []

    def interrupted() -> None:
        with read_ahead(tmp_path, 128, root=root):
            seen.append(setting.read_text())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen == ["128"]
    assert setting.read_text() == "8192"
    with read_ahead(tmp_path, None, root=root):
        assert setting.read_text() == "8192"


def test_where_there_is_none(tmp_path: Path) -> None:
    assert read_ahead_kib(tmp_path, root=tmp_path) is None
    assert read_ahead_kib(tmp_path / "no such file") is None
    with read_ahead(tmp_path, None, root=tmp_path):
        pass
    with (
        pytest.raises(PlatformError, match="leave out --read-ahead"),
        read_ahead(tmp_path, 128, root=tmp_path),
    ):
        pass
