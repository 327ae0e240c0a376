"""Results of campaigns that nobody ran: rates given, or drawn with a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from moestream.bench.campaign import Campaign
from moestream.bench.cell_grammar import parse_cells
from moestream.bench.cells import OFF
from moestream.bench.result import (
    CampaignResult,
    EntryState,
    MachineFacts,
    ModelFacts,
    RunResult,
)
from moestream.bench.workloads import Workload

PROSE = Workload("prose", "Once")
MODEL = ModelFacts(path="/models/giant.gguf", size_bytes=5_454_156_288, arch="qwen3moe")
MACHINE = MachineFacts(cpu="Some CPU", cores=2, kernel="6.8.0", ram_mib=16000)


def entry(**values: object) -> EntryState:
    fields: dict[str, object] = {
        "time": "2026-01-02T03:04:05+00:00",
        "load_1m": 0.25,
        "mem_available_mib": 9000,
        "cpu_temp_c": None,
        "cpu_mhz": 2400.5,
        "waited_s": 0.0,
        "gate_expired": False,
    }
    return EntryState(**{**fields, **values})  # type: ignore[arg-type]


def run(cell: str, round: int, tok_s: float | None, **values: object) -> RunResult:
    """A run; without a rate it failed."""
    fields: dict[str, object] = {
        "cell": cell,
        "workload": "prose",
        "round": round,
        "order": 0,
        "failure": "killed by signal 9" if tok_s is None else None,
        "entry": entry(),
        "metrics": {} if tok_s is None else {"tok_s": tok_s},
        "accepted_at": (),
        "offered_at": (),
        "csv": None,
        "peak_bytes": None,
    }
    return RunResult(**{**fields, **values})  # type: ignore[arg-type]


def rounds(cell: str, rates: Sequence[float | None], **values: object) -> list[RunResult]:
    """One run a round."""
    return [run(cell, i, rate, **values) for i, rate in enumerate(rates)]


def result(cells: str, runs: Sequence[RunResult], **values: object) -> CampaignResult:
    fields: dict[str, object] = {
        "name": "trial",
        "model": MODEL,
        "machine": MACHINE,
        "version": "0.1.0",
        "command": ("moestream", "bench"),
        "cells": tuple(cell.to_json() for cell in parse_cells(cells)),
        "runs": tuple(runs),
        "regime": None,
    }
    return CampaignResult(**{**fields, **values})  # type: ignore[arg-type]


def campaign(cells: str, rounds: int = 5, workloads: Sequence[Workload] = (PROSE,)) -> Campaign:
    return Campaign(
        name="trial",
        cells=parse_cells(cells),
        workloads=tuple(workloads),
        rounds=rounds,
        tokens=16,
    )


def simulate(
    plan: Campaign,
    speeds: Mapping[str, float],
    noise: Callable[[int], np.ndarray],
    drift: float = 0.0,
) -> list[RunResult]:
    """Every run of a campaign, its rate 10 tok/s times its cell's speed, noise and drift."""
    planned = plan.plan()
    logs = noise(len(planned)) - drift * np.arange(len(planned)) / len(planned)
    return [
        run(
            p.cell,
            p.round,
            10.0 * speeds.get(p.cell, 1.0) * float(np.exp(error)),
            order=p.order,
            workload=p.workload,
        )
        for p, error in zip(planned, logs, strict=True)
    ]


def normal(seed: int, scale: float) -> Callable[[int], np.ndarray]:
    rng = np.random.default_rng(seed)
    return lambda n: scale * rng.standard_normal(n)


__all__ = [
    "MACHINE", "MODEL", "OFF", "PROSE", "campaign", "entry", "normal", "result", "rounds", "run",
    "simulate",
]  # fmt: skip
