"""A campaign for people and for programs: Markdown, JSON, and pictures beside it."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from moestream.bench.contamination import contamination
from moestream.bench.markdown import table
from moestream.bench.result import CampaignResult, RunResult
from moestream.bench.speed_map import has_map, map_sections
from moestream.bench.stats import log_noise
from moestream.bench.table import PARTS, Row, rows_of, workloads_of
from moestream.bench.verdict import by_round
from moestream.errors import ConfigError, PlatformError

__all__ = ["REPORT", "RESULTS", "markdown", "read_results", "write_report"]

#: Names of the files in a campaign's directory.
RESULTS: Final = "results.json"
REPORT: Final = "report.md"

_MIB: Final = 2**20


def read_results(path: Path) -> CampaignResult:
    """Results from a file, or from the directory of a campaign.

    Raises:
        ConfigError: there are none, or they are damaged.
    """
    file = path / RESULTS if path.is_dir() else path
    try:
        return CampaignResult.from_json(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(
            f"cannot read results from {file}: {error.strerror}; give a {RESULTS} or a directory "
            "with one"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is no JSON: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def write_report(
    directory: Path, result: CampaignResult, *, draw: bool = True
) -> tuple[str, tuple[str, ...]]:
    """Write results, report and, where matplotlib is installed, pictures.

    Args:
        directory: where to.
        result: what was measured.
        draw: whether to make pictures, which takes seconds.

    Returns:
        The report, and notes about what could not be made.
    """
    _write(directory / RESULTS, json.dumps(result.to_json(), indent=1) + "\n")
    notes: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    try:
        from moestream.bench.plots import plot_campaign

        pictures = plot_campaign(result, directory) if draw else ()
    except PlatformError as error:
        notes = (str(error),)
    text = markdown(result, pictures)
    _write(directory / REPORT, text)
    return text, notes


def _write(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def markdown(result: CampaignResult, pictures: Iterable[str] = ()) -> str:
    """The report."""
    parts = [f"# {result.name}", _facts(result)]
    for workload in workloads_of(result):
        parts += [f"## {workload}", *_workload(result, workload)]
    if has_map(result):
        parts += ["## Map", *map_sections(result)]
    tells = contamination(result)
    if tells:
        lines = [f"- {tell.cell} on {tell.workload}: {tell.text}" for tell in tells]
        parts += ["## Doubtful", "\n".join(lines)]
    images = [f"![{Path(name).stem}]({name})" for name in pictures]
    if images:
        parts += ["## Pictures", "\n\n".join(images)]
    parts += ["## How to read this", _LEGEND]
    return "\n\n".join(parts) + "\n"


_LEGEND: Final = """\
Figures are medians over the runs of a cell, the parts of a token's time means. `tok/s` is what a
caller sees, drafting and all; the rate of *decodes alone* leaves that out. A cell is compared with
the `off` runs of the same round; the noise floor is the difference that two equal cells stay below
19 times out of 20, and a difference below it is none. The parts sum to a token's wall time; the
stall is an upper bound where reads overlap compute. Raw data: a CSV per run under `raw/`, all runs
in `results.json`."""


def _facts(result: CampaignResult) -> str:
    model, machine = result.model, result.machine
    ram = "" if machine.ram_mib is None else f", {machine.ram_mib / 1024:.1f} GiB of memory"
    lines = [
        f"- model: {model.path} ({model.arch}, {_size(model.size_bytes)})",
        f"- machine: {machine.cpu}, {machine.cores} cores{ram}, {machine.kernel}",
        f"- memory limit: {_limit(result)}",
        f"- moestream {result.version}: `{shlex.join(result.command)}`",
        f"- {_state(result.runs)}",
    ]
    return "\n".join(lines)


def _limit(result: CampaignResult) -> str:
    if result.regime is None:
        return "none"
    ratio = result.model.size_bytes / result.regime
    return f"{_size(result.regime)}, the model is {ratio:.2f} times as big"


def _state(runs: Sequence[RunResult]) -> str:
    """What the machine was like when runs began."""
    entries = [run.entry for run in runs if run.entry is not None]
    if not entries:
        return "no runs yet"
    parts = [f"{len(runs)} runs from {entries[0].time} to {entries[-1].time} (UTC)"]
    for text, values in (
        ("load {} ", [e.load_1m for e in entries]),
        ("{} MiB available", [e.mem_available_mib for e in entries]),
        ("{} °C", [e.cpu_temp_c for e in entries]),
        ("{} MHz", [e.cpu_mhz for e in entries]),
    ):
        known = [value for value in values if value is not None]
        if known:
            low, high = (f"{f(known):.1f}" if "load" in text else f"{f(known):.0f}"
                         for f in (min, max))  # fmt: skip
            parts.append(text.strip().format(low if low == high else f"{low} to {high}"))
    expired = sum(entry.gate_expired for entry in entries)
    if expired:
        parts.append(f"{expired} began although the wait had run out")
    return ", ".join(parts)


def _workload(result: CampaignResult, workload: str) -> list[str]:
    rows = rows_of(result, workload)
    parts = [_noise(result, workload), _speed_table(rows), _time_table(rows)]
    failed = [
        f"- {row.cell.name}: {len(row.runs) - len(row.good)} of {len(row.runs)} runs failed: "
        f"{row.failure}"
        for row in rows
        if row.failure is not None
    ]
    if failed:
        parts.append("\n".join(failed))
    return [part for part in parts if part]


def _noise(result: CampaignResult, workload: str) -> str:
    off = by_round(result.runs, "off", workload)
    noise = log_noise(off)
    count = sum(map(len, off.values()))
    if noise is None:
        return f"Runs of `off`: {count}, never two in a round, so its noise is not known."
    spread = 100 * math.expm1(math.sqrt(noise[0]))
    return (
        f"Runs of `off`: {count}, rounds: {len(off)}; two of its runs in one round differ by "
        f"{spread * math.sqrt(2):.1f} % (standard deviation)."
    )


Column = tuple[str, Callable[[Row], str]]


def _speed_table(rows: Sequence[Row]) -> str:
    columns: list[Column] = [
        ("cell", lambda row: row.cell.name),
        ("tok/s", _metric("tok_s", 2)),
        ("against off", _against_off),
        ("decodes alone", _metric("decode_tok_s", 2)),
        ("prefill tok/s", _metric("prefill_tok_s", 1)),
        ("MiB/token", _metric("mib_per_token", 2)),
        ("hit %", _metric("hit_pct", 1)),
        ("majflt/token", _metric("majflt_per_token", 1)),
        ("cpu-s/token", _metric("cpu_s_per_token", 4)),
        ("accepted %", _metric("acceptance_pct", 1)),
        ("tokens/verify", _metric("tokens_per_verify", 2)),
        ("drafted steps", _metric("drafted_steps", 0)),
        ("of decodes %", _metric("coverage_pct", 1)),
        ("read while drafting %", _metric("draft_read_pct", 1)),
        ("cache MiB", _metric("cache_mib", 0)),
        ("load s", _metric("load_s", 2)),
        ("peak MiB", lambda row: _fixed(_mib(row.peak_bytes), 0)),
    ]
    return _table(columns, rows)


def _time_table(rows: Sequence[Row]) -> str:
    columns: list[Column] = [("ms per token", lambda row: row.cell.name)]
    columns += [(part.removesuffix("_ms"), _part(part)) for part in PARTS]
    columns.append(("sum", _sum))
    return _table(columns, [row for row in rows if row.values(PARTS[0])])


def _sum(row: Row) -> str:
    values = [row.mean(part) for part in PARTS]
    return _fixed(sum(value for value in values if value is not None), 2)


def _against_off(row: Row) -> str:
    if row.verdict is None:
        return ""
    return row.verdict.line


def _metric(name: str, digits: int) -> Callable[[Row], str]:
    return lambda row: _fixed(row.median(name), digits)


def _part(name: str) -> Callable[[Row], str]:
    return lambda row: _fixed(row.mean(name), 2)


def _fixed(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """A Markdown table without the columns that nothing stands in."""
    cells = [[make(row) for _, make in columns] for row in rows]
    used = [i for i in range(len(columns)) if i == 0 or any(line[i] for line in cells)]
    if not rows or used == [0]:
        return ""
    return table([columns[i][0] for i in used], [[line[i] or "-" for i in used] for line in cells])


def _mib(size: int | None) -> float | None:
    return None if size is None else size / _MIB


def _size(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / _MIB:.1f} MiB"
