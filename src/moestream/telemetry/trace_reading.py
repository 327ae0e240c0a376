"""Route traces read back: tens of millions of rows, with no Python per row.

A file that is no route trace, or that says something impossible, is refused with the line.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from moestream.errors import ConfigError
from moestream.telemetry.recorded_lines import (
    LINE_LIMIT,
    Lines,
    excerpt,
    open_recording,
    pairs,
    whole,
)

__all__ = [
    "HIT",
    "MISS",
    "PREFETCHED",
    "LayerSize",
    "RouteTraceFile",
    "read_route_trace",
]

#: Residency of a routed expert: it had to be read, it was in the cache, or prefetch had read it
#: and this was its first use.
MISS, HIT, PREFETCHED = 0, 1, 2

#: Bytes of a trace that are parsed at once.
_CHUNK: Final = 1 << 23
#: More than any expert weighs; sums over a trace stay within 64 bits.
_ABSURD: Final = 1e11
_MOST_EXPERTS: Final = 1 << 20

_TITLE: Final = "route_trace"
_VERSION: Final = "v1"

#: As narrow as the values allow: a trace may have tens of millions of rows.
_TYPES: Final[dict[str, Any]] = {
    "turn": np.int32,
    "phase": np.int8,
    "step": np.int32,
    "layer": np.int16,
    "slot": np.int16,
    "expert": np.int32,
    "weight": np.float32,
    "residency": np.int8,
    "expert_bytes": np.int64,
    "dropped": np.int8,
}
#: Columns that a trace may lack.
_OPTIONAL: Final = ("weight", "dropped")
#: Largest values of columns that have one.
_MOST: Final = {"phase": 1, "residency": 2, "dropped": 1}


@dataclass(frozen=True, slots=True)
class LayerSize:
    """What a layer weighs: bytes of one expert, and of everything else."""

    expert_bytes: int
    dense_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTraceFile:
    """A route trace: arrays of one length, an entry per routed expert, in the file's order.

    Attributes:
        path: where it was read.
        preamble: the keys of the comments.
        layers: sizes by layer, as far as the preamble has them.
        turn: turn within the session.
        decode: whether it was routed by a decode, not by a prefill.
        step: absolute position of the token.
        layer: layer of the model.
        slot: rank that the router gave the expert, from 0.
        expert: number of the expert.
        weight: the router's weight; NaN where there is none.
        residency: :data:`MISS`, :data:`HIT` or :data:`PREFETCHED`.
        expert_bytes: bytes that were read for it.
        dropped: whether it was skipped.
        cut: whether an unfinished last line was left out.
    """

    path: Path
    preamble: Mapping[str, str]
    layers: Mapping[int, LayerSize]
    turn: NDArray[np.int32]
    decode: NDArray[np.bool_]
    step: NDArray[np.int32]
    layer: NDArray[np.int16]
    slot: NDArray[np.int16]
    expert: NDArray[np.int32]
    weight: NDArray[np.float32]
    residency: NDArray[np.int8]
    expert_bytes: NDArray[np.int64]
    dropped: NDArray[np.bool_]
    cut: bool

    @property
    def n_rows(self) -> int:
        """Number of routed experts."""
        return len(self.expert)

    def number(self, key: str) -> int | None:
        """A key of the preamble as a number; ``None`` if there is none."""
        return whole(self.preamble.get(key, ""))


def read_route_trace(path: str | os.PathLike[str]) -> RouteTraceFile:
    """Read what ``--route-trace`` wrote.

    Raises:
        ConfigError: the file is no such trace; the message names the line.
        OSError: it cannot be read.
    """
    path = Path(path)
    with open_recording(path) as stream:
        lines = Lines(path, stream)
        names, comments = lines.header("turn")
        preamble, layers = _preamble(lines, comments)
        missing = [n for n in _TYPES if n not in names and n not in _OPTIONAL]
        if missing:
            raise lines.wrong(f"is a header without the column {', '.join(missing)}")
        most = dict(_MOST)
        if (n_expert := whole(preamble.get("n_expert", ""))) is not None:
            most["expert"] = n_expert - 1
        parser = _Parser(lines, names, most)
        while (chunk := stream.read(_CHUNK)) != b"":
            parser.feed(chunk if chunk.endswith(b"\n") else chunk + _rest(lines, stream))
    columns = parser.columns()
    return RouteTraceFile(
        path=path,
        preamble=preamble | parser.comments,
        layers=layers,
        cut=lines.cut,
        decode=columns.pop("phase") == 1,
        dropped=columns.pop("dropped") == 1,
        **columns,
    )


def _rest(lines: Lines, stream: BinaryIO) -> bytes:
    """The end of a line that a chunk broke off."""
    rest = stream.readline(LINE_LIMIT)
    if len(rest) >= LINE_LIMIT and not rest.endswith(b"\n"):
        raise lines.wrong(f"or one after it is longer than {LINE_LIMIT} bytes")
    return rest


def _preamble(
    lines: Lines, comments: list[tuple[int, str]]
) -> tuple[dict[str, str], dict[int, LayerSize]]:
    title = comments[0][1].split() if comments else []
    if not title or title[0] != _TITLE:
        raise lines.wrong(f"must be '# {_TITLE} {_VERSION}'", number=1)
    if title[1:2] != [_VERSION]:
        raise lines.wrong(
            f"says {excerpt(' '.join(title))}; this version of moestream reads {_VERSION}",
            number=comments[0][0],
        )
    preamble: dict[str, str] = {}
    layers: dict[int, LayerSize] = {}
    for number, comment in comments[1:]:
        values = pairs(comment)
        if "layer" not in values:
            preamble |= values
            continue
        layer, expert, dense = (
            whole(values.get(key, "")) for key in ("layer", "expert_bytes", "dense_bytes")
        )
        if layer is None or expert is None or expert > _ABSURD:
            raise lines.wrong(f"is {excerpt(comment)}, which is no layer's size", number=number)
        layers[layer] = LayerSize(expert, dense or 0)
    if (whole(preamble.get("n_expert", "")) or 0) > _MOST_EXPERTS:
        raise lines.wrong(f"ends a preamble with n_expert={excerpt(preamble['n_expert'])}")
    return preamble, layers


class _Parser:
    """Turns chunks of whole lines into columns, with no Python per row."""

    def __init__(self, lines: Lines, names: list[str], most: Mapping[str, int]) -> None:
        self.comments: dict[str, str] = {}
        self._lines = lines
        self._done = lines.number
        self._width = len(names)
        self._most = most
        known = [name for name in names if name in _TYPES]
        self._fields = [names.index(name) for name in known]
        self._dtype = np.dtype([(name, _TYPES[name]) for name in known])
        self._parts: dict[str, list[NDArray[Any]]] = {name: [] for name in known}

    def feed(self, chunk: bytes) -> None:
        if not chunk.endswith(b"\n"):
            chunk = chunk[: chunk.rfind(b"\n") + 1]
            self._lines.cut = True
        first, self._done = self._done, self._done + chunk.count(b"\n")
        try:
            rows = self._parse(chunk)
        except ValueError:
            raise self._blame(chunk, first) from None
        self._check(rows, chunk, first)
        if b"\n#" in chunk or chunk.startswith(b"#"):
            for line in chunk.split(b"\n"):
                if line.startswith(b"#"):
                    self.comments |= pairs(line.decode("utf-8", "replace"))
        for name, parts in self._parts.items():
            parts.append(np.ascontiguousarray(rows[name]))

    def columns(self) -> dict[str, NDArray[Any]]:
        found: dict[str, NDArray[Any]] = {}
        for name, parts in self._parts.items():
            empty = np.empty(0, self._dtype[name])
            found[name] = np.concatenate(parts) if parts else empty
            parts.clear()  # so that the whole is in memory once, not twice
        n_rows = len(found["expert"])
        found.setdefault("weight", np.full(n_rows, np.nan, dtype=np.float32))
        found.setdefault("dropped", np.zeros(n_rows, dtype=np.int8))
        return found

    def _parse(self, chunk: bytes) -> NDArray[Any]:
        text = chunk.replace(b",,", b",nan,") if b",," in chunk else chunk
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*no data")  # nothing but comments
            return np.loadtxt(
                io.StringIO(text.decode("latin-1")),
                delimiter=",",
                dtype=self._dtype,
                usecols=self._fields,
                comments="#",
                ndmin=1,
            )

    def _blame(self, chunk: bytes, first: int) -> ConfigError:
        """Which line numpy could not read: halve until there is one."""
        lines = [line + b"\n" for line in chunk.split(b"\n")]
        low, high = 0, len(lines)
        while high - low > 1:
            middle = (low + high) // 2
            if self._readable(b"".join(lines[low:middle])):
                low = middle
            else:
                high = middle
        text = lines[low].decode("utf-8", "replace").strip()
        return self._lines.wrong(
            f"is {excerpt(text)}, where a row of {self._width} numbers was expected",
            number=first + low + 1,
        )

    def _readable(self, chunk: bytes) -> bool:
        try:
            self._parse(chunk)
        except ValueError:
            return False
        return True

    def _check(self, rows: NDArray[Any], chunk: bytes, first: int) -> None:
        for name in self._parts:
            if name == "weight":
                continue
            values, most = rows[name], self._most.get(name)
            bad = values < 0
            if most is not None:
                bad |= values > most
            if name == "expert_bytes":
                bad |= values > _ABSURD
            if bad.any():
                row = int(np.argmax(bad))
                # Comments between the rows would shift the count, so count what is a row.
                numbers = [
                    i
                    for i, line in enumerate(chunk.split(b"\n"))
                    if line.strip() and not line.startswith(b"#")
                ]
                limit = "" if most is None else f" (0 to {most} is possible)"
                raise self._lines.wrong(
                    f"has {values[row]} in {name}{limit}",
                    number=first + numbers[min(row, len(numbers) - 1)] + 1,
                )
