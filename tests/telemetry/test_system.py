from __future__ import annotations

import os
import sys

import psutil
import pytest

from moestream.telemetry.system import (
    available_cpus,
    bytes_read_by_process,
    cpu_time_and_major_faults,
    memory_state,
    process_memory,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="probes of /proc")


@linux
def test_memory_agrees_with_the_machine() -> None:
    state = memory_state()
    assert state.total == psutil.virtual_memory().total
    assert state.available is not None
    assert 0 < state.available <= state.total
    assert (state.cgroup_limit is None) == (state.cgroup_available is None)


@linux
def test_process_memory_is_split_by_kind() -> None:
    memory = process_memory()
    assert memory is not None
    assert memory.anon is not None
    assert memory.file is not None
    assert 0 < memory.anon < memory.rss
    assert abs(memory.anon + memory.file - memory.rss) < 2**20


@linux
def test_bytes_read_are_counted(tmp_path: object) -> None:
    before = bytes_read_by_process()
    with open(sys.executable, "rb") as file:
        n = len(file.read())
    after = bytes_read_by_process()
    assert before is not None
    assert after is not None
    assert after - before >= n


def test_cpus_are_at_most_what_there_is() -> None:
    assert 1 <= available_cpus() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_the_affinity_mask_is_respected() -> None:
    mask = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(mask)})
        assert available_cpus() == 1
    finally:
        os.sched_setaffinity(0, mask)


def test_cpu_time_grows() -> None:
    before = cpu_time_and_major_faults()
    sum(range(200_000))
    after = cpu_time_and_major_faults()
    if before is not None and after is not None:
        assert after[0] > before[0]
        assert after[1] >= before[1]
