"""Workloads that ship, and those of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from moestream import Session
from moestream.bench.workloads import BUILT_IN, load_workloads
from moestream.errors import ConfigError


def test_the_built_in_ones() -> None:
    prose, copy = load_workloads(BUILT_IN)
    assert (prose.name, copy.name) == BUILT_IN
    assert "```" not in prose.prompt
    listing, repeated = copy.prompt.split("```python\n")[1:]
    assert repeated.splitlines()[0] == listing.splitlines()[0]
    assert prose.digest != copy.digest
    for workload in (prose, copy):
        assert 400 < len(workload.prompt) < 2000
        assert not workload.prompt.endswith("\n\n")


def test_they_fit_a_small_context() -> None:
    with Session() as session:
        for workload in load_workloads(BUILT_IN):
            assert len(session.tokenize(workload.prompt)) < 700


def test_own_ones(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Ann,\n", encoding="utf-8")
    _, letter = load_workloads(["prose", str(path)])
    assert (letter.name, letter.prompt) == ("letter", "Dear Ann,\n")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "empty"), (b" \n", "empty"), (b"\xff", "UTF-8"), (b"x" * (8 << 20 | 1), "longer")],
)
def test_files_that_are_no_prompt(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "prompt.txt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        load_workloads([str(path)])


@pytest.mark.parametrize("name", ["proes", "", "a\0b", "."])
def test_what_is_neither_built_in_nor_a_file(name: str) -> None:
    with pytest.raises(ConfigError, match="prose or copy"):
        load_workloads([name])


def test_names_are_unique_and_there_is_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there twice"):
        load_workloads(["prose", "prose"])
    with pytest.raises(ConfigError, match="no workload"):
        load_workloads([])
