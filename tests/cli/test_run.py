"""``moestream run`` on real (tiny) models."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from moestream import EngineConfig, Session
from tests.cli.conftest import Cli
from tests.conftest import ModelMaker

FAST = ("--threads", "1", "--ctx", "512")


@pytest.fixture
def model(tiny: ModelMaker) -> Path:
    return tiny("qwen35moe")


def answer(model: Path, prompt: str, tokens: int) -> str:
    config = EngineConfig(model=model, threads=1, n_ctx=512)
    with Session(config) as session:
        return session.generate(prompt, max_tokens=tokens).text()


def test_text_to_stdout_and_everything_else_to_stderr(cli: Cli, model: Path) -> None:
    result = cli("run", "-m", model, *FAST, "--raw", "-p", "hello world", "-n", "12")
    assert result.code == 0
    assert result.out.rstrip("\n") == answer(model, "hello world", 12).rstrip("\n")
    for topic in ("prompt", "generated", "per token", "experts", "reading", "threads"):
        assert topic in result.err
    assert "hit rate" in result.err
    assert "MiB/token" in result.err
    assert "\x1b" not in result.err


def test_quiet_says_nothing_else(cli: Cli, model: Path) -> None:
    result = cli("run", "-m", model, *FAST, "--raw", "-q", "-p", "hello", "-n", "4")
    assert result.code == 0
    assert result.err == ""


def test_prompt_from_file_stdin_and_flag_agree(cli: Cli, model: Path, tmp_path: Path) -> None:
    prompt = "the same words, ä\n"
    file = tmp_path / "prompt.txt"
    file.write_text(prompt, encoding="utf-8")
    common = ("run", "-m", model, *FAST, "--raw", "-n", "6")
    outputs = {
        cli(*common, "-p", prompt).out,
        cli(*common, "-f", file).out,
        cli(*common, stdin=prompt).out,
        cli(*common, "-p", "-", stdin=prompt).out,
        cli(*common, "-f", "-", stdin=prompt).out,
        cli(*common, env={"MOESTREAM_PROMPT": prompt}).out,
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00"])
def test_prompts_that_are_none(cli: Cli, model: Path, data: bytes) -> None:
    result = cli("run", "-m", model, *FAST, stdin=data)
    assert result.code == 2
    assert "stdin" in result.error


def test_missing_prompt_file(cli: Cli, model: Path) -> None:
    result = cli("run", "-m", model, *FAST, "-f", "/nowhere/prompt.txt")
    assert result.code == 1
    assert "/nowhere/prompt.txt" in result.error


def test_json_is_one_object(cli: Cli, model: Path) -> None:
    result = cli("run", "-m", model, *FAST, "-p", "hello", "-n", "5", "--json", "--moe-stream")
    assert result.code == 0
    data = result.json
    assert data["generated_tokens"] <= 5
    assert data["finish_reason"] in ("stop", "length")
    assert isinstance(data["text"], str)
    assert data["load"]["moe_stream"] is True
    assert data["load"]["threads"] == 1
    assert data["load"]["load_expert_bytes"] == 0


def test_json_lines(cli: Cli, model: Path) -> None:
    result = cli("run", "-m", model, *FAST, "--raw", "-p", "hello", "-n", "5", "--json-lines")
    records: list[dict[str, Any]] = [json.loads(line) for line in result.out.splitlines()]
    *tokens, summary = records
    assert {token["type"] for token in tokens} == {"token"}
    assert summary["type"] == "summary"
    assert summary["generated_tokens"] == len(tokens)
    assert [token["index"] for token in tokens] == list(range(len(tokens)))
    assert tokens[-1]["finish_reason"] == summary["finish_reason"]
    text = "".join(token["text"] for token in tokens)
    assert text == answer(model, "hello", 5)


def test_the_chat_template_is_used_unless_raw(cli: Cli, model: Path) -> None:
    common = ("run", "-m", model, *FAST, "-p", "hello", "-n", "3", "--json")
    templated = cli(*common).json["prompt_tokens"]
    with_system = cli(*common, "--system", "be kind").json["prompt_tokens"]
    raw = cli(*common, "--raw").json["prompt_tokens"]
    assert raw < templated < with_system


def test_own_chat_template(cli: Cli, model: Path, tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages[0].content }}")
    common = ("run", "-m", model, *FAST, "-p", "hello", "-n", "3", "--json")
    assert (
        cli(*common, "--chat-template", template).json["prompt_tokens"]
        == cli(*common, "--raw").json["prompt_tokens"]
    )
    template.write_text("{{ messages[")
    broken = cli(*common, "--chat-template", template)
    assert broken.code == 1
    assert "Jinja" in broken.error


def test_stop_and_sampling_flags_reach_the_engine(cli: Cli, model: Path) -> None:
    common = ("run", "-m", model, *FAST, "--raw", "-q", "-p", "hello", "-n", "40")
    warm = (*common, "--temp", "1.5", "--top-k", "0", "--min-p", "0", "--top-p", "1")
    first = cli(*warm, "--seed", "1").out
    assert cli(*warm, "--seed", "1").out == first
    assert cli(*warm, "--seed", "2").out != first
    stop = first[5:8]
    assert cli(*warm, "--seed", "1", "--stop", stop).out.rstrip("\n") == first[: first.index(stop)]


def test_streamed_and_resident_say_the_same(cli: Cli, model: Path) -> None:
    common = ("run", "-m", model, *FAST, "--raw", "-q", "-p", "hello world", "-n", "16")
    resident = cli(*common, "--no-moe-stream").out
    for flags in (
        ("--moe-stream", "--cache-mb", "0"),
        ("--moe-stream", "--cache-mb", "1", "--no-overlap"),
        ("--moe-stream", "--no-odirect", "--io-threads", "4"),
        ("--moe-stream", "--dense-weights", "mmap"),
        ("--moe-stream", "--prefetch", "1"),
    ):
        assert cli(*common, *flags).out == resident


def test_a_model_that_cannot_be_streamed_is_refused(cli: Cli, unsupported: Path) -> None:
    result = cli("run", "-m", unsupported, "-p", "hi", "--moe-stream")
    assert result.code == 1
    assert "qwen3mox" in result.error
    assert "qwen35moe" in result.error


def test_a_prompt_that_is_too_long(cli: Cli, model: Path) -> None:
    result = cli("run", "-m", model, "--threads", "1", "--ctx", "64", "--raw", "-p", "word " * 200)
    assert result.code == 1
    assert "context" in result.error


def test_settings_from_the_environment(cli: Cli, model: Path) -> None:
    result = cli(
        "run", "-p", "hello", "--json",
        env={
            "MOESTREAM_MODEL": str(model),
            "MOESTREAM_THREADS": "1",
            "MOESTREAM_MAX_TOKENS": "3",
            "MOESTREAM_OVERLAP": "0",
            "MOESTREAM_CACHE_MB": "2",
        },
    )  # fmt: skip
    load = result.json["load"]
    assert load["overlap"] is False
    assert load["cache_auto"] is False
    assert result.json["generated_tokens"] <= 3


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "moestream", *map(str, arguments)]


ENDLESS = ("--raw", "-p", "hello", "-n", "-1", "--ctx", "8192", "--threads", "1")

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and pipes")


@posix
def test_interrupt_ends_the_turn_with_its_summary(endless: Path) -> None:
    with subprocess.Popen(
        command("run", "-m", endless, *ENDLESS), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"ended by interrupt" in err
    assert b"Traceback" not in err


@posix
@pytest.mark.parametrize("delay", [0.3, 0.6, 0.9])
def test_interrupt_while_starting(endless: Path, delay: float) -> None:
    with subprocess.Popen(
        command("run", "-m", endless, *ENDLESS), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=60)
    # Before the command line is there, Python itself is what is interrupted.
    assert process.returncode in (130, -signal.SIGINT)
    if process.returncode == 130:
        assert b"Traceback" not in err


@posix
def test_a_reader_that_leaves_is_no_error(endless: Path) -> None:
    with subprocess.Popen(
        command("run", "-m", endless, *ENDLESS), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=60)
    assert process.returncode == 1
    assert b"error" not in err
    assert b"Traceback" not in err


def test_unexpected_exceptions_are_one_line(
    cli: Cli, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("moestream.cli.turn.Session", explode)
    result = cli("run", "-m", model, "-p", "hi")
    assert result.code == 1
    assert "boom" in result.error
    assert "MOESTREAM_DEBUG=1" in result.error
    shown = cli("run", "-m", model, "-p", "hi", env={"MOESTREAM_DEBUG": "1"})
    assert "Traceback" in shown.err
    assert os.environ.get("MOESTREAM_DEBUG") is None
