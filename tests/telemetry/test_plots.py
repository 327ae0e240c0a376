"""Pictures are drawn, of whatever there is to draw."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from moestream.errors import ConfigError, PlatformError
from moestream.telemetry.plots import plot_runs
from moestream.telemetry.reading import read_route_trace, read_run
from moestream.telemetry.run_series import RunSeries
from moestream.telemetry.trace_plots import plot_trace
from moestream.telemetry.trace_report import TraceReport, trace_report
from tests.telemetry.recordings import Row, free, routing, token, trace_text, write_run

PNG = b"\x89PNG\r\n\x1a\n"
#: Of a picture with something on it.
LEAST_BYTES = 15_000


def speculated(n: int) -> list[Row]:
    rows: list[Row] = []
    for i in range(n):
        accepted = i % 3
        rows.append(
            token(
                mtp_batch=accepted + 1, drafted=2, accepted=accepted, mtp_draft_ms=4, wall_ms=90 + i
            )
        )
        rows += [free() for _ in range(accepted)]
    return rows


def run(tmp_path: Path, name: str, rows: Sequence[Row], **preamble: object) -> RunSeries:
    return RunSeries(read_run(write_run(tmp_path / name, rows, preamble)))


def width_of(picture: Path) -> int:
    data = picture.read_bytes()
    assert data.startswith(PNG)
    assert len(data) > LEAST_BYTES
    return int.from_bytes(data[16:20], "big")


CHAT = [
    *[token(turn=0, wall_ms=80 + i) for i in range(30)],
    token(turn=1, phase="prefill", wall_ms=9000),
    *[token(turn=1, wall_ms=9000 if i == 7 else 100) for i in range(30)],
]


@pytest.mark.parametrize(
    "rows",
    [
        [token()],
        CHAT,
        speculated(40),
        [token(read_bytes="", hits="", misses="", stall_ms="", majflt="") for _ in range(20)],
        [token(wall_ms=0, stall_ms=0, loop_overhead_ms=0, read_bytes=0, hits=0, misses=0)] * 3,
        [token(wall_ms=1e15, stall_ms=1e15, read_bytes=1e15), token(wall_ms=1e-9)],
        [token() for _ in range(3000)],
    ],
    ids=["one token", "chat", "speculated", "resident", "zeros", "huge", "long"],
)
def test_one_run(tmp_path: Path, rows: list[Row]) -> None:
    picture = tmp_path / "out.png"
    plot_runs([run(tmp_path, "a.csv", rows, model="m", spec="off")], picture)
    assert width_of(picture) == 1200


def test_several_runs(tmp_path: Path) -> None:
    runs = [
        run(tmp_path, "off.csv", CHAT, model="m", spec="off", cache_mb="10.000"),
        run(tmp_path, "mtp.csv", speculated(30), model="m", spec="mtp", spec_draft_max=2),
        run(tmp_path, "none.csv", [token(read_bytes="", hits="", misses="")], model="m"),
    ]
    picture = tmp_path / "out.png"
    plot_runs(runs, picture)
    assert width_of(picture) == 1200


def test_acceptance_that_was_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,wall_ms,mtp_batch\n0,10,3\n1,0,0\n2,0,0\n3,10,1\n")
    plot_runs([RunSeries(read_run(path))], tmp_path / "out.png")
    assert width_of(tmp_path / "out.png") == 1200


@pytest.mark.parametrize(
    "model", ["$\\frac{1}{0}$ 100% {x}", "モデル \U0001f9e0", "a" * 3000, "\x1b[31mred", ""]
)
def test_whatever_a_model_calls_itself(tmp_path: Path, model: str) -> None:
    picture = tmp_path / "out.png"
    plot_runs([run(tmp_path, "a.csv", speculated(5), model=model, spec=model)] * 2, picture)
    assert width_of(picture) == 1200


@pytest.mark.parametrize(("suffix", "magic"), [(".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_other_kinds_of_pictures(tmp_path: Path, suffix: str, magic: bytes) -> None:
    picture = tmp_path / f"out{suffix}"
    plot_runs([run(tmp_path, "a.csv", CHAT)], picture)
    assert picture.read_bytes().startswith(magic)


def test_the_same_numbers_make_the_same_picture(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        plot_runs([run(tmp_path, "a.csv", CHAT)], tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_the_style_of_others_is_left_alone(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    plot_runs([run(tmp_path, "a.csv", CHAT)], tmp_path / "a.png")
    assert dict(matplotlib.rcParams) == before


def test_a_name_that_is_no_pictures(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.png, \.svg, \.pdf"):
        plot_runs([run(tmp_path, "a.csv", CHAT)], tmp_path / "a.csv")


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PlatformError, match=r"pip install 'moestream\[plot\]'"):
        plot_runs([run(tmp_path, "a.csv", CHAT)], tmp_path / "a.png")


def report(tmp_path: Path, *, sizes: bool, n_layers: int = 3) -> TraceReport:
    rows = [
        routing(step, layer, (step * 5 + layer + slot * 3) % 8, slot=slot, residency=step % 2,
                size=0 if step % 2 or not sizes else 2**20)
        for step in range(12) for layer in range(n_layers) for slot in range(2)
    ]  # fmt: skip
    path = tmp_path / "trace.csv"
    preamble = {"model": "$m$", "n_layer": 2, "n_expert": 8, "n_expert_used": 2}
    path.write_text(trace_text(rows, preamble=preamble))
    return trace_report(read_route_trace(path))


@pytest.mark.parametrize(("sizes", "n_layers"), [(True, 3), (False, 3), (True, 1), (True, 200)])
def test_a_trace(tmp_path: Path, sizes: bool, n_layers: int) -> None:
    picture = tmp_path / "out.png"
    plot_trace(report(tmp_path, sizes=sizes, n_layers=n_layers), picture)
    assert width_of(picture) == 1200
