from __future__ import annotations

import os
from pathlib import Path

import pytest

from moestream.engine.files import FileWatch
from moestream.errors import StreamReadError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"x" * 1000)
    return path


def test_an_untouched_file_is_fine(file: Path) -> None:
    FileWatch([file]).check()


def test_a_truncated_file_is_noticed(file: Path) -> None:
    watch = FileWatch([file])
    os.truncate(file, 10)
    with pytest.raises(StreamReadError, match="1000 bytes before, 10 now"):
        watch.check()


def test_a_file_written_in_place_is_noticed(file: Path) -> None:
    watch = FileWatch([file])
    stat = os.stat(file)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    with pytest.raises(StreamReadError, match="changed on disk"):
        watch.check()


def test_deleting_or_replacing_a_file_does_not_touch_what_is_open(file: Path) -> None:
    watch = FileWatch([file])
    other = file.with_name("other")
    other.write_bytes(b"y")
    other.replace(file)
    watch.check()
    file.unlink()
    watch.check()
