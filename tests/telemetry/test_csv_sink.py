"""The CSV file: whole lines, nothing destroyed, errors in words."""

from __future__ import annotations

import csv
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from moestream.errors import ConfigError
from moestream.telemetry.csv_sink import CsvSink
from moestream.telemetry.json_lines import JsonLinesSink
from moestream.telemetry.probes import MemorySample
from moestream.telemetry.record import TokenRecord, token_record
from moestream.telemetry.recorder import Recorder, Sink
from moestream.telemetry.schema import PREAMBLE_KEYS, csv_header
from tests.telemetry.helpers import SUMMARY, event, report, session_info

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")


def row(index: int = 1) -> TokenRecord:
    return token_record(event(index), report(), MemorySample(), turn=0, steps=None)


def recording(path: Path, **changes: Any) -> Recorder:
    return Recorder(session_info(**changes), [CsvSink(path)], warn=pytest.fail)


def test_preamble_rows_and_trailer(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    log = recording(path, model="a model\nspec=mtp")
    log.begin_turn(4)
    log.observe(event(0))
    log.observe(event(1, cpu_ms=None))
    log.end_turn(SUMMARY)
    log.close()
    lines = path.read_text(encoding="utf-8").splitlines()
    head = lines.index(csv_header())
    assert [line.split("=")[0] for line in lines[:head]] == [f"# {c.name}" for c in PREAMBLE_KEYS]
    assert "# engine_version=1.2.3" in lines
    assert "# model=a model spec mtp" in lines
    assert "# spec=off" in lines
    assert "# spec_draft_max=" in lines
    assert lines[-1].startswith("# summary ")
    assert "mtp_drafted=0" in lines[-1].split()
    assert lines[-2].startswith("# turn turn=0 ")
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert [r["step"] for r in rows] == ["0", "1"]
    assert [r["phase"] for r in rows] == ["prefill", "decode"]
    assert [r["steps"] for r in rows] == ["4", "4"]
    assert [r["cpu_ms"] for r in rows] == ["1.750", ""]


def test_every_row_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    log = recording(path)
    log.begin_turn(None)
    for index in range(3):
        log.observe(event(index))
        text = path.read_text()
        assert text.endswith("\n")
        assert text.splitlines()[-1].startswith(f"{index},")
    log.close()


def test_an_older_file_is_replaced_only_when_the_recording_begins(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("older\n" * 10_000)
    sink = CsvSink(path)
    assert path.read_text().startswith("older")
    sink.close()
    assert path.read_text().startswith("older")
    recording(path).close()
    assert "older" not in path.read_text()


def test_a_recording_that_never_began_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    sink = CsvSink(path)
    sink.close()
    sink.close()
    assert not path.exists()


def test_a_link_to_nowhere_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "target.csv")
    recording(link).close()
    assert (tmp_path / "target.csv").read_text().startswith("# ")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda base: base, "is a directory"),
        (lambda base: base / "none" / "run.csv", "No such file"),
        (lambda base: base / "file" / "run.csv", "Not a directory"),
        (lambda base: Path(f"{base}/a\0b"), "null"),
        (lambda base: base / ("x" * 300), "too long"),
    ],
)
def test_paths_that_cannot_be_recorded_to(tmp_path: Path, make: Any, words: str) -> None:
    (tmp_path / "file").write_text("x")
    path = make(tmp_path)
    with pytest.raises(ConfigError, match=words):
        CsvSink(path)


@posix
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("kept")
    path.chmod(stat.S_IRUSR)
    if os.access(path, os.W_OK):
        pytest.skip("this user may write to anything")
    with pytest.raises(ConfigError, match="Permission denied"):
        CsvSink(path)


def test_the_model_itself_is_refused_by_any_name(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    link = tmp_path / "link"
    link.symlink_to(model)
    for path in (model, link, tmp_path / "." / "model.gguf"):
        with pytest.raises(ConfigError, match="the model itself"):
            CsvSink(path, protected=[tmp_path / "other", model])
    assert model.read_bytes() == b"GGUF"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_warned_about_and_the_session_goes_on() -> None:
    warnings: list[str] = []
    lines: list[str] = []
    sinks: list[Sink] = [CsvSink(Path("/dev/full")), JsonLinesSink(lines.append)]
    log = Recorder(session_info(), sinks, warn=warnings.append)
    log.begin_turn(None)
    log.observe(event())
    log.close()
    assert len(warnings) == 1
    assert "the recording to /dev/full" in warnings[0]
    assert "No space left" in warnings[0]
    assert len(lines) == 2


@posix
def test_half_a_row_is_taken_back(tmp_path: Path) -> None:
    import resource
    import signal

    path = tmp_path / "run.csv"
    sink = CsvSink(path)
    sink.begin({})
    sink.token(row())
    good = path.read_text()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(good) + 20, hard))
        with pytest.raises(OSError):
            sink.token(row())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    sink.close()
    assert path.read_text() == good


@posix
def test_a_pipe_can_be_recorded_to(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    log = recording(Path(f"/dev/fd/{writer}") if Path("/dev/fd").exists() else tmp_path / "x")
    log.close()
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    if Path("/dev/fd").exists():
        assert text.splitlines()[-1].startswith("# summary ")
