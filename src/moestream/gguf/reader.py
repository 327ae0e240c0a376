"""Reading a model: one file, or all the shards of a split one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import MappingProxyType

from moestream.errors import GGUFError
from moestream.gguf.header import Header, read_header
from moestream.gguf.model import GGUFModel, TensorInfo, shown
from moestream.gguf.types import ValueType
from moestream.gguf.writer import shard_path

__all__ = ["read_model"]

_SHARD_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
_MAX_SHARDS = 10_000


def read_model(path: str | Path) -> GGUFModel:
    """Read the headers of a model's files and check that every tensor lies inside its file.

    Args:
        path: the file, or the first shard of a split model; the others are found beside it.

    Raises:
        GGUFError: if a file is missing, cannot be read or is not a well-formed GGUF, or if the
            shards do not belong together.
    """
    first = read_header(Path(path))
    count = _count(first)
    headers = [first]
    if count > 1:
        paths = _shard_paths(first, count)
        headers += [_read_shard(p, index, count) for index, p in enumerate(paths) if index]
    tensors: dict[str, TensorInfo] = {}
    for header in headers:
        for tensor in header.tensors:
            other = tensors.setdefault(tensor.name, tensor)
            if other is not tensor:
                raise GGUFError(
                    f"tensor {shown(tensor.name)} is in {shown(header.path)} as well as in "
                    f"{shown(headers[other.shard].path)}; the shards do not belong together"
                )
    if count > 1:
        total = _split_number(first, "split.tensors.count", (ValueType.INT32,))
        if total != len(tensors):
            raise GGUFError(
                f"the {count} shards of {shown(first.path)} hold {len(tensors)} tensors, but the "
                f"model has {total}; the shards do not belong together"
            )
    if not tensors:
        raise GGUFError(f"{shown(first.path)} holds no tensors, so it is not a model to run")
    return GGUFModel(
        paths=tuple(header.path for header in headers),
        metadata=MappingProxyType(dict(first.metadata)),
        value_types=MappingProxyType(dict(first.value_types)),
        tensors=MappingProxyType(tensors),
        file_sizes=tuple(header.file_size for header in headers),
    )


def _count(header: Header) -> int:
    """Number of shards the model has, 1 for a model in one file."""
    match = _SHARD_NAME.fullmatch(header.path.name)
    if "split.count" not in header.metadata:
        if match and int(match["count"]) > 1:
            raise GGUFError(
                f"{shown(header.path)} is named like a shard but lacks 'split.count' in its "
                "metadata; get the shards again, or rename it if it is a whole model"
            )
        return 1
    count = _split_number(header, "split.count", (ValueType.UINT16,))
    if count > _MAX_SHARDS:
        raise GGUFError(f"{shown(header.path)} claims to be one of {count} shards")
    return max(1, count)


def _shard_paths(first: Header, count: int) -> list[Path]:
    """Names of all shards, from the first one's."""
    path = first.path
    number = _split_number(first, "split.no", (ValueType.UINT16,))
    match = _SHARD_NAME.fullmatch(path.name)
    if number != 0:
        stem = match["stem"] if match else "..."
        wanted = shard_path(path.with_name(f"{stem}.gguf"), 0, count)
        raise GGUFError(
            f"{shown(path)} is shard {number + 1} of {count}; give the first one, {shown(wanted)}"
        )
    if not match or int(match["number"]) != 1 or int(match["count"]) != count:
        raise GGUFError(
            f"{shown(path)} is the first of {count} shards and has been renamed, so the others "
            f"cannot be found; its name must end in -00001-of-{count:05d}.gguf"
        )
    base = path.with_name(f"{match['stem']}.gguf")
    paths = [shard_path(base, index, count) for index in range(count)]
    missing = [p for p in paths if not os.path.lexists(p)]
    if missing:
        names = ", ".join(shown(Path(p.name)) for p in missing[:4])
        more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
        raise GGUFError(
            f"{len(missing)} of the {count} shards of {shown(path)} are missing beside it: "
            f"{names}{more}; fetch them into the same directory"
        )
    return paths


def _read_shard(path: Path, index: int, count: int) -> Header:
    header = read_header(path, index)
    for key, expected in (("split.count", count), ("split.no", index)):
        found = _split_number(header, key, (ValueType.UINT16,))
        if found != expected:
            raise GGUFError(
                f"{shown(path)} should be shard {index + 1} of {count}, but its '{key}' is "
                f"{found} and not {expected}; the shards are mixed up or renamed"
            )
    return header


def _split_number(header: Header, key: str, types: tuple[ValueType, ...]) -> int:
    value = header.metadata.get(key)
    if header.value_types.get(key) not in types or not isinstance(value, int) or value < 0:
        found = "nothing" if value is None else shown(value)
        raise GGUFError(
            f"{shown(header.path)} is part of a split model, but its '{key}' is {found}; "
            "get the shards again"
        )
    return value
