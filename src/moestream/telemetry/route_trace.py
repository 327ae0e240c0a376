"""The route trace: what the routers asked for, a row per routed expert, as text.

::

    # route_trace v1
    # note=...
    # model=...
    # arch=...
    # n_layer=...                                   the MTP block included, if it is loaded
    # n_layer_nextn=...                             so many of them, the last ones, are its
    # n_expert=...
    # n_expert_used=...
    # layer=0 expert_bytes=... dense_bytes=...      a line a layer; one expert, everything else
    turn,phase,step,layer,slot,expert,weight,residency,expert_bytes,dropped

``phase`` is 0 in a prefill and 1 in a decode, ``step`` the absolute position of the token, ``slot``
the rank that the router gave the expert. ``weight`` is the router's before anything is normalised,
scaled or dropped (see :attr:`moestream.streaming.recipes.Recipe.weights_node`); empty where a
decode ended before it was known. ``residency`` is 0 for a miss, 1 for a hit, 2 for the first use of
what prefetch has read or is reading. ``expert_bytes`` are the bytes of the expert that had to be
read for it, without the rest of the pages they begin and end on. Of several rows in one decode
that share an expert, the first carries what it cost; for the others it is a hit. A dropped expert
is a miss that nothing was read for.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from moestream.errors import ConfigError
from moestream.telemetry.csv_sink import check_target

if TYPE_CHECKING:
    from moestream._core import ExpertStore
    from moestream.streaming.source import ExpertSource

__all__ = ["COLUMNS", "NOT_A_BENCHMARK", "ROUTE_ENTRY", "RouteTrace"]

COLUMNS: Final = (
    "turn", "phase", "step", "layer", "slot", "expert", "weight", "residency", "expert_bytes",
    "dropped",
)  # fmt: skip

#: What a run with a trace has to say about itself.
NOT_A_BENCHMARK: Final = "routing was traced, which costs time: this is not a benchmark run"

#: An entry of :meth:`moestream._core.ExpertStore.take_route_trace`.
ROUTE_ENTRY: Final = np.dtype(
    [
        ("expert_bytes", "<u8"),
        ("decode", "<u4"),
        ("row", "<u4"),
        ("expert", "<u4"),
        ("weight", "<f4"),
        ("layer", "<u2"),
        ("slot", "<u2"),
        ("residency", "u1"),
        ("dropped", "u1"),
        ("unused", "V2"),
    ]
)

_Entries = npt.NDArray[np.void]
_Chars = npt.NDArray[np.uint8]
_Kept = npt.NDArray[np.bool_]

_BLOCK: Final = re.compile(r"blk\.(\d{1,9})\.")
#: Digits of a weight after the point: a 32-bit float between 0 and 1 has no more to say.
_WEIGHT_DIGITS: Final = 8
_MOST_WEIGHT: Final = 1e9
#: Lines to make at once: some hundred bytes of memory each.
_AT_ONCE: Final = 1 << 16


class RouteTrace:
    """Writes one trace file. Not thread-safe: call it from where the decodes are.

    A full disk must not end a conversation: after an error of the file nothing is traced any more,
    and :attr:`failure` says so.
    """

    def __init__(self, path: Path, *, protected: Sequence[Path] = ()) -> None:
        """Open ``path``; what it holds stays until :meth:`begin`.

        Args:
            path: a file, or something else that can be written to, such as a pipe.
            protected: files that it must not be: the model's.

        Raises:
            ConfigError: the path cannot be written to, or must not be.
        """
        self.path = path
        #: Why the file ends early, in words; ``None`` if it does not.
        self.failure: str | None = None
        #: Routings that are missing in the file: their decode was not recorded.
        self.lost = 0
        self._store: ExpertStore | None = None
        self._turn = -1
        try:
            check_target(path, protected)
            self._made = not path.exists()
            self._file = FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666), "w")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigError(
                f"cannot write a route trace to {path}: {reason}; name a file in a directory that "
                "exists and can be written to"
            ) from error

    def begin(self, source: ExpertSource, *, mtp: bool = False) -> None:
        """Empty the file, write the preamble, and trace from now on.

        Args:
            source: of the experts, started.
            mtp: the multi-token-prediction block is loaded.

        Raises:
            ConfigError: nothing is streamed, so there is nothing to trace.
        """
        preamble = _preamble(source, mtp)
        self._made = False
        try:
            if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                self._file.truncate(0)
        except OSError as error:
            self._fail(error)
        self._write(preamble.encode("utf-8", "replace"))
        if self.failure is None:
            self._store = source.store
            self._store.set_route_trace(True)

    def begin_turn(self) -> None:
        """A turn begins; the first one has the number 0."""
        self._turn += 1

    def record(self, first_position: int, prefill: bool, rows: int | None = None) -> None:
        """Write what a decode routed; call it after each, in whatever context it was.

        Args:
            first_position: of its first row in the context; the others follow.
            prefill: whether it was one.
            rows: how many it had. A model's last layer may evaluate only the last of them, those
                that ask for logits. Without this, the layer that evaluated most had all.
        """
        if self._store is None or self.failure is not None:
            return
        packed, lost = self._store.take_route_trace()
        self.lost += lost
        entries: _Entries = np.frombuffer(packed, ROUTE_ENTRY)
        if not len(entries):
            return
        # Positions are known of the newest decode only.
        ours = entries[np.searchsorted(entries["decode"], entries["decode"][-1]) :]
        self.lost += len(entries) - len(ours)
        steps = _rows_of_batch(ours, rows) + first_position
        for start in range(0, len(ours), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            self._write(_lines(ours[part], steps[part], max(self._turn, 0), prefill))

    def close(self) -> None:
        """Stop tracing and close the file; may be called again.

        A file that was made for a trace that never began is removed.
        """
        store, self._store = self._store, None
        if store is not None:
            store.set_route_trace(False)
            if self.lost:
                self._write(f"# lost={self.lost}\n".encode())
        if self._made:
            self._made = False
            with suppress(OSError):
                self.path.unlink()
        self._file.close()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view and self.failure is None:
                view = view[self._file.write(view) or 0 :]
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failure = f"the route trace {self.path} ends early: {error.strerror or error}"
        if self._store is not None:
            self._store.set_route_trace(False)


def _preamble(source: ExpertSource, mtp: bool) -> str:
    layout, gguf = source.layout, source.gguf
    if layout is None:
        raise ConfigError(
            "a route trace needs streamed experts, and this model is kept in memory whole; "
            "leave the trace out, or stream the model"
        )
    n_layer = layout.n_layer + len(layout.nextn_layers if mtp else ())
    streamed = {tensor.name for tensor in layout.tensors}
    dense = [0] * n_layer
    for tensor in gguf.tensors.values():
        match = _BLOCK.match(tensor.name)
        if match and tensor.name not in streamed and int(match[1]) < n_layer:
            dense[int(match[1])] += tensor.nbytes
    values = {
        "note": NOT_A_BENCHMARK,
        "model": _one_line(gguf.name),
        "arch": _one_line(gguf.architecture),
        "n_layer": n_layer,
        "n_layer_nextn": n_layer - layout.n_layer,
        "n_expert": layout.n_expert,
        "n_expert_used": layout.n_expert_used,
    }
    lines = ["# route_trace v1", *(f"# {name}={value}" for name, value in values.items())]
    lines += [
        f"# layer={i} expert_bytes={layout.expert_bytes_of(i)} dense_bytes={dense[i]}"
        for i in range(n_layer)
    ]
    return "\n".join([*lines, ",".join(COLUMNS), ""])


def _one_line(text: str) -> str:
    # A name out of a model file must begin neither a line nor a key of its own.
    return " ".join("".join(c if c.isprintable() and c != "=" else " " for c in text).split())


def _rows_of_batch(entries: _Entries, rows: int | None) -> npt.NDArray[np.int64]:
    """The batch's row that each entry is of.

    Entries count the rows that their layer evaluates, and those are the batch's last ones.
    """
    layer = entries["layer"]
    row: npt.NDArray[np.int64] = entries["row"].astype(np.int64)
    ends = np.append(np.flatnonzero(layer[1:] != layer[:-1]), len(entries) - 1)
    evaluated = row[ends] + 1
    skipped = (int(evaluated.max()) if rows is None else rows) - evaluated
    row += np.repeat(skipped, np.diff(ends, prepend=-1))
    return row


# ---- text ----------------------------------------------------------------------------------------
#
# A prefill step routes a hundred thousand experts and more, so lines are not made one by one: every
# column becomes a table of characters, [character, line], with room for its longest value, and the
# characters that a line does not need are left out at the end.


def _lines(entries: _Entries, steps: npt.NDArray[np.int64], turn: int, prefill: bool) -> bytes:
    n = len(entries)
    comma, end = _same(",", n), _same("\n", n)
    blocks = [_same(f"{turn},{int(not prefill)},", n), _whole(steps), comma]
    for name in ("layer", "slot", "expert"):
        blocks += [_whole(entries[name]), comma]
    blocks += [*_weights(entries["weight"]), comma, _whole(entries["residency"]), comma]
    blocks += [_whole(entries["expert_bytes"]), comma, _whole(entries["dropped"]), end]
    chars: _Chars = np.concatenate([block[0] for block in blocks])
    kept: _Kept = np.concatenate([block[1] for block in blocks])
    text: _Chars = np.ascontiguousarray(chars.T)[np.ascontiguousarray(kept.T)]
    return text.tobytes()


def _same(text: str, n: int) -> tuple[_Chars, _Kept]:
    chars = np.frombuffer(text.encode(), np.uint8)[:, None]
    return np.broadcast_to(chars, (len(text), n)), np.broadcast_to(True, (len(text), n))


def _whole(values: npt.NDArray[Any], digits: int = 0) -> tuple[_Chars, _Kept]:
    """Integers without leading zeros; with ``digits``, exactly so many."""
    width = digits or len(str(int(values.max())))
    rest = values.astype(np.uint32 if width < 10 else np.uint64)
    chars: _Chars = np.empty((width, len(values)), np.uint8)
    kept: _Kept = np.ones((width, len(values)), np.bool_)
    for i in reversed(range(width)):
        if not digits and i < width - 1:
            kept[i] = rest != 0
        quotient = rest // 10
        chars[i] = rest - quotient * 10 + ord("0")
        rest = quotient
    return chars, kept


def _weights(values: npt.NDArray[np.float32]) -> list[tuple[_Chars, _Kept]]:
    known = (values >= 0.0) & (values < _MOST_WEIGHT)
    scaled = np.where(known, values, 0.0).astype(np.float64) * 10**_WEIGHT_DIGITS
    whole, fraction = np.divmod(np.rint(scaled).astype(np.uint64), 10**_WEIGHT_DIGITS)
    blocks = [_whole(whole), _same(".", len(values)), _whole(fraction, _WEIGHT_DIGITS)]
    return blocks if known.all() else [(chars, kept & known) for chars, kept in blocks]
