"""Recordings made by the tests: the CSV of a run, and a route trace, with the numbers asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from moestream.telemetry.schema import TOKEN_COLUMNS, csv_header

Row = Mapping[str, object]

#: Route trace rows are (turn, phase, step, layer, slot, expert, residency, expert_bytes, dropped).
Routing = tuple[int, int, int, int, int, int, int, int, int]

TRACE_HEADER = "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes,dropped"


def token(**values: object) -> Row:
    """A row of a plain decode, with defaults for what a test does not care about."""
    row: dict[str, object] = {
        "turn": 0,
        "phase": "decode",
        "wall_ms": 100.0,
        "stall_ms": 40.0,
        "compute_ms": 60.0,
        "loop_overhead_ms": 10.0,
        "mtp_draft_ms": 0.0,
        "mtp_batch": 1,
        "drafted": 0,
        "accepted": 0,
        "read_bytes": 2**20,
        "hits": 3,
        "misses": 1,
        "majflt": 2,
        "cpu_ms": 150.0,
    }
    return {**row, **values}


_COSTS = (
    "wall_ms", "stall_ms", "compute_ms", "loop_overhead_ms", "mtp_batch", "read_bytes", "hits",
    "misses", "majflt", "cpu_ms",
)  # fmt: skip


def free(**values: object) -> Row:
    """A row of a group that is not its first: it cost nothing."""
    zeros = dict.fromkeys(_COSTS, 0)
    return token(**{**zeros, **values})


def run_text(
    rows: Sequence[Row], preamble: Mapping[str, object] | None = None, *, trailer: bool = True
) -> str:
    """The CSV of a run."""
    lines = [f"# {name}={value}" for name, value in (preamble or {}).items()]
    lines.append(csv_header())
    for i, row in enumerate(rows):
        cells = {"step": i, **row}
        lines.append(",".join(str(cells.get(column.name, "")) for column in TOKEN_COLUMNS))
    if trailer:
        lines.append("# summary turns=1 generated_tokens=3 finish_reason= tok_s=1.5")
    return "\n".join([*lines, ""])


def write_run(
    path: Path, rows: Sequence[Row], preamble: Mapping[str, object] | None = None
) -> Path:
    """The same as a file."""
    path.write_text(run_text(rows, preamble), encoding="utf-8")
    return path


def trace_text(
    rows: Sequence[Routing],
    *,
    sizes: Mapping[int, int] | None = None,
    preamble: Mapping[str, object] | None = None,
) -> str:
    """A route trace."""
    lines = ["# route_trace v1"]
    lines += [f"# {name}={value}" for name, value in (preamble or {}).items()]
    lines += [
        f"# layer={layer} expert_bytes={size} dense_bytes=7"
        for layer, size in (sizes or {}).items()
    ]
    lines.append(TRACE_HEADER)
    for turn, phase, step, layer, slot, expert, residency, size, dropped in rows:
        lines.append(
            f"{turn},{phase},{step},{layer},{slot},{expert},0.25,{residency},{size},{dropped}"
        )
    return "\n".join([*lines, ""])


def routing(
    step: int,
    layer: int,
    expert: int,
    *,
    slot: int = 0,
    phase: int = 1,
    turn: int = 0,
    residency: int = 1,
    size: int = 0,
    dropped: int = 0,
) -> Routing:
    """A row of a route trace: a hit of a decode unless said otherwise."""
    return (turn, phase, step, layer, slot, expert, residency, size, dropped)
