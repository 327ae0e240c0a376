"""Which files a reference means."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moestream.errors import DownloadError
from moestream.models.reference import (
    Reference,
    RepoFile,
    candidates,
    choose,
    parse_reference,
)

NAMES = [
    "README.md",
    "model-Q4_K_M.gguf",
    "model-UD-Q4_K_XL.gguf",
    "model-Q8_0-00001-of-00002.gguf",
    "model-Q8_0-00002-of-00002.gguf",
    "BF16/model-BF16-00001-of-00003.gguf",
    "BF16/model-BF16-00003-of-00003.gguf",
    "model-MXFP4_MOE.gguf",
    "model-IQ2_XXS.gguf",
    "mmproj-F16.gguf",
    "imatrix.gguf",
    "model.imatrix.gguf",
]


def found() -> list[str]:
    return [candidate.label for candidate in candidates(RepoFile(name, 1) for name in NAMES)]


def pick(quant: str | None, names: list[str] = NAMES) -> list[str]:
    files = candidates(RepoFile(name, 10) for name in names)
    return [file.name for file in choose(files, Reference("a/b", quant)).files]


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("a/b", Reference("a/b")),
        ("a/b:Q4_K_M", Reference("a/b", "Q4_K_M")),
        ("A.b-c/D_e.f:sub/file.gguf", Reference("A.b-c/D_e.f", "sub/file.gguf")),
        ("model.gguf", None),
        ("a/model.gguf", None),
        ("./a/b", None),
        ("/a/b", None),
        ("../b", None),
        ("a/..", None),
        ("a/b/c", None),
        ("a/b:", None),
        ("a b/c", None),
        ("~/b", None),
        ("", None),
    ],
)
def test_parsing(text: str, reference: Reference | None) -> None:
    assert parse_reference(text) == reference


def test_labels() -> None:
    assert sorted(found()) == ["BF16", "IQ2_XXS", "MXFP4_MOE", "Q4_K_M", "Q8_0", "UD-Q4_K_XL"]


@pytest.mark.parametrize("quant", ["Q4_K_M", "q4_k_m", "model-Q4_K_M", "model-Q4_K_M.gguf"])
def test_one_file(quant: str) -> None:
    assert pick(quant) == ["model-Q4_K_M.gguf"]


def test_shards_in_order() -> None:
    shards = ["m-Q8_0-00002-of-00002.gguf", "m-Q8_0-00001-of-00002.gguf"]
    assert pick("q8_0", shards) == sorted(shards)
    assert pick(None, shards) == sorted(shards)


def test_prefix_may_be_left_out() -> None:
    assert pick("Q4_K_XL") == ["model-UD-Q4_K_XL.gguf"]


def test_missing_shard() -> None:
    with pytest.raises(DownloadError, match="shard 2 of 3 is missing"):
        pick("BF16")


def test_ambiguous() -> None:
    names = ["small-Q4_0.gguf", "large-Q4_0.gguf"]
    with pytest.raises(DownloadError, match=r"large-Q4_0.*small-Q4_0"):
        pick("Q4_0", names)
    assert pick("small-Q4_0", names) == ["small-Q4_0.gguf"]
    with pytest.raises(DownloadError, match="several models"):
        pick(None, names)


def test_two_splits_of_one_name() -> None:
    names = [f"m-Q4_0-{n:05d}-of-{count:05d}.gguf" for count in (2, 3) for n in range(1, count + 1)]
    labels = [candidate.label for candidate in candidates(RepoFile(name, 1) for name in names)]
    assert len(set(labels)) == 2
    assert all(not c.missing for c in candidates(RepoFile(name, 1) for name in names))


def test_nothing_there() -> None:
    with pytest.raises(DownloadError, match="no GGUF"):
        pick("Q4_0", ["README.md", "mmproj-F16.gguf"])


@settings(deadline=None)
@given(st.lists(st.text(max_size=40), max_size=8), st.text(max_size=12))
def test_any_listing_gives_a_choice_or_one_error(names: list[str], quant: str) -> None:
    try:
        chosen = pick(quant, names)
    except DownloadError:
        return
    assert set(chosen) <= set(names)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_parses_or_not(text: str) -> None:
    reference = parse_reference(text)
    if reference is not None:
        assert str(reference) == text
