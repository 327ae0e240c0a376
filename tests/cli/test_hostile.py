"""Files that are not what they claim, through every verb that takes a model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.conftest import ModelMaker

VERBS = {
    "inspect": ["inspect"],
    "plan": ["plan", "--measure-s", "0"],
    "run": ["run", "-p", "hi", "-m"],
    "chat": ["chat", "-m"],
}


@pytest.fixture(params=list(VERBS))
def words(request: pytest.FixtureRequest) -> list[str]:
    return VERBS[request.param]


def hostile_files(good: bytes) -> dict[str, bytes]:
    return {
        "empty": b"",
        "text": b"this is not a model\n",
        "other-magic": b"GGML" + good[4:],
        "huge-version": good[:4] + b"\xff\xff\xff\x7f" + good[8:],
        "lying-tensor-count": good[:8] + b"\xff" * 8 + good[16:],
        "lying-key-count": good[:16] + b"\xff" * 8 + good[24:],
        "cut-in-header": good[:20],
        "cut-in-metadata": good[:2000],
        "cut-in-weights": good[: len(good) // 2],
    }


@pytest.mark.parametrize("kind", list(hostile_files(b"")))
def test_one_clear_line(
    cli: Cli, tiny: ModelMaker, tmp_path: Path, words: list[str], kind: str
) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(hostile_files(tiny("qwen3moe").read_bytes())[kind])
    result = cli(*words, path)
    assert result.code == 1
    assert "bad.gguf" in result.error
    assert result.out == ""


def test_missing_file(cli: Cli, words: list[str]) -> None:
    result = cli(*words, "./nowhere.gguf")
    assert result.code == 1
    assert "nowhere.gguf" in result.error


def test_directory(cli: Cli, tmp_path: Path, words: list[str]) -> None:
    result = cli(*words, tmp_path)
    assert result.code == 1
    assert "directory" in result.error


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_named_pipe_does_not_hang(cli: Cli, tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "pipe.gguf"
    os.mkfifo(path)
    assert cli(*words, path).code == 1


def test_missing_shard(cli: Cli, tiny: ModelMaker, tmp_path: Path, words: list[str]) -> None:
    first = tiny("qwen3moe", split=3)
    (tmp_path / first.name).write_bytes(first.read_bytes())
    result = cli(*words, tmp_path / first.name)
    assert result.code == 1
    assert "missing" in result.error


def test_control_characters_never_reach_the_error_line(cli: Cli, words: list[str]) -> None:
    result = cli(*words, "./\x1b[31mred\x07.gguf")
    assert result.code == 1
    assert "\x1b" not in result.err
    assert "\x07" not in result.err
