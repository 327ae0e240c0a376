"""Writing GGUF files as a stream: header first, then tensor data in chunks of bounded size.

Tensor data comes from callables, so a model of any size is written with the memory of one chunk.
Every file is written under a ``.part`` name and renamed when all of them are complete: a file
with its final name is a whole file.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from moestream.errors import GGUFError
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

__all__ = ["Chunks", "TensorSpec", "Typed", "shard_path", "write_model"]

#: Pieces of a tensor's bytes, in order.
Chunks = Iterable["bytes | bytearray | memoryview"]

_SCALAR_FORMATS: dict[ValueType, str] = {
    ValueType.UINT8: "<B",
    ValueType.INT8: "<b",
    ValueType.UINT16: "<H",
    ValueType.INT16: "<h",
    ValueType.UINT32: "<I",
    ValueType.INT32: "<i",
    ValueType.FLOAT32: "<f",
    ValueType.BOOL: "<?",
    ValueType.UINT64: "<Q",
    ValueType.INT64: "<q",
    ValueType.FLOAT64: "<d",
}


@dataclass(frozen=True, slots=True)
class Typed:
    """A metadata value with a type of its own, where the default choice is not the right one.

    For a sequence, ``type`` is the type of the elements.
    """

    type: ValueType
    value: MetaValue


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor to write: its shape (fastest dimension first) and where its bytes come from."""

    name: str
    type: GGMLType
    shape: tuple[int, ...]
    chunks: Callable[[], Chunks]

    @property
    def nbytes(self) -> int:
        """Size of the tensor's data in the file, without padding."""
        return math.prod(self.shape) // self.type.block_size * self.type.type_size


def shard_path(path: Path, index: int, count: int) -> Path:
    """Return the name that shard ``index`` (from 0) of ``count`` has by convention."""
    stem = path.name.removesuffix(".gguf")
    return path.with_name(f"{stem}-{index + 1:05d}-of-{count:05d}.gguf")


def write_model(
    path: Path,
    metadata: Mapping[str, MetaValue | Typed],
    tensors: Sequence[TensorSpec],
    *,
    split: int = 1,
    alignment: int = DEFAULT_ALIGNMENT,
    version: int = GGUF_VERSION,
    on_bytes: Callable[[int], None] | None = None,
) -> tuple[Path, ...]:
    """Write a model, whole or in ``split`` shards of about the same size.

    Args:
        path: the file to write; with ``split`` > 1, the name the shards' names are made from.
        metadata: key-value pairs. Integers are stored as 32 bits where they fit, floats as
            32 bits; :class:`Typed` says otherwise.
        tensors: what to write, in file order.
        split: number of shards.
        alignment: of every tensor's offset; a power of two.
        version: 2 or 3 (the two differ in the number only).
        on_bytes: called with the number of tensor bytes just written.

    Returns:
        The files written, first shard first.

    Raises:
        GGUFError: if the tensors cannot be stored as asked.
    """
    _check(tensors, split, alignment)
    if split == 1:
        jobs = [(path, dict(metadata), list(tensors))]
    else:
        jobs = []
        for index, part in enumerate(_partition(tensors, split)):
            meta: dict[str, MetaValue | Typed] = dict(metadata) if index == 0 else {}
            meta["split.no"] = Typed(ValueType.UINT16, index)
            meta["split.count"] = Typed(ValueType.UINT16, split)
            meta["split.tensors.count"] = Typed(ValueType.INT32, len(tensors))
            jobs.append((shard_path(path, index, split), meta, part))
    partials = [target.with_name(target.name + ".part") for target, _, _ in jobs]
    try:
        for partial, (_, meta, part) in zip(partials, jobs, strict=True):
            if alignment != DEFAULT_ALIGNMENT:
                meta["general.alignment"] = Typed(ValueType.UINT32, alignment)
            with open(partial, "wb") as file:
                file.write(_header(meta, part, alignment, version))
                _write_tensors(file, part, alignment, on_bytes)
        for partial, (target, _, _) in zip(partials, jobs, strict=True):
            os.replace(partial, target)
    except BaseException:
        for partial in partials:
            with suppress(OSError):
                partial.unlink()
        raise
    return tuple(target for target, _, _ in jobs)


def _check(tensors: Sequence[TensorSpec], split: int, alignment: int) -> None:
    if alignment < 8 or alignment & (alignment - 1):
        raise GGUFError(f"alignment must be a power of two of at least 8, got {alignment}")
    if not 1 <= split <= max(1, len(tensors)):
        raise GGUFError(f"cannot split {len(tensors)} tensors into {split} files")
    seen: set[str] = set()
    for spec in tensors:
        if spec.name in seen:
            raise GGUFError(f"tensor {spec.name!r} is given twice")
        seen.add(spec.name)
        if len(spec.name.encode()) > MAX_TENSOR_NAME:
            raise GGUFError(
                f"tensor name {spec.name!r} is longer than the {MAX_TENSOR_NAME} bytes there are"
            )
        if not 1 <= len(spec.shape) <= MAX_DIMS or min(spec.shape) < 1:
            raise GGUFError(f"tensor {spec.name!r} has an impossible shape {spec.shape}")
        if spec.shape[0] % spec.type.block_size:
            raise GGUFError(
                f"rows of tensor {spec.name!r} have {spec.shape[0]} elements, which is not a "
                f"multiple of the {spec.type.block_size} of a {spec.type.name} block"
            )


def _partition(tensors: Sequence[TensorSpec], split: int) -> list[list[TensorSpec]]:
    """Cut the list into ``split`` runs of about the same number of bytes, none empty."""
    total = sum(spec.nbytes for spec in tensors)
    parts: list[list[TensorSpec]] = [[]]
    done = 0
    for i, spec in enumerate(tensors):
        left = len(tensors) - i
        wanted = split - len(parts)  # shards that still have to get at least one tensor
        full = done * split >= total * len(parts)
        if parts[-1] and wanted and (full or left <= wanted):
            parts.append([])
        parts[-1].append(spec)
        done += spec.nbytes
    return parts


def _header(
    metadata: Mapping[str, MetaValue | Typed],
    tensors: Sequence[TensorSpec],
    alignment: int,
    version: int,
) -> bytes:
    header = bytearray()
    header += struct.pack("<4sIQQ", GGUF_MAGIC, version, len(tensors), len(metadata))
    for key, value in metadata.items():
        header += _string(key)
        header += _value(key, value)
    offset = 0
    for spec in tensors:
        header += _string(spec.name)
        header += struct.pack(f"<I{len(spec.shape)}Q", len(spec.shape), *spec.shape)
        header += struct.pack("<IQ", spec.type, offset)
        offset += spec.nbytes + -spec.nbytes % alignment
    return bytes(header) + bytes(-len(header) % alignment)


def _write_tensors(
    file: BinaryIO,
    tensors: Sequence[TensorSpec],
    alignment: int,
    on_bytes: Callable[[int], None] | None,
) -> None:
    for spec in tensors:
        written = 0
        for chunk in spec.chunks():
            view = memoryview(chunk)
            file.write(view)
            written += view.nbytes
            if on_bytes is not None:
                on_bytes(view.nbytes)
        if written != spec.nbytes:
            raise GGUFError(
                f"tensor {spec.name!r} should have {spec.nbytes} bytes, its source gave {written}"
            )
        file.write(bytes(-written % alignment))


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(key: str, value: MetaValue | Typed) -> bytes:
    if isinstance(value, Typed):
        kind, raw = value.type, value.value
        if isinstance(raw, (list, tuple)) and not isinstance(raw, str):
            return struct.pack("<I", ValueType.ARRAY) + _array(kind, raw)
        return struct.pack("<I", kind) + _scalar(kind, raw)
    if isinstance(value, (bool, int, float, str)):
        kind = _default_type(value)
        return struct.pack("<I", kind) + _scalar(kind, value)
    items = list(value)
    if not items:
        raise GGUFError(f"metadata key {key!r} is an empty array of unknown type; use Typed")
    kinds = {_default_type(item) for item in items}
    if kinds in ({ValueType.UINT32}, {ValueType.UINT32, ValueType.INT32}):
        kinds = {ValueType.INT32}  # what the converters of this format use for integer lists
    if len(kinds) != 1:
        raise GGUFError(f"metadata key {key!r} mixes elements of several types; use Typed")
    return struct.pack("<I", ValueType.ARRAY) + _array(kinds.pop(), items)


def _array(kind: ValueType, items: Sequence[object]) -> bytes:
    head = struct.pack("<IQ", kind, len(items))
    if kind is ValueType.STRING:
        return head + b"".join(_string(str(item)) for item in items)
    code = _SCALAR_FORMATS[kind][1]
    return head + struct.pack(f"<{len(items)}{code}", *items)


def _scalar(kind: ValueType, value: object) -> bytes:
    if kind is ValueType.STRING:
        return _string(str(value))
    return struct.pack(_SCALAR_FORMATS[kind], value)


def _default_type(value: object) -> ValueType:
    if isinstance(value, bool):
        return ValueType.BOOL
    if isinstance(value, int):
        if 0 <= value < 2**32:
            return ValueType.UINT32
        if -(2**31) <= value < 0:
            return ValueType.INT32
        return ValueType.UINT64 if value > 0 else ValueType.INT64
    if isinstance(value, float):
        return ValueType.FLOAT32
    if isinstance(value, str):
        return ValueType.STRING
    raise GGUFError(f"a metadata value cannot be of type {type(value).__name__}")
