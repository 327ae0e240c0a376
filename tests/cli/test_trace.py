"""``moestream trace``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.telemetry.recordings import TRACE_HEADER, routing, trace_text

MIB = 2**20


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    """Two layers and a draft context's, three tokens after a prompt of one."""
    rows = []
    for step in range(4):
        for layer in range(3):
            rows += [
                routing(
                    step, layer, (step // 2 + slot) % 4, slot=slot, phase=int(step > 0),
                    residency=int(step % 2 == 1), size=0 if step % 2 else MIB,
                )
                for slot in range(2)
            ]  # fmt: skip
    path = tmp_path / "trace.csv"
    preamble = {"model": "mo\x1bdel", "arch": "x", "n_layer": 2, "n_expert": 4, "n_expert_used": 2}
    path.write_text(trace_text(rows, sizes=dict.fromkeys(range(3), MIB), preamble=preamble))
    return path


def test_tables(cli: Cli, traced: Path) -> None:
    result = cli("trace", traced)
    assert result.code == 0
    assert "\x1b" not in result.out
    lines = result.out.splitlines()
    assert lines[0] == "model, x: 24 routings in 1 turn"
    assert any(line.split()[:3] == ["prefill", "1", "6"] for line in lines)
    assert any(line.split()[:3] == ["decode", "3", "18"] for line in lines)
    assert sum("draft context" in line for line in lines) == 1
    assert any("--cache-mb" in line for line in lines)
    assert "One token routes 4.00 MiB" in result.out


def test_json(cli: Cli, traced: Path) -> None:
    result = cli("trace", traced, "--json", "--sizes", "2,4,8")
    assert result.code == 0
    found = result.json
    assert found["n_layer"] == 2
    assert found["all_expert_bytes"] == 12 * MIB
    decode = found["phases"][1]
    assert decode["tokens"] == 3
    assert [layer["draft"] for layer in decode["layers"]] == [False, False, True]
    sizes = found["cache"]["sizes"]
    assert [point["cache_bytes"] for point in sizes] == [2 * MIB, 4 * MIB, 8 * MIB]
    assert sizes[0]["hit_rate"] <= sizes[1]["hit_rate"] <= sizes[2]["hit_rate"]


def test_picture(cli: Cli, traced: Path, tmp_path: Path) -> None:
    picture = tmp_path / "out.png"
    result = cli("trace", traced, "--plot", picture, "--json")
    assert result.code == 0
    assert result.json
    assert picture.stat().st_size > 10_000
    assert f"picture: {picture}" in result.err


def test_what_a_trace_lacks_is_told(cli: Cli, traced: Path) -> None:
    traced.write_text(traced.read_text() + "# lost=3\n0,1,1")
    result = cli("trace", traced)
    assert result.code == 0
    assert "unfinished" in result.err
    assert "misses 3 routings" in result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sizes", "lots"], "--sizes"),
        (["--sizes", "0"], "--sizes"),
        (["--sizes", "1,,2"], "--sizes"),
        (["--sizes", ",".join(["5"] * 101)], "--sizes"),
        (["--plot", "picture.doc"], ".png"),
    ],
)
def test_wrong_usage(cli: Cli, traced: Path, arguments: list[str], words: str) -> None:
    result = cli("trace", traced, *arguments)
    assert result.code == 2
    assert words in result.error
    assert result.out == ""


def test_a_picture_that_cannot_be_written(cli: Cli, traced: Path, tmp_path: Path) -> None:
    result = cli("trace", traced, "--plot", tmp_path / "nowhere" / "out.png")
    assert result.code == 1
    assert "nowhere" in result.error


ROW = "0,1,0,0,0,7,0,1,0,0"
HOSTILE = {
    "empty": b"",
    "binary": bytes(range(256)) * 64,
    "text": b"this is no trace\n",
    "non-utf-8": b"\xff\xfe# route_trace v1\n",
    "other version": f"# route_trace v9\n{TRACE_HEADER}\n".encode(),
    "no rows": f"# route_trace v1\n{TRACE_HEADER}\n".encode(),
    "header alone": b"# route_trace v1\n",
    "lying header": f"# route_trace v1\n# n_expert=2\n{TRACE_HEADER}\n{ROW}\n".encode(),
    "huge number": f"# route_trace v1\n{TRACE_HEADER}\n0,1,0,0,0,{10**400},0,1,0,0\n".encode(),
    "nan": f"# route_trace v1\n{TRACE_HEADER}\n0,1,nan,0,0,1,0,1,0,0\n".encode(),
    "short row": f"# route_trace v1\n{TRACE_HEADER}\n0,1,0\n".encode(),
    "csv of a run": b"# model=x\nstep,wall_ms\n0,1\n",
    "control characters": b"\x1b[31mred\x07\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_give_one_line(cli: Cli, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(HOSTILE[kind])
    result = cli("trace", path)
    assert result.code == 2
    assert "bad.csv" in result.error
    assert result.out == ""
    assert "\x1b" not in result.err


def test_no_file(cli: Cli, tmp_path: Path) -> None:
    result = cli("trace", tmp_path / "none.csv")
    assert result.code == 1
    assert "none.csv" in result.error
    result = cli("trace", tmp_path)
    assert result.code == 2
    assert "directory" in result.error
