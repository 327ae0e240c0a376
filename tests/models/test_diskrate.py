"""Measuring the disk: bounded, inside the given ranges, honest about the page cache."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moestream.models.diskrate import (
    DiskMeasurement,
    DiskRate,
    FileRange,
    _Offsets,
    measure_disk,
)

PAGE = 4096


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**7)), min_size=1, max_size=5),
    st.integers(1, 64),
    st.integers(0, 10**6),
)
def test_offsets_are_aligned_and_inside(
    spans: list[tuple[int, int]], pages: int, seed: int
) -> None:
    size = pages * PAGE
    ranges = [FileRange(i, offset, length) for i, (offset, length) in enumerate(spans)]
    file, offset = _Offsets(ranges, size).draw(random.Random(seed))
    chosen = ranges[file]
    assert offset % PAGE == 0
    assert offset + PAGE > chosen.offset
    if chosen.length >= size + PAGE:
        assert offset + size <= chosen.offset + chosen.length


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="needs preadv")
def test_measuring_takes_the_time_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(2**20))
    begin = time.monotonic()
    found = measure_disk(
        [path], [FileRange(0, 100, 2**20 - 100)], read_bytes=10_000, lanes=(1, 3), seconds=0.1
    )
    assert time.monotonic() - begin < 5
    assert found.read_bytes == 3 * PAGE
    assert [rate.lanes for rate in found.rates] == [1, 3]
    assert all(rate.reads > 0 and rate.bytes > 0 for rate in found.rates)
    assert found.direct or found.note


@pytest.mark.skipif(sys.platform != "linux", reason="needs O_DIRECT")
def test_a_filesystem_without_direct_io(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(2**16))
    really_open = os.open

    def refuse(name: Path, flags: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return really_open(name, flags)

    monkeypatch.setattr(os, "open", refuse)
    found = measure_disk([path], [FileRange(0, 0, 2**16)], read_bytes=PAGE, seconds=0.02)
    assert not found.direct
    assert found.note is not None
    assert "page cache" in found.note


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        measure_disk([tmp_path / "nowhere"], [FileRange(0, 0, 1)], read_bytes=PAGE)


def test_more_lanes_must_gain_something() -> None:
    def measured(*rates: int) -> DiskMeasurement:
        return DiskMeasurement(
            read_bytes=PAGE,
            direct=True,
            note=None,
            rates=tuple(
                DiskRate(lanes=2**i, reads=1, seconds=1.0, bytes=rate)
                for i, rate in enumerate(rates)
            ),
        )

    def best(*rates: int) -> int | None:
        rate = measured(*rates).best
        return None if rate is None else rate.lanes

    assert best(100, 103, 104) == 1
    assert best(100, 180, 185) == 2
    assert best(100, 180, 300) == 4
    assert best() is None
