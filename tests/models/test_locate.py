"""From what a user calls a model to its file; the cache without a network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moestream.errors import DownloadError, ModelError
from moestream.models.locate import locate_model
from moestream.models.pull import PullPlan, _check_space, cached_references, find_cached
from moestream.models.reference import Reference

OLD, NEW = "1" * 40, "2" * 40


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("moestream.models.pull._cache_dir", lambda: tmp_path)
    return tmp_path


def put(cache: Path, commit: str, *names: str, main: bool = False) -> Path:
    """A snapshot as the hub's client lays it out."""
    folder = cache / "models--a--b"
    snapshot = folder / "snapshots" / commit
    for name in names:
        path = snapshot / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"GGUF")
    if main:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / "main").write_text(commit)
    return snapshot


def test_paths_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"GGUF")
    assert locate_model("a/b") == Path("a/b")


def test_what_is_nothing() -> None:
    with pytest.raises(ModelError, match="not a file, not moestream-nano"):
        locate_model("nothing like it")


def test_what_was_not_pulled(cache: Path) -> None:
    with pytest.raises(ModelError, match=r"moestream pull a/b:Q4_0"):
        locate_model("a/b:Q4_0")


def test_main_comes_first(cache: Path) -> None:
    old = put(cache, OLD, "m-Q4_0.gguf", main=True)
    new = put(cache, NEW, "m-Q4_0.gguf", "m-Q8_0.gguf")
    os.utime(old, (1, 1))
    assert locate_model("a/b:q4_0") == old / "m-Q4_0.gguf"
    # What main does not have is found in what was pulled besides.
    assert locate_model("a/b:Q8_0") == new / "m-Q8_0.gguf"


def test_only_whole_models_count(cache: Path) -> None:
    put(cache, OLD, "m-Q4_0-00001-of-00002.gguf", main=True)
    assert find_cached(Reference("a/b", "Q4_0")) is None
    assert cached_references() == []
    put(cache, OLD, "m-Q4_0-00002-of-00002.gguf")
    assert cached_references() == ["a/b:Q4_0"]


def test_dangling_links_are_no_model(cache: Path) -> None:
    snapshot = put(cache, OLD, "README.md", main=True)
    (snapshot / "m-Q4_0.gguf").symlink_to(cache / "gone")
    assert find_cached(Reference("a/b")) is None


def test_ambiguous_without_a_name(cache: Path) -> None:
    put(cache, OLD, "m-Q4_0.gguf", "m-Q8_0.gguf", main=True)
    with pytest.raises(DownloadError, match="several models"):
        find_cached(Reference("a/b"))


def test_too_little_space(tmp_path: Path) -> None:
    plan = PullPlan(
        reference=Reference("a/b", "Q4_0"),
        commit=OLD,
        label="Q4_0",
        files=(),
        cached=frozenset(),
        cache_dir=tmp_path / "not" / "yet",
        bytes_total=2**60,
        bytes_cached=0,
        bytes_partial=0,
    )
    with pytest.raises(DownloadError, match="HF_HOME"):
        _check_space(plan)
