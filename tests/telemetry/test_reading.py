"""The CSV of a run, read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moestream.errors import ConfigError
from moestream.telemetry.reading import read_run
from moestream.telemetry.schema import csv_header
from tests.telemetry.recordings import free, run_text, token, write_run


def test_everything_comes_back_by_name(tmp_path: Path) -> None:
    rows = [token(phase="prefill", wall_ms=900.5), token(mtp_batch=2, majflt=""), free()]
    run = read_run(write_run(tmp_path / "a.csv", rows, {"model": "some model", "threads": 4}))
    assert run.n_rows == 3
    assert run.preamble == {"model": "some model", "threads": "4"}
    assert run.column("wall_ms").tolist() == [900.5, 100.0, 0.0]
    assert run.column("mtp_batch").tolist() == [1, 2, 0]
    assert np.isnan(run.column("majflt")).tolist() == [False, True, False]
    assert np.isnan(run.column("rss_mib")).all()
    assert run.texts["phase"] == ("prefill", "decode", "decode")
    assert run.decoded.tolist() == [False, True, True]
    assert run.trailer == {
        "turns": "1", "generated_tokens": "3", "finish_reason": "", "tok_s": "1.5",
    }  # fmt: skip
    assert not run.cut


def test_keys_on_one_line_and_values_with_spaces(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("# model=a b.gguf arch=x cache_ceil_mb= spec=off\nstep,wall_ms\n0,1\n")
    assert read_run(path).preamble == {
        "model": "a b.gguf", "arch": "x", "cache_ceil_mb": "", "spec": "off",
    }  # fmt: skip


def test_of_columns_only_the_names_count(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,new_words,wall_ms,new_number\n0,good,5,7\n1,bad,-1,\n")
    run = read_run(path)
    assert run.column("new_number").tolist()[0] == 7
    assert np.isnan(run.column("new_words")).all()
    assert np.isnan(run.column("wall_ms")[1])  # others write -1 for unmeasured
    assert np.isnan(run.column("stall_ms")).all()
    assert run.decoded.all()


def test_line_ends_of_another_system_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf# model=x\r\nstep,wall_ms\r\n0,1.5\r\n\r\n# summary turns=1\r\n")
    run = read_run(path)
    assert run.preamble == {"model": "x"}
    assert run.column("wall_ms").tolist() == [1.5]
    assert run.trailer == {"turns": "1"}


@pytest.mark.parametrize("keep", ["rows", "half a row", "half a trailer"])
def test_a_run_that_was_killed(tmp_path: Path, keep: str) -> None:
    text = run_text([token(), token(), token()])
    end = text.index("# summary")
    cut = {"rows": end, "half a row": end - 10, "half a trailer": end + 25}[keep]
    path = tmp_path / "a.csv"
    path.write_text(text[:cut])
    run = read_run(path)
    assert run.trailer is None
    assert run.n_rows == (2 if keep == "half a row" else 3)
    assert run.cut == (keep != "rows")


def test_summaries_of_turns_are_no_trailer(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,wall_ms\n0,1\n# turn turn=0 tok_s=9\n0,2\n")
    run = read_run(path)
    assert run.n_rows == 2
    assert run.trailer is None


HEADER = csv_header()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no header row"),
        (b"# model=x\n", "no header row"),
        (b"\x00\x01\x02\xff" * 100 + b"\n", "line 1 is"),
        (b"\x7fELF" + bytes(range(256)) * 4096, "line"),
        (b"a" * 200_000, "line 1 is longer than"),
        (b"hello\nworld\n", "line 1 is 'hello'"),
        (b"step,steps\n0,1\n", "line 1 is a header without the column wall_ms"),
        (b"step,wall_ms,wall_ms\n0,1,1\n", "line 1 has the column 'wall_ms' 2 times"),
        (b"# x=1\nstep,wall_ms\n0,1\n1,2,3\n", "line 4 has 3 fields, but the header has 2"),
        (b"step,wall_ms\n0,fast\n", "line 2 has 'fast' in wall_ms"),
        (b"step,wall_ms\n0,1e400\n", "line 2 has '1e400' in wall_ms"),
        (b"step,wall_ms\n0,inf\n", "line 2 has 'inf' in wall_ms"),
        (b"step,wall_ms,drafted\n0,1,1e12\n", "line 2 has '1e12' in drafted"),
        (b"step,wall_ms\n0,\xff\xfe\n", "in wall_ms, which is no number"),
        (b"# route_trace v1\nturn,phase\n0,0\n", "use moestream trace"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value,
)
def test_what_is_no_such_csv(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_run(path)
    assert words in str(caught.value)
    assert "bad.csv" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_nan_is_unmeasured(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,wall_ms,stall_ms\n0,1,nan\n")
    assert np.isnan(read_run(path).column("stall_ms")).all()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_run(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match="directory"):
        read_run(tmp_path)
