"""The command line in this process: what it prints and how it exits."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from moestream.cli import main
from moestream.gguf import read_model
from tests.conftest import ModelMaker


@dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The error line; there is exactly one, and nothing that looks like a traceback."""
        assert "Traceback" not in self.err
        lines = [line for line in self.err.splitlines() if line.startswith("moestream: error: ")]
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("moestream: error: ")


Cli = Callable[..., Result]

#: The last entries of the fixtures' vocabulary end a text or a turn.
SPECIAL_TOKENS = 3


class _Stdin(io.TextIOWrapper):
    """Standard input that is not a terminal."""


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """``cli("run", "-p", "hi", stdin="...", env={...})`` in a clean environment."""
    for name in list(os.environ):
        if name.startswith("MOESTREAM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")

    def call(
        *arguments: object, stdin: str | bytes = b"", env: dict[str, str] | None = None
    ) -> Result:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdin", _Stdin(io.BytesIO(data), encoding="utf-8"))
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            capsys.readouterr()
            code = main([str(argument) for argument in arguments])
            captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def unsupported(tiny: ModelMaker, tmp_path: Path) -> Path:
    """A well-formed file of an architecture that has no recipe."""
    path = tmp_path / "unsupported.gguf"
    path.write_bytes(tiny("qwen3moe").read_bytes().replace(b"qwen3moe", b"qwen3mox"))
    return path


@pytest.fixture
def headless(tiny: ModelMaker, tmp_path: Path) -> Path:
    """A model that claims a prediction head and does not have its tensors."""
    data = tiny("qwen35moe").read_bytes()
    path = tmp_path / "headless.gguf"
    path.write_bytes(data.replace(b"nextn.eh_proj", b"nextn.ex_proj"))
    return path


@pytest.fixture
def endless(tiny: ModelMaker, tmp_path: Path) -> Path:
    """A model that never ends an answer: the logits of its special tokens are zero."""
    source = tiny("qwen3moe")
    output = read_model(source).tensors["output.weight"]
    data = bytearray(source.read_bytes())
    row = output.nbytes // output.shape[1]
    start = output.offset + output.nbytes - SPECIAL_TOKENS * row
    data[start : start + SPECIAL_TOKENS * row] = bytes(SPECIAL_TOKENS * row)
    path = tmp_path / "endless.gguf"
    path.write_bytes(data)
    return path
