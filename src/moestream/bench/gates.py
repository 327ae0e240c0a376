"""The state of the machine before a run, and waiting until it is fit to be measured on.

A wait is bounded. When it runs out, the run begins all the same and its record says so: a campaign
that stops at night because a room is warm has measured nothing.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from moestream.bench.result import EntryState
from moestream.errors import ConfigError
from moestream.telemetry.system import memory_state

__all__ = ["Gates", "Reading", "pass_gates", "read_machine"]

_MIB: Final = 2**20
_SYS: Final = Path("/sys")
_PROC: Final = Path("/proc")

#: Sensors that are the processor's, by hwmon name or by the type of a thermal zone.
_CPU_SENSORS: Final = (
    "coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "x86_pkg_temp", "soc_thermal",
    "cpu", "tctl",
)  # fmt: skip
#: Whole-machine sensors, better than nothing.
_OTHER_SENSORS: Final = ("acpitz",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Conditions for a run to begin.

    Attributes:
        settle_s: seconds to rest before each run, whatever the conditions say.
        max_temp_c: degrees Celsius that the processor must have cooled down to.
        min_available_mib: MiB of memory that must be available.
        max_load: load average that the last minute must have come down to.
        timeout_s: seconds to wait for all of that at most, rest included.
        poll_s: seconds between two looks.
    """

    settle_s: float = 0.0
    max_temp_c: float | None = None
    min_available_mib: int | None = None
    max_load: float | None = None
    timeout_s: float = 300.0
    poll_s: float = 2.0

    def validate(self) -> None:
        """Raise :class:`ConfigError` if a value is out of range."""
        for name, value, least in (
            ("settle time", self.settle_s, 0.0),
            ("highest temperature", self.max_temp_c, 1.0),
            ("available memory", self.min_available_mib, 1.0),
            ("highest load", self.max_load, 0.0),
            ("gate timeout", self.timeout_s, 0.0),
        ):
            if value is not None and not (math.isfinite(value) and value >= least):
                raise ConfigError(f"the {name} must be {least:g} or more, got {value:g}")
        if self.settle_s > self.timeout_s:
            raise ConfigError(
                f"resting for {self.settle_s:g} s does not end within the gate timeout of "
                f"{self.timeout_s:g} s; raise --gate-timeout, or lower --settle"
            )

    @property
    def conditional(self) -> bool:
        """Whether anything but time is waited for."""
        return not (self.max_temp_c is self.min_available_mib is self.max_load is None)

    def closed(self, reading: Reading) -> tuple[str, ...]:
        """What keeps a run from beginning, in words; a sensor that is not there keeps nothing."""
        reasons = []
        temp, memory, load = reading.cpu_temp_c, reading.mem_available_mib, reading.load_1m
        if self.max_temp_c is not None and temp is not None and temp > self.max_temp_c:
            reasons.append(f"{temp:.0f} °C, above {self.max_temp_c:g}")
        least = self.min_available_mib
        if least is not None and memory is not None and memory < least:
            reasons.append(f"{memory} MiB available, below {least}")
        if self.max_load is not None and load is not None and load > self.max_load:
            reasons.append(f"load {load:.2f}, above {self.max_load:g}")
        return tuple(reasons)

    def blind(self, reading: Reading) -> tuple[str, ...]:
        """Conditions that this machine has no sensor for, in words."""
        return tuple(
            f"{name} cannot be measured here, so it is not waited for"
            for name, wanted, value in (
                ("the temperature", self.max_temp_c, reading.cpu_temp_c),
                ("available memory", self.min_available_mib, reading.mem_available_mib),
                ("the load", self.max_load, reading.load_1m),
            )
            if wanted is not None and value is None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The machine at one moment; the fields are those of :class:`EntryState`."""

    load_1m: float | None
    mem_available_mib: int | None
    cpu_temp_c: float | None
    cpu_mhz: float | None


def read_machine(*, sys_root: Path = _SYS, proc_root: Path = _PROC) -> Reading:
    """Look at the sensors."""
    try:
        load: float | None = os.getloadavg()[0]
    except (OSError, AttributeError):
        load = None
    available = memory_state().available
    return Reading(
        load_1m=load,
        mem_available_mib=None if available is None else available // _MIB,
        cpu_temp_c=_temperature(sys_root),
        cpu_mhz=_frequency(sys_root, proc_root),
    )


def pass_gates(
    gates: Gates,
    *,
    read: Callable[[], Reading] = read_machine,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    tell: Callable[[str], None] = lambda _text: None,
) -> EntryState:
    """Rest, then wait for the conditions, at most as long as the gates allow.

    Args:
        gates: the conditions.
        read: looks at the machine.
        clock: seconds.
        sleep: waits for seconds.
        tell: told in words what is waited for.
    """
    started = clock()
    if gates.settle_s > 0:
        tell(f"resting for {gates.settle_s:g} s")
        sleep(gates.settle_s)
    reading = read()
    expired = False
    while reasons := gates.closed(reading):
        left = gates.timeout_s - (clock() - started)
        if left <= 0:
            expired = True
            break
        tell(f"waiting for the machine: {'; '.join(reasons)}")
        sleep(min(gates.poll_s, left))
        reading = read()
    return EntryState(
        time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        load_1m=reading.load_1m,
        mem_available_mib=reading.mem_available_mib,
        cpu_temp_c=reading.cpu_temp_c,
        cpu_mhz=reading.cpu_mhz,
        waited_s=clock() - started,
        gate_expired=expired,
    )


def _temperature(root: Path) -> float | None:
    """Of the hottest sensor of the processor; of the machine where the processor has none."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for chip in _entries(root / "class" / "hwmon"):
        kind = _text(chip / "name")
        if kind in _CPU_SENSORS or kind in _OTHER_SENSORS:
            for sensor in sorted(chip.glob("temp*_input")):
                found[kind in _CPU_SENSORS].extend(_degrees(sensor))
    for zone in _entries(root / "class" / "thermal"):
        kind = _text(zone / "type").lower()
        if kind in _CPU_SENSORS or kind.startswith("cpu") or kind in _OTHER_SENSORS:
            found[kind not in _OTHER_SENSORS].extend(_degrees(zone / "temp"))
    return max(found[True] or found[False], default=None)


def _degrees(path: Path) -> list[float]:
    """In a list, or nothing where the sensor does not answer or says something impossible."""
    try:
        value = int(_text(path)) / 1000
    except ValueError:
        return []
    return [value] if 0 < value < 150 else []


def _frequency(sys_root: Path, proc_root: Path) -> float | None:
    """Mean of the cores, in MHz."""
    cpus = sys_root / "devices" / "system" / "cpu"
    values = []
    for path in sorted(cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq")):
        text = _text(path)
        if text.isdigit():
            values.append(int(text) / 1000)
    if not values:
        for line in _text(proc_root / "cpuinfo").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "cpu MHz":
                try:
                    values.append(float(value))
                except ValueError:
                    continue
    return sum(values) / len(values) if values else None


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
