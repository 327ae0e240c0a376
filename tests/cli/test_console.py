"""What reaches a terminal, a pipe, and a program."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moestream.cli.console import printable, progress_bytes, table, write, write_json
from moestream.gguf import GGMLType, TensorSpec, write_model
from tests.cli.conftest import Cli


@settings(deadline=None)
@given(st.text(st.characters()))
def test_printable_text_cannot_drive_a_terminal(text: str) -> None:
    clean = printable(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in clean)
    clean.encode("utf-8")


def test_a_pipe_gets_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    write("a\x1b[31m\r\n")
    assert capsys.readouterr().out == "a\x1b[31m\r\n"


def test_a_terminal_gets_it_harmless(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    write("a\x1b[31m\a\n")
    table([("[red]name[/red]", "x\x1b[2J")], header=("a", "b"))
    out = capsys.readouterr().out
    assert "\x1b[31m" not in out
    assert "\x1b[2J" not in out
    assert "[red]name[/red]" in out


def test_plain_tables_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    table([("a", "1"), ("long", "1000")], header=("name", "n"), right=(1,))
    assert capsys.readouterr().out == "name     n\na        1\nlong  1000\n"
    table([])
    assert capsys.readouterr().out == ""


def test_json_is_one_line_where_it_must_be(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"a": "ä\n"}, compact=True)
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"a": "ä\n"}


def test_progress_without_a_terminal_is_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bytes("file", 1000) as progress:
        for done in range(0, 1001, 10):
            progress(done)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[-1] == "file: 100 %"


def test_names_in_a_file_are_data(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "evil.gguf"
    write_model(
        path,
        {
            "general.architecture": "llama",
            "general.name": "[red]x[/red]\x1b]0;title\x07\n\nmoestream: error: no",
        },
        [TensorSpec("t.weight", GGMLType.F32, (8, 8), lambda: [bytes(256)])],
    )
    result = cli("inspect", path)
    assert result.code == 0
    assert "\x1b" not in result.out
    assert "[red]x[/red]" in result.out
    assert not any(line.startswith("moestream: error") for line in result.out.splitlines())
