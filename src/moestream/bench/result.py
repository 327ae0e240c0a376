"""What a campaign measured: one record a run, one for the whole, and both as plain JSON types.

Results are read back from files that may have been made elsewhere, cut short or edited, so
``from_json`` checks every field and says which one is wrong. ``None`` is "not measured", never
zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from moestream.errors import ConfigError

__all__ = [
    "METRICS",
    "SCHEMA",
    "CampaignResult",
    "EntryState",
    "MachineFacts",
    "ModelFacts",
    "RunResult",
]

#: Version of the JSON form of a campaign; files of another one are refused.
SCHEMA: Final = 1

#: Names that ``RunResult.metrics`` may have, and what they are. ``compute_ms`` to ``other_ms`` sum
#: to a token's wall time.
METRICS: Final[Mapping[str, str]] = {
    "tok_s": "effective rate, tokens a second as the caller sees them",
    "decode_tok_s": "rate inside llama.cpp alone",
    "prefill_tok_s": "prompt tokens a second",
    "load_s": "seconds until the session was ready",
    "mib_per_token": "MiB of experts read per token",
    "hit_pct": "routed experts found in the cache, in percent",
    "majflt_per_token": "major page faults per token",
    "cpu_s_per_token": "CPU seconds of the process per token",
    "compute_ms": "milliseconds per token of computing",
    "stall_ms": "milliseconds per token of waiting for bytes",
    "draft_ms": "milliseconds per token of drafting",
    "other_ms": "milliseconds per token of the rest",
    "acceptance_pct": "drafted tokens that were confirmed, in percent",
    "tokens_per_verify": "tokens that a decode with a draft confirmed, the free one included",
    "drafted_steps": "decodes that verified a draft",
    "coverage_pct": "decodes that verified a draft, in percent",
    "draft_read_pct": "share of the bytes that was read while drafting, in percent",
    "cache_mib": "MiB of memory for experts",
    "generated_tokens": "tokens generated",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryState:
    """What the machine was doing when a run began.

    Attributes:
        time: UTC, ISO 8601.
        load_1m: load average of the last minute.
        mem_available_mib: MiB that can be had without swapping.
        cpu_temp_c: hottest sensor of the processor, in degrees Celsius.
        cpu_mhz: mean frequency of the cores.
        waited_s: seconds that the gates waited for.
        gate_expired: the wait ran out, and the run began in a state that was not asked for.
    """

    time: str
    load_1m: float | None
    mem_available_mib: int | None
    cpu_temp_c: float | None
    cpu_mhz: float | None
    waited_s: float
    gate_expired: bool

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return _finite(asdict(self))

    @classmethod
    def from_json(cls, value: object) -> EntryState:
        """Read what :meth:`to_json` wrote; raises :class:`ConfigError` if it is something else."""
        read = _Reader(value, "the entry state of a run")
        return cls(
            time=read.text("time"),
            load_1m=read.number_or_none("load_1m"),
            mem_available_mib=read.count_or_none("mem_available_mib"),
            cpu_temp_c=read.number_or_none("cpu_temp_c"),
            cpu_mhz=read.number_or_none("cpu_mhz"),
            waited_s=read.number("waited_s"),
            gate_expired=read.truth("gate_expired"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run: a cell on a workload in a round.

    Attributes:
        cell: name of the cell.
        workload: name of the workload.
        round: number of the round, from 0.
        order: running number within the campaign, from 0.
        failure: why there is nothing measured; ``None`` if the run succeeded.
        entry: state of the machine when the run began.
        metrics: the names of :data:`METRICS`; what was not measured is ``None`` or missing.
        accepted_at: how often each draft position (index 0 is the first) was confirmed.
        offered_at: how often it came up for decision, all positions before it confirmed.
        csv: file name of the raw per-token record, beside the results.
        peak_bytes: most memory charged to the run's cgroup.
    """

    cell: str
    workload: str
    round: int
    order: int
    failure: str | None
    entry: EntryState | None
    metrics: Mapping[str, float | None]
    accepted_at: tuple[int, ...]
    offered_at: tuple[int, ...]
    csv: str | None
    peak_bytes: int | None

    def metric(self, name: str) -> float | None:
        """A metric, ``None`` if it was not measured."""
        return self.metrics.get(name)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "cell": self.cell,
            "workload": self.workload,
            "round": self.round,
            "order": self.order,
            "failure": self.failure,
            "entry": None if self.entry is None else self.entry.to_json(),
            "metrics": _finite(self.metrics),
            "accepted_at": list(self.accepted_at),
            "offered_at": list(self.offered_at),
            "csv": self.csv,
            "peak_bytes": self.peak_bytes,
        }

    @classmethod
    def from_json(cls, value: object) -> RunResult:
        """Read what :meth:`to_json` wrote; raises :class:`ConfigError` if it is something else."""
        read = _Reader(value, "a run")
        metrics = _Reader(read.value("metrics"), "the metrics of a run")
        entry = read.value("entry")
        return cls(
            cell=read.text("cell"),
            workload=read.text("workload"),
            round=read.count("round"),
            order=read.count("order"),
            failure=read.text_or_none("failure"),
            entry=None if entry is None else EntryState.from_json(entry),
            metrics={name: metrics.number_or_none(name) for name in metrics.names()},
            accepted_at=read.counts("accepted_at"),
            offered_at=read.counts("offered_at"),
            csv=read.text_or_none("csv"),
            peak_bytes=read.count_or_none("peak_bytes"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """The file that was measured: its path there, its bytes (all shards) and its architecture."""

    path: str
    size_bytes: int
    arch: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> ModelFacts:
        """Read what :meth:`to_json` wrote; raises :class:`ConfigError` if it is something else."""
        read = _Reader(value, "the model of a campaign")
        return cls(
            path=read.text("path"), size_bytes=read.count("size_bytes"), arch=read.text("arch")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Where it was measured."""

    cpu: str
    cores: int
    kernel: str
    ram_mib: int | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> MachineFacts:
        """Read what :meth:`to_json` wrote; raises :class:`ConfigError` if it is something else."""
        read = _Reader(value, "the machine of a campaign")
        return cls(
            cpu=read.text("cpu"),
            cores=read.count("cores"),
            kernel=read.text("kernel"),
            ram_mib=read.count_or_none("ram_mib"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignResult:
    """A campaign as a whole, finished or not.

    Attributes:
        name: name of the campaign.
        model: the file that was measured.
        machine: where.
        version: version of moestream.
        command: the command line that started it.
        cells: :meth:`moestream.bench.cells.Cell.to_json` of each cell, in the order given.
        runs: every run, failed ones as well, in the order in which they were made.
        regime: memory limit in bytes; ``None`` if there was none.
    """

    name: str
    model: ModelFacts
    machine: MachineFacts
    version: str
    command: tuple[str, ...]
    cells: tuple[Mapping[str, Any], ...]
    runs: tuple[RunResult, ...]
    regime: int | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types, with the schema's number."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "model": self.model.to_json(),
            "machine": self.machine.to_json(),
            "version": self.version,
            "command": list(self.command),
            "cells": [dict(cell) for cell in self.cells],
            "runs": [run.to_json() for run in self.runs],
            "regime": self.regime,
        }

    @classmethod
    def from_json(cls, value: object) -> CampaignResult:
        """Read what :meth:`to_json` wrote; raises :class:`ConfigError` if it is something else."""
        read = _Reader(value, "the results of a campaign")
        schema = read.value("schema")
        if schema != SCHEMA:
            raise ConfigError(
                f"the results are of schema {schema!r}, this version reads {SCHEMA}; "
                "read them with the moestream that wrote them, or measure again"
            )
        return cls(
            name=read.text("name"),
            model=ModelFacts.from_json(read.value("model")),
            machine=MachineFacts.from_json(read.value("machine")),
            version=read.text("version"),
            command=tuple(_text(item, "command") for item in read.items("command")),
            cells=tuple(_Reader(item, "a cell").mapping for item in read.items("cells")),
            runs=tuple(RunResult.from_json(item) for item in read.items("runs")),
            regime=read.count_or_none("regime"),
        )


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no infinities and no NaN: such a number measures nothing."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be text, found {value!r}; the results file is damaged")
    return value


class _Reader:
    """Typed access to a JSON object that may be anything."""

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise ConfigError(
                f"{what} must be a JSON object, found {type(value).__name__}; "
                "is this a results file of moestream bench?"
            )
        self.mapping: dict[str, Any] = value
        self._what = what

    def names(self) -> tuple[str, ...]:
        return tuple(self.mapping)

    def value(self, name: str) -> Any:
        try:
            return self.mapping[name]
        except KeyError:
            raise ConfigError(
                f"{self._what} has no {name!r}, only {', '.join(self.mapping) or 'nothing'}; "
                "is this a results file of moestream bench?"
            ) from None

    def _refuse(self, name: str, wanted: str) -> ConfigError:
        return ConfigError(
            f"{name!r} of {self._what} must be {wanted}, found {self.mapping[name]!r}; "
            "the results file is damaged"
        )

    def text(self, name: str) -> str:
        value = self.value(name)
        if not isinstance(value, str):
            raise self._refuse(name, "text")
        return value

    def text_or_none(self, name: str) -> str | None:
        return None if self.value(name) is None else self.text(name)

    def truth(self, name: str) -> bool:
        value = self.value(name)
        if not isinstance(value, bool):
            raise self._refuse(name, "true or false")
        return value

    def number(self, name: str) -> float:
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._refuse(name, "a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self._refuse(name, "a finite number")
        return number

    def number_or_none(self, name: str) -> float | None:
        return None if self.value(name) is None else self.number(name)

    def count(self, name: str) -> int:
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._refuse(name, "a whole number of 0 or more")
        return value

    def count_or_none(self, name: str) -> int | None:
        return None if self.value(name) is None else self.count(name)

    def items(self, name: str) -> list[Any]:
        value = self.value(name)
        if not isinstance(value, list):
            raise self._refuse(name, "a list")
        return value

    def counts(self, name: str) -> tuple[int, ...]:
        items = self.items(name)
        if any(isinstance(item, bool) or not isinstance(item, int) or item < 0 for item in items):
            raise self._refuse(name, "a list of whole numbers of 0 or more")
        return tuple(items)
