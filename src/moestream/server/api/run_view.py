"""Recorded runs as JSON: what one comes to, its rows and charts, and several compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moestream.errors import ConfigError
from moestream.telemetry.plots import GROUP_NOTICE
from moestream.telemetry.reading import RunFile, read_run
from moestream.telemetry.run_labels import draft_source, run_labels, settings_line
from moestream.telemetry.run_series import PARTS, RunSeries

__all__ = ["compare", "detail", "summarize", "summary_values"]

_MOST_ROWS: Final = 2000
#: Points of a chart at most; beyond that, several tokens share one.
_MOST_POINTS: Final = 400
_DIGITS: Final = 6


def summarize(path: Path) -> dict[str, Any]:
    """The facts that a list of runs shows; ``error`` says why there are none."""
    facts: dict[str, Any] = dict.fromkeys(
        ("label", "model", "spec", "started", "tokens", "tok_s", "effective_tok_s", "hit_pct",
         "speculated", "error"),
    )  # fmt: skip
    facts |= {"tokens": 0, "speculated": False}
    try:
        run = read_run(path)
        preamble = run.preamble
        facts["model"] = preamble.get("model") or None
        facts["spec"] = preamble.get("spec") or None
        facts["started"] = preamble.get("started") or None
        series = RunSeries(run)
    except (ConfigError, OSError) as error:
        facts["error"] = _about(path, error)
        return facts
    facts |= {
        "label": settings_line(series),
        "spec": facts["spec"] or ("drafted" if series.speculated else "off"),
        "tokens": series.n_tokens,
        "tok_s": _finite(series.decode_tok_s),
        "effective_tok_s": _finite(series.tok_s),
        "hit_pct": _finite(series.hit_pct),
        "speculated": series.speculated,
    }
    return facts


def detail(path: Path) -> dict[str, Any]:
    """One run: preamble, rows, charts, what it comes to, and what a reader has to know.

    Raises:
        ConfigError: the file is no run; the message names the line.
        OSError: it cannot be read.
    """
    run = read_run(path)
    notices = _notices(run)
    series: RunSeries | None = None
    try:
        series = RunSeries(run)
    except ConfigError:
        notices.append("No token was decoded in this run, so there is nothing to draw.")
    if series is not None and series.speculated:
        notices.append(GROUP_NOTICE)
    columns, rows = _rows(run)
    if len(rows) < run.n_rows:
        notices.append(
            f"The table shows {len(rows)} of {run.n_rows} rows, evenly spaced; the file has all."
        )
    return {
        "preamble": dict(run.preamble),
        "columns": columns,
        "rows": rows,
        "n_rows": run.n_rows,
        "series": None if series is None else chart(series),
        "summary": None if series is None else summary_values(series),
        "trailer": None if run.trailer is None else dict(run.trailer),
        "notices": notices,
    }


def compare(paths: Sequence[Path]) -> dict[str, Any]:
    """Several runs side by side.

    Raises:
        ConfigError: a file is no run, or nothing was decoded in it.
        OSError: one cannot be read.
    """
    runs = [RunSeries(read_run(path)) for path in paths]
    labels = run_labels(runs)
    summaries = [summary_values(series) for series in runs]
    preambles = [{"spec": draft_source(s), **_settings(s.run)} for s in runs]
    notices = [
        f"{label}: {notice}"
        for label, series in zip(labels, runs, strict=True)
        for notice in _notices(series.run)
    ]
    if any(series.speculated for series in runs):
        drafted = [lab for lab, s in zip(labels, runs, strict=True) if s.speculated]
        notices.append(f"{GROUP_NOTICE} This is so in: {'; '.join(drafted)}.")
    if len({series.run.preamble.get("model", "") for series in runs}) > 1:
        notices.append("The runs are of different models.")
    return {
        "labels": labels,
        "rows": [*_table("summary", summaries), *_table("setting", preambles)],
        "series": [chart(series) for series in runs],
        "notices": notices,
    }


def summary_values(series: RunSeries) -> dict[str, Any]:
    """What a run comes to, computed from its rows, by the keys of the glossary."""
    numbers = series.numbers()
    drafted = int(series.drafted.sum())
    values: dict[str, Any] = {
        "tok_s": series.tok_s,
        "decode_tok_s": series.decode_tok_s,
        "decoded_tokens": series.n_tokens,
        "read_mib/tok": series.mib_per_token,
        "cache_hit_pct": series.hit_pct,
        "majflt/tok": numbers["majflt_per_token"],
        "cpu_s/tok": numbers["cpu_s_per_token"],
        "wall_s/tok": (series.part_ms("compute") + series.part_ms("stall")) / 1e3,
        "stall_s/tok": None
        if np.isnan(series.rows("stall_ms")).all()
        else series.part_ms("stall") / 1e3,
        "loop_overhead_s/tok": (series.part_ms("draft") + series.part_ms("other")) / 1e3,
        "mtp_draft_s/tok": series.part_ms("draft") / 1e3,
        "mtp_decodes": series.n_decodes,
        "drafted_steps": series.drafted_steps,
        "mtp_drafted": drafted,
        "mtp_accepted": int(series.accepted.sum()),
        "mtp_accept_pct": series.acceptance_pct,
        "mtp_tok/verify": series.tokens_per_verify,
        "mtp_coverage_pct": 100 * series.drafted_steps / series.n_decodes if drafted else None,
    }
    return {key: _finite(value) for key, value in values.items()}


def chart(series: RunSeries) -> dict[str, Any]:
    """The curves of a run: one point a token, or of several where there are many tokens.

    ``x`` is the first token of each point; ``turns`` are the tokens that begin a turn.
    """
    edges = np.unique(
        np.linspace(0, series.n_tokens, min(series.n_tokens, _MOST_POINTS) + 1).astype(np.intp)
    )
    window = min(max(series.n_tokens // 12, 4), 64, series.n_tokens)
    offered = series.acceptance_at
    return {
        "x": edges[:-1].tolist(),
        "tokens": series.n_tokens,
        "window": window,
        "effective_tok_s": _points(series.smooth_rate(window), edges),
        "tok_s": _points(series.smooth_rate(window, decode_only=True), edges),
        "parts": {name: _points(series.parts[name], edges) for name in PARTS},
        "ms_per_token": {name: _finite(series.part_ms(name)) for name in PARTS},
        "hit_pct": _points(series.smooth_hit_pct(window), edges),
        "mib_per_token": _points(series.smooth_mib(window), edges),
        "turns": series.turn_starts.tolist(),
        "confirmed": series.confirmed_counts.tolist() if series.speculated else [],
        "offered_at": [count for count, _ in offered],
        "accepted_at": [count for _, count in offered],
    }


def _rows(run: RunFile) -> tuple[list[str], list[list[Any]]]:
    names = [*run.columns, *run.texts]
    if run.n_rows > _MOST_ROWS:
        which = np.linspace(0, run.n_rows - 1, _MOST_ROWS).round().astype(np.intp)
    else:
        which = np.arange(run.n_rows)
    table = [
        [_finite(value) for value in values[which].tolist()] for values in run.columns.values()
    ]
    table += [[texts[i] for i in which] for texts in run.texts.values()]
    return names, [list(row) for row in zip(*table, strict=True)]


def _points(values: NDArray[np.float64], edges: NDArray[np.intp]) -> list[float | None]:
    """Means between the edges; ``None`` where nothing was measured."""
    known = ~np.isnan(values)
    if not known.any():
        return []
    sums = np.add.reduceat(np.where(known, values, 0.0), edges[:-1])
    counts = np.add.reduceat(known.astype(np.intp), edges[:-1])
    means = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return [_finite(value) for value in means.tolist()]


def _table(kind: str, values: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    keys = list(dict.fromkeys(key for row in values for key in row))
    rows = []
    for key in keys:
        cells = [row.get(key) for row in values]
        if any(cell not in (None, "") for cell in cells):
            rows.append({"key": key, "kind": kind, "values": cells, "differs": len(set(cells)) > 1})
    return rows


def _settings(run: RunFile) -> dict[str, str]:
    return {key: value for key, value in run.preamble.items() if key != "spec"}


def _notices(run: RunFile) -> list[str]:
    notices = []
    if run.cut:
        notices.append("The last line of the file is unfinished and was left out.")
    elif run.trailer is None:
        notices.append("The file has no summary: the run did not end by itself.")
    if run.preamble.get("traced") == "1":
        notices.append("Routing was traced meanwhile, which costs time: no benchmark run.")
    if run.preamble.get("synthetic_acceptance"):
        notices.append("Acceptance was forced: the text is not the model's, only costs compare.")
    return notices


def _finite(value: Any) -> Any:
    """A number as JSON can hold it, without digits that say nothing."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.{_DIGITS}g}")


def _about(path: Path, error: Exception) -> str:
    """What is wrong with a file, without saying where on this machine it lies."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return (reason or type(error).__name__).replace(str(path), "the file")
