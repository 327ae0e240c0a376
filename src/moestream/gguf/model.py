"""What a GGUF model is once read: plain immutable data, and typed access to its metadata."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar, overload

from moestream.errors import GGUFError
from moestream.gguf.types import GGMLType, MetaValue, ValueType

__all__ = ["GGUFModel", "NumberArray", "StringArray", "TensorInfo", "shown"]

_LENGTH: Final = struct.Struct("<Q")
_MISSING: Final = object()
_ARCHITECTURE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NAME_LENGTH: Final = 200
_T = TypeVar("_T", bound="bool | int | float | str")


def shown(value: object, limit: int = 80) -> str:
    """Return a value from a file as an error message may show it: escaped and of bounded length.

    Paths come whole and without quotes, everything else as ``repr`` gives it.
    """
    if isinstance(value, Path):
        return "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value)
        )
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."


class StringArray(Sequence[str]):
    """An array of strings, decoded only where it is looked at.

    Vocabularies have hundreds of thousands of entries and most readers of a file never look at
    one. Bytes that are not UTF-8 are replaced: entries are for showing, not for computing.
    """

    __slots__ = ("_count", "_data", "_offsets")

    def __init__(self, data: bytes, count: int) -> None:
        self._data = data
        self._count = count
        self._offsets: list[int] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if self._offsets is None:
            self._offsets = [start for start, _ in self._spans()]
        if isinstance(index, slice):
            return [self._at(offset) for offset in self._offsets[index]]
        return self._at(self._offsets[index])

    def __iter__(self) -> Iterator[str]:
        for start, end in self._spans():
            yield self._data[start:end].decode("utf-8", "replace")

    def raw(self) -> Iterator[bytes]:
        """Iterate over the entries as they are in the file."""
        for start, end in self._spans():
            yield self._data[start:end]

    def _at(self, offset: int) -> str:
        (length,) = _LENGTH.unpack_from(self._data, offset - 8)
        return self._data[offset : offset + length].decode("utf-8", "replace")

    def _spans(self) -> Iterator[tuple[int, int]]:
        position = 0
        for _ in range(self._count):
            (length,) = _LENGTH.unpack_from(self._data, position)
            yield position + 8, position + 8 + length
            position += 8 + length


class NumberArray(Sequence[_T]):
    """An array of numbers or truth values, unpacked only where it is looked at."""

    __slots__ = ("_data", "_item")

    def __init__(self, data: bytes, code: str) -> None:
        self._data = data
        self._item = struct.Struct(f"<{code}")

    def __len__(self) -> int:
        return len(self._data) // self._item.size

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_T]: ...
    def __getitem__(self, index: int | slice) -> _T | Sequence[_T]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        (value,) = self._item.unpack_from(self._data, index % len(self) * self._item.size)
        result: _T = value
        return result

    def __iter__(self) -> Iterator[_T]:
        for (value,) in self._item.iter_unpack(self._data):
            yield value


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies and what it is.

    Attributes:
        shape: in ggml's order, fastest dimension first.
        shard: index of its file in :attr:`GGUFModel.paths`.
        offset: of its first byte, from the start of its file.
        nbytes: size of its data, without padding.
    """

    name: str
    type: GGMLType
    shape: tuple[int, ...]
    shard: int
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class GGUFModel:
    """A model in one file or several, checked: every tensor lies inside its file.

    Attributes:
        paths: its files, first shard first.
        metadata: key-value pairs of the first shard.
        value_types: the stored type of every key (of the elements, for an array).
        tensors: by name, in file order over all shards.
        file_sizes: in bytes, of :attr:`paths`.
    """

    paths: tuple[Path, ...]
    metadata: Mapping[str, MetaValue]
    value_types: Mapping[str, ValueType]
    tensors: Mapping[str, TensorInfo]
    file_sizes: tuple[int, ...]

    @property
    def architecture(self) -> str:
        """Name of the model's architecture."""
        value = self.metadata.get("general.architecture")
        if not isinstance(value, str) or not _ARCHITECTURE.fullmatch(value):
            found = "missing" if value is None else shown(value)
            raise GGUFError(
                f"{shown(self.paths[0])} does not say what architecture it is: "
                f"'general.architecture' is {found}; it is not a language model"
            )
        return value

    @property
    def name(self) -> str:
        """Name the model gives itself, fit to be shown, or its file's."""
        value = self.metadata.get("general.name")
        name = value[:_NAME_LENGTH] if isinstance(value, str) else ""
        return "".join(filter(str.isprintable, name)).strip() or shown(Path(self.paths[0].stem))

    def has(self, key: str) -> bool:
        """Whether the architecture's metadata has ``key``."""
        return f"{self.architecture}.{key}" in self.metadata

    def get_int(self, key: str, default: int | None = None) -> int:
        """Return an integer of the architecture's metadata (``key`` without its prefix).

        Raises:
            GGUFError: if it is not there and there is no default, or is not an integer of 0
                or more.
        """
        value = self._get(key, _MISSING if default is None else default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._wrong(key, value, "an integer of 0 or more")
        return value

    def get_ints(self, key: str, count: int, default: int | None = None) -> tuple[int, ...]:
        """Return ``count`` integers, one per layer: from an array, or one number repeated."""
        value = self._get(key, _MISSING if default is None else default)
        if isinstance(value, int) and not isinstance(value, bool):
            return (self.get_int(key, default),) * count
        if isinstance(value, NumberArray) and len(value) == count:
            numbers = tuple(value)
            if all(isinstance(n, int) and n >= 0 for n in numbers):
                return tuple(int(n) for n in numbers)
        raise self._wrong(key, value, f"an integer of 0 or more, or {count} of them")

    def get_float(self, key: str, default: float | None = None) -> float:
        """Return a number of the architecture's metadata."""
        value = self._get(key, _MISSING if default is None else default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(key, value, "a number")
        return float(value)

    def _get(self, key: str, default: object) -> object:
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        if value is _MISSING:
            raise GGUFError(
                f"{shown(self.paths[0])} lacks the metadata key "
                f"{shown(f'{self.architecture}.{key}')}, which a model of this kind must have"
            )
        return value

    def _wrong(self, key: str, value: object, expected: str) -> GGUFError:
        found = shown(value)
        if isinstance(value, (NumberArray, StringArray)):
            found = f"an array of {len(value)}"
        return GGUFError(
            f"metadata key {shown(f'{self.architecture}.{key}')} in {shown(self.paths[0])} "
            f"must be {expected}, found {found}"
        )
