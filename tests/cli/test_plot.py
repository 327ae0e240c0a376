"""``moestream plot``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.telemetry.recordings import free, run_text, token, write_run


@pytest.fixture
def off(tmp_path: Path) -> Path:
    rows = [token(phase="prefill"), *[token() for _ in range(20)]]
    return write_run(tmp_path / "off.csv", rows, {"model": "m", "spec": "off"})


@pytest.fixture
def mtp(tmp_path: Path) -> Path:
    rows = [token(mtp_batch=2, drafted=3, accepted=1, mtp_draft_ms=5), free()] * 10
    preamble = {"model": "m", "spec": "mtp", "spec_draft_max": 3}
    return write_run(tmp_path / "mtp.csv", rows, preamble)


def test_one_run(cli: Cli, off: Path, tmp_path: Path) -> None:
    result = cli("plot", off)
    assert result.code == 0
    picture = tmp_path / "off.png"
    assert picture.stat().st_size > 10_000
    assert f"picture: {picture}" in result.err
    header, row = result.out.splitlines()
    assert header.startswith("run")
    assert row.startswith("spec off")
    assert "9.09" in row  # 110 ms a token
    assert "10.00" in row  # of them 100 in the decode


def test_several_runs(cli: Cli, off: Path, mtp: Path, tmp_path: Path) -> None:
    picture = tmp_path / "both.svg"
    result = cli("plot", off, mtp, "-o", picture, "--json")
    assert result.code == 0
    assert picture.stat().st_size > 10_000
    runs = result.json["runs"]
    assert [run["label"] for run in runs] == ["spec off", "mtp 3"]
    assert runs[1]["tokens"] == 20
    assert runs[1]["acceptance_pct"] == pytest.approx(100 / 3)
    assert runs[1]["offered_at"] == [10, 10, 0]
    assert runs[1]["accepted_at"] == [10, 0, 0]
    assert runs[1]["complete"]


def test_a_killed_run_is_told(cli: Cli, off: Path, tmp_path: Path) -> None:
    text = run_text([token(), token()], trailer=False)
    killed = tmp_path / "killed.csv"
    killed.write_text(text)
    assert "has no summary" in cli("plot", killed).err
    killed.write_text(text[:-5])
    assert "unfinished" in cli("plot", killed, off).err


@pytest.mark.parametrize("same", ["name", "link"])
def test_a_recording_is_not_drawn_over(cli: Cli, off: Path, same: str) -> None:
    source = off.rename(off.with_suffix(".png"))
    target = source
    if same == "link":
        target = source.with_name("other.png")
        os.link(source, target)
    before = source.read_bytes()
    result = cli("plot", source, *([] if same == "name" else ["-o", target]))
    assert result.code == 2
    assert "--output" in result.error
    assert source.read_bytes() == before


def test_wrong_usage(cli: Cli, off: Path) -> None:
    for words in (["plot"], ["plot", off, "-o", "x.txt"], ["plot", *([off] * 21)]):
        result = cli(*words)
        assert result.code == 2
        assert result.error
        assert result.out == ""


def test_without_matplotlib(cli: Cli, off: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    result = cli("plot", off)
    assert result.code == 1
    assert "pip install 'moestream[plot]'" in result.error


HOSTILE = {
    "empty": b"",
    "binary": bytes(range(256)) * 64,
    "text": b"this is no recording\n",
    "non-utf-8": b"\xff\xfes\x00t\x00e\x00p\x00,\x00\n\x00",
    "header alone": b"step,wall_ms\n",
    "lying header": b"step,wall_ms,io_ms\n0,1\n",
    "huge number": b"step,wall_ms\n0,1e300\n",
    "endless group": b"step,wall_ms,mtp_batch\n0,1,1e9\n",
    "word": b"step,wall_ms\n0,slow\n",
    "cut at once": b"step,wall_ms\n0,1",
    "prefill alone": b"step,wall_ms,phase\n0,1,prefill\n",
    "route trace": b"# route_trace v1\nturn,phase\n0,0\n",
    "control characters": b"\x1b[31mred\x07\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_give_one_line(cli: Cli, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(HOSTILE[kind])
    result = cli("plot", path)
    assert result.code == 2
    assert "bad.csv" in result.error
    assert result.out == ""
    assert "\x1b" not in result.err
    assert not (tmp_path / "bad.png").exists()


def test_nothing_but_unmeasured(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "nan.csv"
    path.write_text("step,wall_ms,stall_ms\n0,nan,nan\n1,nan,nan\n")
    result = cli("plot", path, "--json")
    assert result.code == 0
    assert result.json["runs"][0]["tok_s"] is None


def test_no_file(cli: Cli, tmp_path: Path) -> None:
    result = cli("plot", tmp_path / "none.csv")
    assert result.code == 1
    assert "none.csv" in result.error


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("verb", ["plot", "trace"])
def test_a_named_pipe_does_not_hang(cli: Cli, tmp_path: Path, verb: str) -> None:
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    assert cli(verb, path).code == 2
