"""GGUF files put together byte by byte, so that any of it can be wrong."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

STRING, ARRAY, UINT16, UINT32, INT32 = 8, 9, 2, 4, 5


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def pair(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def u32(key: str, value: int) -> bytes:
    return pair(key, UINT32, struct.pack("<I", value))


def u16(key: str, value: int) -> bytes:
    return pair(key, UINT16, struct.pack("<H", value))


def i32(key: str, value: int) -> bytes:
    return pair(key, INT32, struct.pack("<i", value))


def string(key: str, value: str | bytes) -> bytes:
    return pair(key, STRING, text(value))


def array(key: str, kind: int, count: int, data: bytes) -> bytes:
    return pair(key, ARRAY, struct.pack("<IQ", kind, count) + data)


def tensor(
    name: str | bytes,
    dims: tuple[int, ...] = (32,),
    kind: int = 0,
    offset: int = 0,
    n_dims: int | None = None,
) -> bytes:
    count = len(dims) if n_dims is None else n_dims
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", count, *dims, kind, offset)


@dataclass
class Raw:
    """A file of one F32 tensor unless told otherwise; every count can lie."""

    pairs: list[bytes] = field(default_factory=lambda: [string("general.architecture", "qwen3moe")])
    tensors: list[bytes] = field(default_factory=lambda: [tensor("a")])
    data: bytes = bytes(128)
    magic: bytes = b"GGUF"
    version: int = 3
    n_tensors: int | None = None
    n_pairs: int | None = None
    alignment: int = 32

    def build(self) -> bytes:
        out = self.magic + struct.pack(
            "<IQQ",
            self.version,
            len(self.tensors) if self.n_tensors is None else self.n_tensors,
            len(self.pairs) if self.n_pairs is None else self.n_pairs,
        )
        out += b"".join(self.pairs) + b"".join(self.tensors)
        return out + bytes(-len(out) % self.alignment) + self.data

    def write(self, path: Path) -> Path:
        path.write_bytes(self.build())
        return path
