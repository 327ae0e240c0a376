"""Files that are wrong, each in its own way: always one GGUFError that says how."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moestream.errors import GGUFError, MoestreamError
from moestream.gguf import check_model, read_model
from moestream.streaming.layout import expert_layout
from tests.conftest import ModelMaker
from tests.gguf import raw
from tests.gguf.raw import Raw

HUGE = 2**63 - 1

WRONG: dict[str, tuple[Raw | bytes, str]] = {
    "empty": (b"", "empty"),
    "one byte": (b"G", "does not begin"),
    "magic only": (b"GGUF", "truncated"),
    "wrong magic": (Raw(magic=b"GGML"), "does not begin"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS pointer"),
    "web page": (b"<!DOCTYPE html><html></html>", "web page"),
    "zip": (b"PK\x03\x04" + bytes(100), "zip"),
    "version 1": (Raw(version=1), "version 1"),
    "version 0": (Raw(version=0), "version 0"),
    "version 4": (Raw(version=4), "version 4"),
    "big endian": (Raw(version=int.from_bytes(b"\0\0\0\3", "little")), "big endian"),
    "too many tensors": (Raw(n_tensors=HUGE), "tensors, more than"),
    "all tensors": (Raw(n_tensors=2**64 - 1), "tensors, more than"),
    "one tensor too many": (Raw(n_tensors=2), "truncated|impossible|more than"),
    "too many keys": (Raw(n_pairs=2**40), "keys, more than"),
    "one key too many": (Raw(n_pairs=2), "impossible name"),
    "no tensors": (Raw(tensors=[]), "no tensors"),
    "empty key": (Raw(pairs=[raw.u32("", 1)]), "empty name"),
    "key twice": (Raw(pairs=[raw.u32("k", 1), raw.u32("k", 1)]), "'k' is there twice"),
    "key not text": (Raw(pairs=[raw.pair(b"\xff", 4, bytes(4))]), "UTF-8"),
    "value not text": (Raw(pairs=[raw.string("k", b"\xc3\x28")]), "'k' is not valid UTF-8"),
    "long key": (Raw(pairs=[struct.pack("<Q", HUGE) + b"k"]), "text of"),
    "long text": (Raw(pairs=[raw.pair("k", 8, struct.pack("<Q", HUGE))]), "text of"),
    "unknown value type": (Raw(pairs=[raw.pair("k", 13, bytes(8))]), "unknown type 13"),
    "unknown array type": (Raw(pairs=[raw.array("k", 99, 1, bytes(8))]), "unknown type 99"),
    "nested array": (Raw(pairs=[raw.array("k", 9, 1, bytes(12))]), "array of arrays"),
    "long array": (Raw(pairs=[raw.array("k", 4, HUGE, b"")]), "elements, more than"),
    "long text array": (Raw(pairs=[raw.array("k", 8, HUGE, b"")]), "elements, more than"),
    "array past the end": (Raw(pairs=[raw.array("k", 4, 1000, b"")]), "elements, more than"),
    "text in array past the end": (
        Raw(pairs=[raw.array("k", 8, 2, raw.text("a") + struct.pack("<Q", HUGE))]),
        "truncated",
    ),
    "alignment 0": (Raw(pairs=[raw.u32("general.alignment", 0)]), "power of two"),
    "alignment 48": (Raw(pairs=[raw.u32("general.alignment", 48)]), "power of two"),
    "alignment of 16 bits": (Raw(pairs=[raw.u16("general.alignment", 32)]), "32-bit"),
    "alignment as text": (Raw(pairs=[raw.string("general.alignment", "32")]), "32-bit"),
    "alignment as list": (Raw(pairs=[raw.array("general.alignment", 4, 1, bytes(4))]), "32-bit"),
    "alignment beyond the file": (Raw(pairs=[raw.u32("general.alignment", 2**31)]), "truncated"),
    "no name": (Raw(tensors=[raw.tensor("")]), "impossible name"),
    "zero in name": (Raw(tensors=[raw.tensor("a\0b")]), "impossible name"),
    "long name": (Raw(tensors=[raw.tensor("n" * 64)]), "text of 64 bytes"),
    "name not text": (Raw(tensors=[raw.tensor(b"\xff")]), "UTF-8"),
    "tensor twice": (
        Raw(tensors=[raw.tensor("a"), raw.tensor("a", offset=128)], data=bytes(256)),
        "'a' is there twice",
    ),
    "no dimensions": (Raw(tensors=[raw.tensor("a", (), n_dims=0)]), "0 dimensions"),
    "five dimensions": (Raw(tensors=[raw.tensor("a", (1, 1, 1, 1, 1))]), "5 dimensions"),
    "billions of dimensions": (Raw(tensors=[raw.tensor("a", n_dims=2**32 - 1)]), "dimensions"),
    "dimension of zero": (Raw(tensors=[raw.tensor("a", (32, 0))]), "impossible shape"),
    "negative dimension": (Raw(tensors=[raw.tensor("a", (2**64 - 1,))]), "impossible shape"),
    "product too large": (Raw(tensors=[raw.tensor("a", (2**32, 2**32))]), "impossible shape"),
    "size too large": (Raw(tensors=[raw.tensor("a", (2**62,))]), "truncated"),
    "unknown type": (Raw(tensors=[raw.tensor("a", kind=99)]), "of type 99"),
    "removed type": (Raw(tensors=[raw.tensor("a", kind=4)]), "of type 4"),
    "row not of blocks": (Raw(tensors=[raw.tensor("a", (31, 2), kind=8)]), "not a multiple"),
    "misaligned": (Raw(tensors=[raw.tensor("a", offset=8)]), "not a multiple of the alignment"),
    "offset past the end": (Raw(tensors=[raw.tensor("a", offset=2**40)]), "leaves a gap"),
    "offset wraps": (Raw(tensors=[raw.tensor("a", offset=2**64 - 32)]), "leaves a gap"),
    "overlap": (
        Raw(tensors=[raw.tensor("a"), raw.tensor("b", offset=96)], data=bytes(256)),
        "'b' overlaps",
    ),
    "gap": (
        Raw(tensors=[raw.tensor("a"), raw.tensor("b", offset=160)], data=bytes(512)),
        "'b' leaves a gap",
    ),
    "data truncated": (Raw(data=bytes(127)), "truncated"),
    "architecture missing": (Raw(pairs=[]), "general.architecture"),
    "architecture a number": (Raw(pairs=[raw.u32("general.architecture", 1)]), "architecture"),
    "architecture unprintable": (
        Raw(pairs=[raw.string("general.architecture", "\x1b[31m")]),
        r"is '\\x1b\[31m'",
    ),
    "named like a shard, but is none": (Raw(), "lacks 'split.count'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(tmp_path: Path, case: str) -> None:
    content, message = WRONG[case]
    name = "m-00001-of-00002.gguf" if "shard" in case else "m.gguf"
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.build())
    with pytest.raises(GGUFError, match=message) as caught:
        read_model(path).architecture  # noqa: B018
    assert name in str(caught.value)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    content = Raw(
        pairs=[raw.string("general.architecture", "x"), raw.array("t", 8, 2, raw.text("ab") * 2)],
        tensors=[raw.tensor("a"), raw.tensor("b", (64, 2), kind=8, offset=128)],
        data=bytes(128 + 136),
    ).build()
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    read_model(path)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(GGUFError):
            read_model(path)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(GGUFError, match="No such file"):
        read_model(tmp_path / "nothing.gguf")
    with pytest.raises(GGUFError, match="cannot open"):
        read_model("a\0b.gguf")
    with pytest.raises(GGUFError, match="cannot open"):
        read_model(tmp_path / ("n" * 5000))


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(GGUFError, match="directory"):
        read_model(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no FIFOs")
def test_things_that_are_not_files_do_not_hang(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.gguf"
    os.mkfifo(fifo)
    errors: list[GGUFError] = []

    def read() -> None:
        for path in (fifo, Path("/dev/zero"), Path("/dev/tty")):
            try:
                read_model(path)
            except GGUFError as error:
                errors.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert len(errors) == 3


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
def test_unreadable(tmp_path: Path) -> None:
    path = Raw().write(tmp_path / "m.gguf")
    path.chmod(0)
    with pytest.raises(GGUFError, match="Permission denied"):
        read_model(path)


def test_names_that_are_not_text_can_be_printed(tmp_path: Path) -> None:
    for name in (b"\xff.gguf", b"a\nb\x1b[0m.gguf"):
        path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        with pytest.raises(GGUFError) as caught:
            read_model(path)
        assert str(caught.value).isprintable()
        str(caught.value).encode("utf-8")


def _mutate(content: bytearray, edits: list[tuple[int, int, int]]) -> None:
    for where, how, value in edits:
        position = where % len(content)
        if how == 0:
            content[position] = value & 0xFF
        elif how == 1:
            struct.pack_into("<Q", content, min(position, len(content) - 8), value)
        elif how == 2:
            del content[position : position + value % 64]
        else:
            content[position:position] = bytes(value % 64)


@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, 12_000),  # nearly all of a fixture's header
            st.integers(0, 3),
            st.one_of(st.integers(0, 255), st.integers(0, 2**64 - 1)),
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_mutation_raises_anything_else(
    tiny: ModelMaker, tmp_path: Path, edits: list[tuple[int, int, int]]
) -> None:
    content = bytearray(tiny("qwen35moe", layers=2, n_embd=64, n_ff=32, n_expert=4).read_bytes())
    _mutate(content, edits)
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with contextlib.suppress(MoestreamError):
        model = read_model(path)
        check_model(model)
        expert_layout(model)
