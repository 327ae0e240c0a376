"""Makes the runs of a campaign, one after the other, and writes each down as it comes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol

from moestream.bench.campaign import PlannedRun
from moestream.bench.cells import Cell
from moestream.bench.eta import Eta, estimate
from moestream.bench.external import CommandValues, check_regex, command_line, read_metrics
from moestream.bench.gates import pass_gates, read_machine
from moestream.bench.process import Outcome, run_job
from moestream.bench.read_ahead import read_ahead, read_ahead_kib
from moestream.bench.regime import MemoryRegime, drop_caches
from moestream.bench.result import EntryState, RunResult
from moestream.bench.settings import config_to_json
from moestream.bench.store import CampaignStore
from moestream.config import EngineConfig
from moestream.errors import ConfigError
from moestream.gguf import read_model
from moestream.telemetry.system import available_cpus

__all__ = ["Runner", "Watcher"]

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._=+-]+")


class Watcher(Protocol):
    """Told how a campaign goes."""

    def begin(self, run: PlannedRun, done: int, total: int, eta: Eta | None) -> None:
        """A run begins; ``done`` of ``total`` have been made."""

    def waiting(self, text: str) -> None:
        """The run waits, and for what."""

    def end(self, run: RunResult, seconds: float) -> None:
        """It has been made."""

    def say(self, text: str) -> None:
        """Something that a reader of the results has to know."""


class Runner:
    """Measures what is missing in a campaign's directory."""

    def __init__(self, store: CampaignStore, watch: Watcher) -> None:
        """Prepare; nothing is started yet.

        Raises:
            ConfigError: a cell cannot be made, or a result is not of this campaign.
        """
        self._store = store
        self._watch = watch
        order = store.order
        for cell in order.campaign.cells:
            if cell.kind == "command":
                check_regex(cell.regex or "")
            else:
                cell.apply(order.config)
        order.gates.validate()
        order.campaign.missing(store.runs)
        self._regime = None if order.limit is None else MemoryRegime(order.limit)
        self._files = _files(order.config, order.model.size_bytes)

    def run(self, *, retry_failed: bool = False) -> None:
        """Make every run that is missing.

        Args:
            retry_failed: failed runs are made again.

        Raises:
            PlatformError: runs cannot be limited here.
        """
        store = self._store
        if self._regime is not None:
            self._regime.check()
        for text in store.order.gates.blind(read_machine()):
            self._watch.say(text)
        self._say_how_cold()
        self._say_read_ahead()
        if retry_failed:
            store.forget_failed()
        self._choose_threads()
        missing = store.order.campaign.missing(store.runs)
        total = len(store.order.campaign.plan())
        for number, planned in enumerate(missing):
            eta = estimate(missing[number:], store.runs, store.seconds)
            self._watch.begin(planned, total - len(missing) + number, total, eta)
            started = monotonic()
            with read_ahead(self._files[0], store.order.read_ahead):
                result = self._make(planned)
            seconds = monotonic() - started
            store.append(result, seconds)
            self._watch.end(result, seconds)

    def _say_how_cold(self) -> None:
        if self._store.order.warm:
            self._watch.say("warm: the page cache is left as it is between runs")
        elif not drop_caches():
            self._watch.say(
                "the page cache may not be dropped (that needs root): only the model's own pages "
                "are given back before each run"
            )

    def _say_read_ahead(self) -> None:
        order = self._store.order
        with read_ahead(self._files[0], order.read_ahead):  # refused now, or never
            kib = read_ahead_kib(self._files[0])
        if kib is not None and any(cell.kind == "plain" for cell in order.campaign.cells):
            self._watch.say(
                f"mapped files are read {kib} KiB ahead; how well llama.cpp's own mapping does "
                "depends on that (--read-ahead)"
            )

    def _choose_threads(self) -> None:
        """Once for all: runs that measure for themselves would not be of one configuration."""
        store = self._store
        config = store.order.config
        if config.threads is not None:
            return
        self._watch.waiting("measuring how many threads pay")
        job = {"kind": "probe", "config": config_to_json(config)}
        outcome = run_job(job, regime=self._regime, timeout_s=store.order.timeout_s)
        if outcome.value is not None:
            threads = int(outcome.value["load"]["threads"])
            self._watch.say(f"threads: {threads} in every run, measured once")
        else:
            threads = available_cpus()
            self._watch.say(
                f"threads: {threads} in every run, all there are; how many pay could not be "
                f"measured ({outcome.failure})"
            )
        store.rewrite(replace(store.order, config=replace(config, threads=threads)))

    def _make(self, planned: PlannedRun) -> RunResult:
        order = self._store.order
        if not order.warm and not drop_caches():
            _give_back(self._files)
        entry = pass_gates(order.gates, tell=self._watch.waiting)
        cell = order.campaign.cell(planned.cell)
        prompt = next(w.prompt for w in order.campaign.workloads if w.name == planned.workload)
        if cell.kind == "command":
            return self._command(planned, cell, prompt, entry)
        name = f"raw/{planned.order:04d}-{_safe(planned.workload)}-{_safe(planned.cell)}.csv"
        csv = self._store.directory / name
        csv.unlink(missing_ok=True)
        job = {
            "kind": cell.kind,
            "config": config_to_json(cell.apply(order.config)),
            "prompts": [prompt],
            "tokens": order.campaign.tokens,
            "csv": str(csv.absolute()),
        }
        outcome = run_job(job, regime=self._regime, timeout_s=order.timeout_s)
        value: Mapping[str, Any] = outcome.value or {}
        return _result(
            planned,
            entry,
            outcome,
            metrics=value.get("metrics", {}),
            accepted_at=tuple(value.get("accepted_at", ())),
            offered_at=tuple(value.get("offered_at", ())),
            csv=name if csv.exists() else None,
        )

    def _command(
        self, planned: PlannedRun, cell: Cell, prompt: str, entry: EntryState
    ) -> RunResult:
        order = self._store.order
        file = self._store.directory / f"prompt-{_safe(planned.workload)}.txt"
        file.write_text(prompt, encoding="utf-8")
        values = CommandValues(
            model=str(Path(order.config.model).absolute()),
            prompt=prompt,
            prompt_file=str(file.absolute()),
            tokens=order.campaign.tokens,
            threads=order.config.threads or available_cpus(),
        )
        job = {"kind": "command", "command": command_line(cell.command or "", values)}
        outcome = run_job(job, regime=self._regime, timeout_s=order.timeout_s)
        metrics: Mapping[str, float | None] = {}
        if outcome.failure is None:
            try:
                metrics = read_metrics(outcome.output, check_regex(cell.regex or ""))
            except ConfigError as error:
                outcome = replace(outcome, failure=str(error))
        return _result(planned, entry, outcome, metrics=metrics)


def _result(
    planned: PlannedRun,
    entry: EntryState,
    outcome: Outcome,
    *,
    metrics: Mapping[str, float | None],
    accepted_at: tuple[int, ...] = (),
    offered_at: tuple[int, ...] = (),
    csv: str | None = None,
) -> RunResult:
    return RunResult(
        cell=planned.cell,
        workload=planned.workload,
        round=planned.round,
        order=planned.order,
        failure=outcome.failure,
        entry=entry,
        metrics=metrics,
        accepted_at=accepted_at,
        offered_at=offered_at,
        csv=csv,
        peak_bytes=outcome.peak_bytes,
    )


def _files(config: EngineConfig, size: int) -> tuple[Path, ...]:
    """The model's files, which must be those that the campaign was begun with."""
    model = read_model(config.model)
    if sum(model.file_sizes) != size:
        raise ConfigError(
            f"{config.model} has {sum(model.file_sizes)} bytes now, and the campaign was begun "
            f"with {size}; begin another one"
        )
    return model.paths


def _give_back(paths: tuple[Path, ...]) -> None:
    """Ask the kernel to forget the files' pages, which needs no permission."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _safe(name: str) -> str:
    """A name as part of a file's name; the run's number keeps equal ones apart."""
    return _UNSAFE.sub("-", name).strip("-")[:60] or "cell"
