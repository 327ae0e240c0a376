"""``--csv``, ``--progress`` and ``--route-trace`` on real (tiny) models."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from moestream.telemetry.schema import csv_header
from tests.cli.conftest import Cli, Result
from tests.cli.test_run import ENDLESS, command
from tests.conftest import ModelMaker

FAST = ("--threads", "1", "--ctx", "512")

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and files")


@pytest.fixture
def model(tiny: ModelMaker) -> Path:
    return tiny("qwen35moe")


def lines_of(result: Result, word: str) -> list[dict[str, Any]]:
    return [
        json.loads(line.removeprefix(word))
        for line in result.err.splitlines()
        if line.startswith(word)
    ]


def rows_of(path: Path) -> list[dict[str, str]]:
    text = path.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in text if not line.startswith("#")))


def preamble_of(path: Path) -> dict[str, str]:
    text = path.read_text(encoding="utf-8")
    lines = text[: text.index(csv_header())].splitlines()
    return dict(line.removeprefix("# ").split("=", 1) for line in lines)


def test_a_run_is_recorded_and_its_answer_stays_the_same(
    cli: Cli, model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.csv"
    common = ("run", "-m", model, *FAST, "--raw", "-p", "hello world", "-n", "8")
    plain = cli(*common)
    result = cli(*common, "--csv", path, "--progress")
    assert result.code == 0
    assert result.out == plain.out
    assert "BMOE" not in plain.err
    rows, progress = rows_of(path), lines_of(result, "BMOE_PROGRESS")
    assert len(rows) == len(progress)
    assert [row["steps"] for row in rows] == ["8"] * len(rows)
    assert [float(row["wall_ms"]) for row in rows] == [line["wall_ms"] for line in progress]
    (load,), (done,) = lines_of(result, "BMOE_LOAD"), lines_of(result, "BMOE_DONE")
    preamble = preamble_of(path)
    assert preamble["arch"] == load["arch"] == "qwen35moe"
    assert preamble["threads"] == "1"
    assert preamble["traced"] == "0"
    assert preamble["spec"] == "off"
    trailer = path.read_text().splitlines()[-1]
    assert trailer.startswith("# summary ")
    assert f"generated_tokens={done['generated_tokens']} " in trailer
    assert done["generated_tokens"] == len(rows)
    assert "generated  " in result.err


def test_progress_does_not_depend_on_the_form_of_the_answer(cli: Cli, model: Path) -> None:
    common = ("run", "-m", model, *FAST, "--raw", "-p", "hello", "-n", "4", "-q", "--progress")
    for form in ("--json", "--json-lines"):
        result = cli(*common, form)
        data = json.loads(result.out.splitlines()[-1] if form == "--json-lines" else result.out)
        (done,) = lines_of(result, "BMOE_DONE")
        assert done["generated_tokens"] == data["generated_tokens"]
        assert all(line.startswith("BMOE_") for line in result.err.splitlines())


def test_a_chat_is_one_recording(cli: Cli, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "chat.csv"
    script = "one\n/set max_tokens 3\n/set temp 0.5\n" + "word " * 600 + "\ntwo\n"
    result = cli("chat", "-m", model, *FAST, "-n", "5", "--csv", path, "--progress", stdin=script)
    assert result.code == 0
    assert "error: " in result.err  # the message that is too long is no turn
    first, second = lines_of(result, "BMOE_DONE")
    assert (first["turn"], first["temp"]) == (0, 0.0)
    assert (second["turn"], second["temp"]) == (1, 0.5)
    rows = rows_of(path)
    assert {(row["turn"], row["steps"]) for row in rows} == {("0", "5"), ("1", "3")}
    assert next(row["step"] for row in rows if row["turn"] == "1") == "0"
    text = path.read_text()
    assert text.count("# turn ") == 2
    assert text.count("# summary ") == 1
    assert "turns=2 " in text.splitlines()[-1]


def test_settings_from_the_environment(cli: Cli, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    result = cli(
        "run", "-m", model, *FAST, "--raw", "-p", "hello", "-n", "2",
        env={"MOESTREAM_CSV": str(path), "MOESTREAM_PROGRESS": "1"},
    )  # fmt: skip
    assert len(rows_of(path)) == len(lines_of(result, "BMOE_PROGRESS"))


def test_without_a_limit_there_are_no_steps(cli: Cli, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    cli(
        "run", "-m", model, "--threads", "1", "--ctx", "24", "--raw", "-p", "hello", "-n", "-1",
        "--csv", path,
    )  # fmt: skip
    assert {row["steps"] for row in rows_of(path)} == {""}


def test_speculation_is_recorded(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    result = cli(
        "run", "--threads", "1", "--ctx", "512", "--raw", "-p", "Tom looked at", "-n", "24",
        "--mtp", "--draft", "2", "--csv", path, "--progress",
    )  # fmt: skip
    assert result.code == 0
    preamble = preamble_of(path)
    assert (preamble["spec"], preamble["spec_draft_max"]) == ("mtp", "2")
    assert float(preamble["draft_dense_mib"]) > 0
    assert preamble["synthetic_acceptance"] == ""
    (done,) = lines_of(result, "BMOE_DONE")
    decoded = [row for row in rows_of(path) if row["phase"] == "decode"]
    assert sum(int(row["mtp_batch"]) for row in decoded) == len(decoded)
    assert sum(int(row["drafted"]) for row in decoded) == done["mtp_drafted"] > 0
    assert "mtp        " in result.err
    assert "effective" in result.err


def test_forced_acceptance_is_labelled(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    result = cli(
        "run", "--threads", "1", "--ctx", "512", "--raw", "-p", "Tom looked at", "-n", "8",
        "--mtp", "--synthetic-acceptance", "0.5", "--csv", path, "--progress",
    )  # fmt: skip
    assert result.err.count("the text is not the model's") == 2  # before and after
    assert preamble_of(path)["synthetic_acceptance"] == "0.5000"
    assert lines_of(result, "BMOE_LOAD")[0]["synthetic_acceptance"] == 0.5
    assert lines_of(result, "BMOE_DONE")[0]["synthetic"] is True


def test_a_traced_run_says_that_it_is_no_benchmark(cli: Cli, model: Path, tmp_path: Path) -> None:
    path, trace = tmp_path / "run.csv", tmp_path / "trace.csv"
    common = ("run", "-m", model, *FAST, "--raw", "-q", "-p", "hello", "-n", "4")
    plain = cli(*common)
    result = cli(*common, "--csv", path, "--route-trace", trace)
    assert result.code == 0
    assert result.out == plain.out
    assert "traced run: not a benchmark" in result.err
    assert preamble_of(path)["traced"] == "1"
    assert trace.read_text().startswith("# route_trace v1\n")
    assert len(trace.read_text().splitlines()) > 20


def test_there_is_nothing_to_trace_in_a_resident_model(
    cli: Cli, model: Path, tmp_path: Path
) -> None:
    result = cli(
        "run", "-m", model, *FAST, "-p", "hello", "--no-moe-stream",
        "--route-trace", tmp_path / "trace.csv", "--csv", tmp_path / "run.csv",
    )  # fmt: skip
    assert result.code == 2
    assert "trace" in result.error
    assert not (tmp_path / "run.csv").exists()


@pytest.fixture
def _no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object, **__: object) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("moestream.cli.turn.Session", load)


@pytest.mark.usefixtures("_no_load")
@pytest.mark.parametrize("option", ["--csv", "--route-trace"])
@pytest.mark.parametrize(
    ("target", "words"),
    [(".", "directory"), ("none/x.csv", "No such file"), ("file/x.csv", "Not a directory")],
)
def test_a_bad_path_is_refused_before_the_model_is_loaded(
    cli: Cli, tmp_path: Path, option: str, target: str, words: str
) -> None:
    (tmp_path / "file").write_text("x")
    result = cli("run", "-p", "hi", option, tmp_path / target)
    assert result.code == 2
    assert words in result.error


@pytest.mark.parametrize("option", ["--csv", "--route-trace"])
def test_no_shard_of_the_model_is_overwritten(
    cli: Cli, tiny: ModelMaker, tmp_path: Path, option: str
) -> None:
    first = tiny("qwen3moe", split=2)
    shards = sorted(first.parent.glob(first.name.replace("00001-of", "*-of")))
    assert len(shards) == 2
    before = [shard.read_bytes() for shard in shards]
    for shard in shards:
        link = tmp_path / shard.name
        link.symlink_to(shard)
        for path in (shard, link):
            result = cli("run", "-m", first, *FAST, "-p", "hi", "-n", "2", option, path)
            assert result.code == 2
            assert "the model itself" in result.error
    assert [shard.read_bytes() for shard in shards] == before


def test_one_file_for_two_things_is_refused(cli: Cli, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    result = cli("run", "-m", model, "-p", "hi", "--csv", path, "--route-trace", path)
    assert result.code == 2
    assert "a file each" in result.error
    assert not path.exists()


def test_a_model_that_does_not_load_leaves_older_recordings_alone(
    cli: Cli, unsupported: Path, tmp_path: Path
) -> None:
    older, newer = tmp_path / "older.csv", tmp_path / "newer.csv"
    older.write_text("precious\n")
    for path in (older, newer):
        result = cli("run", "-m", unsupported, "-p", "hi", "--moe-stream", "--csv", path)
        assert result.code == 1
    assert older.read_text() == "precious\n"
    assert not newer.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_does_not_end_the_answer(cli: Cli, model: Path) -> None:
    common = ("run", "-m", model, *FAST, "--raw", "-p", "hello", "-n", "6")
    plain = cli(*common)
    result = cli(*common, "--csv", "/dev/full")
    assert result.code == 0
    assert result.out == plain.out
    assert result.err.count("warning: the recording to /dev/full") == 1


def test_a_prompt_that_is_refused_leaves_a_recording_without_turns(
    cli: Cli, model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.csv"
    result = cli(
        "run", "-m", model, "--threads", "1", "--ctx", "64", "--raw", "-p", "word " * 200,
        "--csv", path, "--progress",
    )  # fmt: skip
    assert result.code == 1
    assert not rows_of(path)
    assert "turns=0 " in path.read_text().splitlines()[-1]
    assert not lines_of(result, "BMOE_DONE")


def _wait_for_rows(path: Path, process: subprocess.Popen[bytes]) -> None:
    while not (path.exists() and path.read_text().count("\n") > len(csv_header().split(",")) + 40):
        assert process.poll() is None
        time.sleep(0.02)


@posix
def test_a_killed_run_leaves_a_file_that_can_be_read(endless: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    with subprocess.Popen(
        command("run", "-m", endless, *ENDLESS, "--csv", path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        _wait_for_rows(path, process)
        process.kill()
        process.wait(timeout=60)
    text = path.read_text()
    assert text.endswith("\n")
    assert "# summary" not in text
    rows = rows_of(path)
    assert [int(row["step"]) for row in rows] == list(range(len(rows)))
    assert len(rows) > 10
    assert all(None not in row.values() for row in rows)


@posix
def test_an_interrupted_run_ends_its_recording(endless: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    with subprocess.Popen(
        command("run", "-m", endless, *ENDLESS, "--csv", path, "--progress"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        while b"BMOE_PROGRESS" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        err = process.stderr.read()
        process.wait(timeout=60)
    assert process.returncode == 130
    (done,) = (
        json.loads(line.removeprefix(b"BMOE_DONE"))
        for line in err.splitlines()
        if line.startswith(b"BMOE_DONE")
    )
    assert done["finish_reason"] == "cancelled"
    assert done["generated_tokens"] == len(rows_of(path))
    assert "finish_reason=cancelled" in path.read_text().splitlines()[-1]
