"""A campaign on disk: what is to be measured, and what has been, a line a run.

A line is written at once and synced, so that whatever ends the campaign costs the running run only;
an unfinished last line is cut off when the campaign goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from moestream.bench.campaign import Campaign
from moestream.bench.cells import Cell
from moestream.bench.gates import Gates
from moestream.bench.machine import machine_facts
from moestream.bench.result import SCHEMA, CampaignResult, MachineFacts, ModelFacts, RunResult
from moestream.bench.settings import config_from_json, config_to_json
from moestream.bench.workloads import Workload
from moestream.config import EngineConfig
from moestream.errors import ConfigError

__all__ = ["CampaignStore", "Order"]

_ORDER: Final = "campaign.json"
_RUNS: Final = "runs.jsonl"
_LOCK: Final = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything that a campaign needs to know, from its first run to its last.

    Attributes:
        campaign: cells, workloads, rounds and tokens.
        config: what all cells start from.
        model: the file.
        version: of moestream.
        command: the command line that asked for it.
        limit: memory limit in bytes; ``None`` for none.
        gates: conditions for a run to begin.
        timeout_s: seconds after which a run is given up.
        warm: whether the page cache is left alone between runs.
        read_ahead: KiB to read ahead in mapped files; ``None`` leaves the device's setting.
        machine: where it was begun.
    """

    campaign: Campaign
    config: EngineConfig
    model: ModelFacts
    version: str
    command: tuple[str, ...]
    limit: int | None = None
    gates: Gates = field(default_factory=Gates)
    timeout_s: float = 3600.0
    warm: bool = False
    read_ahead: int | None = None
    machine: MachineFacts = field(default_factory=machine_facts)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        campaign = self.campaign
        return {
            "schema": SCHEMA,
            "campaign": {
                "name": campaign.name,
                "cells": [cell.to_json() for cell in campaign.cells],
                "workloads": [asdict(workload) for workload in campaign.workloads],
                "rounds": campaign.rounds,
                "tokens": campaign.tokens,
            },
            "config": config_to_json(self.config),
            "model": self.model.to_json(),
            "version": self.version,
            "command": list(self.command),
            "limit": self.limit,
            "gates": asdict(self.gates),
            "timeout_s": self.timeout_s,
            "warm": self.warm,
            "read_ahead": self.read_ahead,
            "machine": self.machine.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Order:
        """What :meth:`to_json` made; other things raise as Python does."""
        if value["schema"] != SCHEMA:
            raise ConfigError(f"it is of schema {value['schema']!r}, this version reads {SCHEMA}")
        campaign = value["campaign"]
        return cls(
            campaign=Campaign(
                name=campaign["name"],
                cells=tuple(Cell.from_json(cell) for cell in campaign["cells"]),
                workloads=tuple(Workload(**workload) for workload in campaign["workloads"]),
                rounds=campaign["rounds"],
                tokens=campaign["tokens"],
            ),
            config=config_from_json(value["config"]),
            model=ModelFacts.from_json(value["model"]),
            version=value["version"],
            command=tuple(value["command"]),
            limit=value["limit"],
            gates=Gates(**value["gates"]),
            timeout_s=value["timeout_s"],
            warm=value["warm"],
            read_ahead=value["read_ahead"],
            machine=MachineFacts.from_json(value["machine"]),
        )


class CampaignStore:
    """A campaign's directory, held by one process at a time. Close it."""

    def __init__(self, directory: Path, order: Order) -> None:
        """Use :meth:`create` or :meth:`open`."""
        self.directory = directory
        self.order = order
        #: Every run, in the order in which they were made.
        self.runs: list[RunResult] = []
        #: How long each took, waits included, as far as it is known.
        self.seconds: list[float | None] = []
        self._lock = _locked(directory)

    @classmethod
    def create(cls, directory: Path, order: Order) -> CampaignStore:
        """Begin a campaign in an empty or new directory.

        Raises:
            ConfigError: there is a campaign in it already, or it cannot be written to.
        """
        if (directory / _ORDER).exists():
            raise ConfigError(
                f"there is a campaign in {directory} already; go on with it (--resume "
                f"{directory}), or name another directory with --output-dir"
            )
        try:
            (directory / "raw").mkdir(parents=True, exist_ok=True)
            (directory / _RUNS).unlink(missing_ok=True)
            store = cls(directory, order)
            store.rewrite(order)
        except OSError as error:
            raise ConfigError(
                f"cannot write to {directory}: {error.strerror}; name another --output-dir"
            ) from error
        return store

    @classmethod
    def open(cls, directory: Path) -> CampaignStore:
        """Go on with a campaign.

        Raises:
            ConfigError: there is none, it is damaged, or somebody else is at it.
        """
        path = directory / _ORDER
        try:
            order = Order.from_json(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise ConfigError(
                f"there is no campaign in {directory} (no {_ORDER}); begin one with --output-dir"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
            raise ConfigError(f"{path} is no campaign of moestream bench: {error}") from error
        store = cls(directory, order)
        try:
            store.reload()
        except BaseException:
            store.close()
            raise
        return store

    def rewrite(self, order: Order) -> None:
        """Replace what is to be measured; what has been measured stays."""
        target = self.directory / _ORDER
        draft = target.with_suffix(".part")
        draft.write_text(json.dumps(order.to_json(), indent=1) + "\n", encoding="utf-8")
        draft.replace(target)
        self.order = order

    def append(self, run: RunResult, seconds: float) -> None:
        """A run has been made."""
        line = json.dumps({"run": run.to_json(), "seconds": round(seconds, 3)})
        with (self.directory / _RUNS).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.runs.append(run)
        self.seconds.append(seconds)

    def forget_failed(self) -> None:
        """Take failed runs out, so that they are made again."""
        kept = [
            (run, took) for run, took in zip(self.runs, self.seconds, strict=True)
            if run.failure is None
        ]  # fmt: skip
        target = self.directory / _RUNS
        draft = target.with_suffix(".part")
        lines = [json.dumps({"run": run.to_json(), "seconds": took}) + "\n" for run, took in kept]
        draft.write_text("".join(lines), encoding="utf-8")
        draft.replace(target)
        self.runs = [run for run, _ in kept]
        self.seconds = [took for _, took in kept]

    def result(self) -> CampaignResult:
        """The campaign as far as it has come."""
        order = self.order
        return CampaignResult(
            name=order.campaign.name,
            model=order.model,
            machine=order.machine,
            version=order.version,
            command=order.command,
            cells=tuple(cell.to_json() for cell in order.campaign.cells),
            runs=tuple(self.runs),
            regime=order.limit,
        )

    def extend(self, rounds: int) -> None:
        """Raise the number of rounds.

        Raises:
            ConfigError: it would be lowered.
        """
        campaign = self.order.campaign
        if rounds < campaign.rounds:
            raise ConfigError(
                f"the campaign in {self.directory} has {campaign.rounds} rounds; "
                f"--rounds can only raise that, got {rounds}"
            )
        if rounds > campaign.rounds:
            self.rewrite(replace(self.order, campaign=replace(campaign, rounds=rounds)))

    def close(self) -> None:
        """Let others have it."""
        self._lock.release()

    def reload(self) -> None:
        """Read the runs again; an interrupt may have come between the file and the memory.

        Raises:
            ConfigError: the file is damaged.
        """
        self.runs, self.seconds = [], []
        path = self.directory / _RUNS
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with path.open("r+b") as file:
                file.truncate(len(whole))
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                value = json.loads(line)
                self.runs.append(RunResult.from_json(value["run"]))
                self.seconds.append(value.get("seconds"))
            except (ValueError, KeyError, TypeError, ConfigError) as error:
                raise ConfigError(f"line {number} of {path} is damaged: {error}") from error


def _locked(directory: Path) -> FileLock:
    lock = FileLock(directory / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ConfigError(
            f"another process measures in {directory}; wait for it, or name another directory"
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot write to {directory}: {error.strerror}") from error
    return lock
