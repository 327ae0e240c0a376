"""Parsing the header of one GGUF file. Whatever the bytes are, the only error is GGUFError.

The file is read with plain buffered reads and not mapped: a mapped file that is truncated while
it is parsed kills the process. Nothing is allocated because a count in the file says so; counts
are first compared with the bytes that are left.
"""

from __future__ import annotations

import math
import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moestream.errors import GGUFError
from moestream.gguf.model import NumberArray, StringArray, TensorInfo, shown
from moestream.gguf.types import (
    DEFAULT_ALIGNMENT,
    GGUF_MAGIC,
    GGUF_VERSION,
    MAX_DIMS,
    MAX_TENSOR_NAME,
    GGMLType,
    MetaValue,
    ValueType,
)

__all__ = ["Header", "read_header"]

# Far above what any real model has, far below what would take long or fill memory.
_MAX_HEADER: Final = 128 << 20
_MAX_TENSORS: Final = 200_000
_MAX_KEYS: Final = 65_536
_MAX_KEY_LENGTH: Final = 65_535
_MIN_KEY_BYTES: Final = 8 + 1 + 4 + 1
_MIN_TENSOR_BYTES: Final = 8 + 1 + 4 + 8 + 4 + 8
_FIRST_READ: Final = 1 << 20
_MAX_ELEMENTS: Final = 2**63 - 1

_CODES: Final[dict[ValueType, str]] = {
    ValueType.UINT8: "B",
    ValueType.INT8: "b",
    ValueType.UINT16: "H",
    ValueType.INT16: "h",
    ValueType.UINT32: "I",
    ValueType.INT32: "i",
    ValueType.FLOAT32: "f",
    ValueType.BOOL: "?",
    ValueType.UINT64: "Q",
    ValueType.INT64: "q",
    ValueType.FLOAT64: "d",
}

# What other files begin with, for the person who gave one of them.
_OTHER_FORMATS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"version https://git-lfs", "a Git LFS pointer; fetch the real file with 'git lfs pull'"),
    (b"<!DOCTYPE", "a web page; the download went wrong"),
    (b"<html", "a web page; the download went wrong"),
    (b"PK\x03\x04", "a zip archive or PyTorch checkpoint; convert it to GGUF"),
    (b"lmgg", "a GGML file of 2023; convert it to GGUF"),
    (b"fmgg", "a GGMF file of 2023; convert it to GGUF"),
    (b"tjgg", "a GGJT file of 2023; convert it to GGUF"),
)


@dataclass(frozen=True, slots=True)
class Header:
    """The parsed header of one file. Tensor offsets count from the start of the file."""

    path: Path
    file_size: int
    version: int
    metadata: Mapping[str, MetaValue]
    value_types: Mapping[str, ValueType]
    tensors: tuple[TensorInfo, ...]


def read_header(path: Path, shard: int = 0) -> Header:
    """Parse the header of the file at ``path``; its tensors are marked as of ``shard``.

    Raises:
        GGUFError: for any file that is not a well-formed GGUF, or cannot be read.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for somebody to write to it.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise GGUFError(f"cannot open model file {shown(path)}: {error.strerror}") from error
    except ValueError as error:  # a zero byte in the name
        raise GGUFError(f"cannot open model file {shown(path)}: {error}") from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise GGUFError(f"{shown(path)} is a directory; give the .gguf file inside it")
        if not stat.S_ISREG(status.st_mode):
            raise GGUFError(f"{shown(path)} is not an ordinary file; a model must be one")
        return _Parser(path, descriptor, status.st_size, shard).parse()
    except OSError as error:
        raise GGUFError(f"cannot read model file {shown(path)}: {error.strerror}") from error
    finally:
        os.close(descriptor)


class _Parser:
    """A cursor over the file's beginning, of which it reads as much as it needs."""

    def __init__(self, path: Path, descriptor: int, size: int, shard: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._size = size
        self._shard = shard
        self._data = bytearray()
        self._position = 0
        self._what = "the header"

    def parse(self) -> Header:
        self._check_magic()
        version = self._version()
        n_tensors, n_keys = self._unpack("<QQ")
        self._check_count("tensors", n_tensors, _MAX_TENSORS, _MIN_TENSOR_BYTES)
        self._check_count("metadata keys", n_keys, _MAX_KEYS, _MIN_KEY_BYTES)
        metadata: dict[str, MetaValue] = {}
        types: dict[str, ValueType] = {}
        for index in range(n_keys):
            self._what = f"metadata key {index + 1} of {n_keys}"
            key = self._string(_MAX_KEY_LENGTH)
            if not key:
                raise self._error(f"{self._what} has an empty name")
            if key in metadata:
                raise self._error(f"metadata key {shown(key)} is there twice")
            self._what = f"the value of metadata key {shown(key)}"
            metadata[key], types[key] = self._value()
        tensors = self._tensors(n_tensors, self._alignment(metadata, types))
        return Header(self._path, self._size, version, metadata, types, tensors)

    # -- the pieces -------------------------------------------------------------------------

    def _check_magic(self) -> None:
        if self._size == 0:
            raise self._error("the file is empty; the download may not have finished")
        self._load(min(self._size, 64))
        if self._data[:4] == GGUF_MAGIC:
            self._position = 4
            return
        for start, what in _OTHER_FORMATS:
            if self._data.startswith(start):
                raise self._error(f"it is not a GGUF but {what}")
        found = shown(bytes(self._data[:4]))
        raise self._error(f"it does not begin with {GGUF_MAGIC!r} but with {found}")

    def _version(self) -> int:
        (version,) = self._unpack("<I")
        if version in (2, GGUF_VERSION):
            return int(version)
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        if 1 <= swapped <= GGUF_VERSION:
            raise self._error(
                f"it is a big endian file (version {swapped}); get or convert the little endian one"
            )
        if version == 1:
            raise self._error("it is of GGUF version 1, which nothing reads any more; convert it")
        raise self._error(f"it is of GGUF version {version}; versions 2 and 3 can be read")

    def _alignment(self, metadata: Mapping[str, MetaValue], types: Mapping[str, ValueType]) -> int:
        key = "general.alignment"
        value = metadata.get(key, DEFAULT_ALIGNMENT)
        if types.get(key, ValueType.UINT32) is not ValueType.UINT32 or not isinstance(value, int):
            raise self._error(f"'{key}' must be one 32-bit unsigned integer")
        if value < 1 or value & (value - 1):
            raise self._error(f"'{key}' must be a power of two, found {value}")
        return value

    def _value(self) -> tuple[MetaValue, ValueType]:
        kind = self._value_type()
        if kind is ValueType.STRING:
            return self._string(), kind
        if kind is not ValueType.ARRAY:
            (scalar,) = self._unpack(f"<{_CODES[kind]}")
            value: MetaValue = scalar
            return value, kind
        kind = self._value_type()
        (count,) = self._unpack("<Q")
        if kind is ValueType.ARRAY:
            raise self._error(f"{self._what} is an array of arrays, which nothing uses")
        if kind is ValueType.STRING:
            return self._strings(count), kind
        code = _CODES[kind]
        self._check_array(count, struct.calcsize(f"<{code}"))
        return NumberArray(self._take(count * struct.calcsize(f"<{code}")), code), kind

    def _value_type(self) -> ValueType:
        (number,) = self._unpack("<I")
        try:
            return ValueType(number)
        except ValueError:
            raise self._error(f"{self._what} is of unknown type {number}") from None

    def _string(self, limit: int = _MAX_HEADER) -> str:
        (length,) = self._unpack("<Q")
        if length > limit or length > self._size - self._position:
            raise self._error(
                f"{self._what} claims a text of {length} bytes, more than there can be"
            )
        data = self._take(length)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise self._error(f"{self._what} is not valid UTF-8: {shown(data)}") from None

    def _strings(self, count: int) -> StringArray:
        self._check_array(count, 8)
        unpack = struct.Struct("<Q").unpack_from
        data, start = self._data, self._position
        position, loaded = start, len(data)
        for _ in range(count):
            if position + 8 > loaded:
                self._load(position + 8)
                loaded = len(data)
            position += 8 + unpack(data, position)[0]
            if position > loaded:
                self._load(position)
                loaded = len(data)
        self._position = position
        return StringArray(bytes(data[start:position]), count)

    def _tensors(self, count: int, alignment: int) -> tuple[TensorInfo, ...]:
        entries: list[tuple[str, GGMLType, tuple[int, ...], int]] = []
        seen: set[str] = set()
        for index in range(count):
            self._what = f"the entry of tensor {index + 1} of {count}"
            name = self._string(MAX_TENSOR_NAME)
            if not name or "\0" in name:
                raise self._error(f"{self._what} has an impossible name {shown(name)}")
            if name in seen:
                raise self._error(f"tensor {shown(name)} is there twice")
            seen.add(name)
            self._what = f"the entry of tensor {shown(name)}"
            kind, shape = self._shape_and_type(name)
            (offset,) = self._unpack("<Q")
            entries.append((name, kind, shape, offset))
        start = self._position + -self._position % alignment
        infos: list[TensorInfo] = []
        expected = 0  # tensors lie one after the other, each padded to the alignment
        for name, kind, shape, offset in entries:
            if offset % alignment:
                raise self._error(
                    f"tensor {shown(name)} begins at offset {offset}, which is not a multiple of "
                    f"the alignment {alignment}"
                )
            if offset != expected:
                how = "overlaps the one before it" if offset < expected else "leaves a gap"
                raise self._error(
                    f"tensor {shown(name)} {how}: it begins at offset {offset}, "
                    f"expected was {expected}"
                )
            nbytes = math.prod(shape) // kind.block_size * kind.type_size
            end = start + offset + nbytes
            if end > self._size:
                raise self._error(
                    f"tensor {shown(name)} ends at byte {end}, but the file has {self._size}; "
                    "it is truncated, or the download did not finish"
                )
            expected = offset + nbytes + -nbytes % alignment
            infos.append(TensorInfo(name, kind, shape, self._shard, start + offset, nbytes))
        return tuple(infos)

    def _shape_and_type(self, name: str) -> tuple[GGMLType, tuple[int, ...]]:
        (n_dims,) = self._unpack("<I")
        if not 1 <= n_dims <= MAX_DIMS:
            raise self._error(
                f"tensor {shown(name)} has {n_dims} dimensions; 1 to {MAX_DIMS} are possible"
            )
        shape = self._unpack(f"<{n_dims}Q")
        if min(shape) < 1 or math.prod(shape) > _MAX_ELEMENTS:
            raise self._error(f"tensor {shown(name)} has an impossible shape {shape}")
        (number,) = self._unpack("<I")
        try:
            kind = GGMLType(number)
        except ValueError:
            raise self._error(
                f"tensor {shown(name)} is of type {number}, which this llama.cpp does not have"
            ) from None
        if shape[0] % kind.block_size:
            raise self._error(
                f"rows of tensor {shown(name)} have {shape[0]} elements, which is not a multiple "
                f"of the {kind.block_size} of a {kind.name} block"
            )
        return kind, shape

    # -- bytes ------------------------------------------------------------------------------

    def _unpack(self, layout: str) -> tuple[int, ...]:
        size = struct.calcsize(layout)
        end = self._position + size
        if end > len(self._data):
            self._load(end)
        values = struct.unpack_from(layout, self._data, self._position)
        self._position = end
        return values

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if end > len(self._data):
            self._load(end)
        data = bytes(self._data[self._position : end])
        self._position = end
        return data

    def _load(self, end: int) -> None:
        """Have the first ``end`` bytes of the file in memory, and some more."""
        if end > self._size:
            raise self._error(
                f"it ends in the middle of {self._what}: {self._size} bytes are too few; it is "
                "truncated, or the download did not finish"
            )
        if end > _MAX_HEADER:
            raise self._error(
                f"its header goes beyond {_MAX_HEADER >> 20} MiB at {self._what}, which no "
                "real model's does"
            )
        wanted = min(self._size, max(end, 2 * len(self._data), _FIRST_READ), _MAX_HEADER)
        os.lseek(self._descriptor, len(self._data), os.SEEK_SET)
        while len(self._data) < wanted:
            piece = os.read(self._descriptor, wanted - len(self._data))
            if not piece:
                raise self._error(f"it became shorter while it was read, at {self._what}")
            self._data += piece

    # -- checks -----------------------------------------------------------------------------

    def _check_count(self, what: str, count: int, limit: int, bytes_each: int) -> None:
        if count > limit or count * bytes_each > self._size - self._position:
            raise self._error(f"it claims {count} {what}, more than there can be")

    def _check_array(self, count: int, bytes_each: int) -> None:
        if count * bytes_each > min(self._size, _MAX_HEADER) - self._position:
            raise self._error(f"{self._what} claims {count} elements, more than there can be")

    def _error(self, message: str) -> GGUFError:
        return GGUFError(f"{shown(self._path)} is not a usable GGUF file: {message}")
