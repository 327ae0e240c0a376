"""Waiting for the machine, and no longer than was agreed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from moestream.bench.gates import Gates, Reading, pass_gates, read_machine
from moestream.errors import ConfigError

QUIET = Reading(load_1m=0.1, mem_available_mib=8000, cpu_temp_c=45.0, cpu_mhz=3000.0)
HOT = replace(QUIET, cpu_temp_c=90.0)


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def reading(*readings: Reading) -> Callable[[], Reading]:
    """One after the other, the last for ever."""

    def each() -> Iterator[Reading]:
        yield from readings
        while True:
            yield readings[-1]

    found = each()
    return lambda: next(found)


def test_without_gates_nothing_waits() -> None:
    time = Time()
    state = pass_gates(Gates(), read=reading(HOT), clock=time.clock, sleep=time.sleep)
    assert time.slept == []
    assert not state.gate_expired
    assert state.waited_s == 0
    assert state.cpu_temp_c == 90.0


def test_a_rest_is_always_taken() -> None:
    time = Time()
    state = pass_gates(Gates(settle_s=7), read=reading(QUIET), clock=time.clock, sleep=time.sleep)
    assert time.slept == [7]
    assert state.waited_s == 7


@pytest.mark.parametrize(
    ("gates", "bad", "word"),
    [
        (Gates(max_temp_c=60), HOT, "90 °C"),
        (Gates(min_available_mib=4000), replace(QUIET, mem_available_mib=100), "100 MiB"),
        (Gates(max_load=0.5), replace(QUIET, load_1m=3.0), "load 3.00"),
    ],
)
def test_a_condition_is_waited_for(gates: Gates, bad: Reading, word: str) -> None:
    time, said = Time(), []
    state = pass_gates(
        gates, read=reading(bad, bad, QUIET), clock=time.clock, sleep=time.sleep, tell=said.append
    )
    assert time.slept == [gates.poll_s, gates.poll_s]
    assert not state.gate_expired
    assert all(word in text for text in said)


def test_a_wait_that_runs_out_is_recorded_and_ends_nothing() -> None:
    time = Time()
    gates = Gates(settle_s=3, max_temp_c=60, timeout_s=8)
    state = pass_gates(gates, read=reading(HOT), clock=time.clock, sleep=time.sleep)
    assert state.gate_expired
    assert state.waited_s == 8
    assert state.cpu_temp_c == 90.0


def test_a_sensor_that_is_not_there_keeps_nothing_back_and_is_told() -> None:
    blind = Reading(load_1m=None, mem_available_mib=None, cpu_temp_c=None, cpu_mhz=None)
    gates = Gates(max_temp_c=60, min_available_mib=100, max_load=1)
    assert gates.closed(blind) == ()
    assert len(gates.blind(blind)) == 3
    assert gates.blind(QUIET) == ()


@pytest.mark.parametrize(
    ("gates", "word"),
    [
        (Gates(settle_s=-1), "settle"),
        (Gates(max_temp_c=float("nan")), "temperature"),
        (Gates(timeout_s=float("inf")), "timeout"),
        (Gates(settle_s=10, timeout_s=5), "--gate-timeout"),
    ],
)
def test_what_cannot_be_waited_for_is_refused(gates: Gates, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        gates.validate()


def file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_sensors_are_read(tmp_path: Path) -> None:
    sys, proc = tmp_path / "sys", tmp_path / "proc"
    file(sys / "class/hwmon/hwmon0/name", "nvme\n")
    file(sys / "class/hwmon/hwmon0/temp1_input", "99000\n")
    file(sys / "class/hwmon/hwmon1/name", "coretemp\n")
    file(sys / "class/hwmon/hwmon1/temp1_input", "51000\n")
    file(sys / "class/hwmon/hwmon1/temp2_input", "55000\n")
    file(sys / "class/hwmon/hwmon1/temp3_input", "nonsense\n")
    file(sys / "class/thermal/thermal_zone0/type", "acpitz\n")
    file(sys / "class/thermal/thermal_zone0/temp", "80000\n")
    file(sys / "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n")
    file(sys / "devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000\n")
    found = read_machine(sys_root=sys, proc_root=proc)
    assert found.cpu_temp_c == 55.0  # the processor's own, the hottest
    assert found.cpu_mhz == 2500.0


def test_without_sensors_there_is_nothing_not_zero(tmp_path: Path) -> None:
    found = read_machine(sys_root=tmp_path, proc_root=tmp_path)
    assert found.cpu_temp_c is None
    assert found.cpu_mhz is None
    file(tmp_path / "cpuinfo", "processor : 0\ncpu MHz : 1800.5\n")
    file(tmp_path / "class/thermal/thermal_zone0/type", "acpitz")
    file(tmp_path / "class/thermal/thermal_zone0/temp", "40000")
    found = read_machine(sys_root=tmp_path, proc_root=tmp_path)
    assert found.cpu_mhz == 1800.5
    assert found.cpu_temp_c == 40.0
