from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from moestream.telemetry.probes import MemoryProbe, MemorySample, page_size
from moestream.telemetry.system import process_memory

MIB = 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="probes of /proc")
def test_memory_agrees_with_other_ways_to_ask() -> None:
    probe = MemoryProbe()
    held = bytearray(b"x") * (30 * MIB)
    sample, other = probe.sample(), process_memory()
    probe.close()
    assert len(held) == 30 * MIB
    assert other is not None
    assert sample.rss is not None
    assert abs(sample.rss - other.rss / MIB) < 8
    assert sample.rss_anon is not None
    assert sample.rss_file is not None
    assert 30 < sample.rss_anon < sample.rss
    assert abs(sample.rss_anon + sample.rss_file - sample.rss) < 1
    assert sample.available is not None
    assert sample.free is not None
    assert 0 < sample.available <= psutil.virtual_memory().total / MIB
    assert sample.swap_free is not None
    assert 0 <= sample.swap_free <= psutil.swap_memory().total / MIB


@pytest.mark.skipif(sys.platform != "linux", reason="probes of /proc")
def test_samples_are_not_stale() -> None:
    probe = MemoryProbe()
    before = probe.sample().rss
    held = bytearray(b"x") * (50 * MIB)
    after = probe.sample().rss
    probe.close()
    assert len(held) == 50 * MIB
    assert before is not None
    assert after is not None
    assert after - before > 40


def test_what_the_platform_does_not_say_is_unmeasured(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tVmRSS:\nVmRSS:\t  2048 kB\nRssAnon:\t oops kB\nVmSwap:\t 0 kB\n")
    probe = MemoryProbe(str(status), str(tmp_path / "missing"))
    assert probe.sample() == MemorySample(rss=2.0, swap=0.0)
    probe.close()
    probe.close()
    assert probe.sample() == MemorySample()


def test_page_size() -> None:
    size = page_size()
    assert size is None or size in (4096, 16384, 65536)
