"""A run's rows as series over its decoded tokens, and as sums: pure arithmetic.

A verify decode confirms a group of tokens, and its whole cost stands on the group's first row.
Here it is spread evenly over the group's tokens: the sums stay what they are, and a series over
tokens does not jump between "all" and "nothing". What remains of a group at the end of a cut
file carries the group's whole cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moestream.errors import ConfigError
from moestream.telemetry.reading import RunFile

__all__ = ["PARTS", "RunSeries"]

MIB: Final = 2**20

#: What a token's time is made of, in the order in which it is stacked.
PARTS: Final = ("compute", "stall", "draft", "other")

_Floats = NDArray[np.float64]
_Ints = NDArray[np.intp]


@dataclass(frozen=True)
class RunSeries:
    """The decoded tokens of a run; the first token of a turn, which carries the prefill, is none.

    NaN and ``None`` are "not measured", or "there is none".
    """

    run: RunFile

    def __post_init__(self) -> None:
        if not self.run.decoded.any():
            raise ConfigError(
                f"{self.run.path}: no token was decoded in this run, so there is nothing to show"
            )

    # ---- the rows --------------------------------------------------------------------------------

    @cached_property
    def n_tokens(self) -> int:
        """Tokens decoded."""
        return int(np.count_nonzero(self.run.decoded))

    def rows(self, name: str) -> _Floats:
        """A column as it is in the file."""
        return self.run.column(name)[self.run.decoded]

    @cached_property
    def turn(self) -> _Floats:
        """The turn that each token belongs to; 0 where the file does not say."""
        return np.nan_to_num(self.rows("turn"))

    @cached_property
    def turn_starts(self) -> _Ints:
        """Tokens that begin a turn, the first one's left out."""
        return np.flatnonzero(np.diff(self.turn)) + 1

    @cached_property
    def group(self) -> _Ints:
        """The group, which is the decode, that each token belongs to, from 0."""
        batch = self.rows("mtp_batch")
        first = ~(batch == 0)  # a file without the column has groups of one
        first[0] = True
        first[self.turn_starts] = True
        return np.cumsum(first) - 1

    @cached_property
    def group_size(self) -> _Ints:
        """Tokens of each group that the file has."""
        return np.bincount(self.group)

    def spread(self, values: _Floats) -> _Floats:
        """A cost, evenly over the tokens of its group."""
        sums = np.bincount(self.group, weights=values).astype(np.float64)
        return np.asarray((sums / self.group_size)[self.group], dtype=np.float64)

    def smooth(self, values: _Floats, window: int) -> _Floats:
        """Values averaged over about ``window`` tokens around each one, within its turn.

        The nearest tokens count most: a mean of means, so that one outlier makes a peak and not
        a plateau.
        """
        ends = np.append(self.turn_starts, self.n_tokens)
        begins = np.append(0, self.turn_starts)
        which = np.searchsorted(self.turn_starts, np.arange(self.n_tokens), side="right")
        first, end = begins[which], ends[which]
        at, half = np.arange(self.n_tokens), max(window // 2, 1)
        low = np.maximum(at - half // 2, first)
        high = np.minimum(at + (half + 1) // 2, end)
        for _ in range(2):
            sums = np.concatenate([[0.0], np.cumsum(values)])
            values = (sums[high] - sums[low]) / (high - low)
        return values

    # ---- time ------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> dict[str, _Floats]:
        """Milliseconds of each token by :data:`PARTS`; what was not measured is within the rest."""
        wall = np.nan_to_num(self.rows("wall_ms"))
        stall = np.minimum(np.nan_to_num(self.rows("stall_ms")), wall)
        overhead = np.nan_to_num(self.rows("loop_overhead_ms"))
        draft = np.minimum(np.nan_to_num(self.rows("mtp_draft_ms")), overhead)
        costs = (wall - stall, stall, draft, overhead - draft)
        return {name: self.spread(cost) for name, cost in zip(PARTS, costs, strict=True)}

    @cached_property
    def total_ms(self) -> _Floats:
        """Milliseconds of each token as the caller saw them."""
        return np.asarray(np.sum(list(self.parts.values()), axis=0), dtype=np.float64)

    @property
    def tok_s(self) -> float | None:
        """The effective rate."""
        return _ratio(1e3 * self.n_tokens, float(self.total_ms.sum()))

    @property
    def decode_tok_s(self) -> float | None:
        """The rate of decoding alone, which nobody experiences; never show it alone."""
        wall = self.parts["compute"] + self.parts["stall"]
        return _ratio(1e3 * self.n_tokens, float(wall.sum()))

    def part_ms(self, name: str) -> float:
        """Milliseconds per token of a part."""
        return float(self.parts[name].mean())

    def smooth_rate(self, window: int, *, decode_only: bool = False) -> _Floats:
        """Tokens a second around each token."""
        parts = self.parts
        ms = parts["compute"] + parts["stall"] if decode_only else self.total_ms
        with np.errstate(divide="ignore"):
            rate = 1e3 / self.smooth(ms, window)
        return np.where(np.isfinite(rate), rate, np.nan)

    # ---- experts ---------------------------------------------------------------------------------

    @cached_property
    def mib(self) -> _Floats:
        """MiB of experts read for each token; NaN where nothing is streamed."""
        read = self.rows("read_bytes")
        if np.isnan(read).all():
            return read
        return self.spread(np.nan_to_num(read) / MIB)

    def smooth_mib(self, window: int) -> _Floats:
        """The same around each token."""
        return self.smooth(self.mib, window)

    @property
    def mib_per_token(self) -> float | None:
        """Mean over the tokens."""
        return _measured(float(self.mib.mean()))

    @cached_property
    def _lookups(self) -> tuple[_Floats, _Floats]:
        """Hits and lookups by row; where they are not counted, shares of one lookup."""
        hits, misses = self.rows("hits"), self.rows("misses")
        if np.isnan(hits).all() or np.isnan(misses).all():
            share = self.rows("cache_hit_pct") / 100
            return np.nan_to_num(share), (~np.isnan(share)).astype(np.float64)
        hits, misses = np.nan_to_num(hits), np.nan_to_num(misses)
        return hits, hits + misses

    def smooth_hit_pct(self, window: int) -> _Floats:
        """Hit rate around each token, in percent."""
        hits, lookups = (self.smooth(self.spread(values), window) for values in self._lookups)
        return 100 * np.divide(hits, lookups, out=np.full_like(hits, np.nan), where=lookups > 0)

    @property
    def hit_pct(self) -> float | None:
        """Hit rate over all tokens, in percent."""
        hits, lookups = (float(values.sum()) for values in self._lookups)
        return _ratio(100 * hits, lookups)

    def per_token(self, name: str) -> float | None:
        """A cost column per token; ``None`` if it was not measured."""
        values = self.rows(name)
        return None if np.isnan(values).all() else float(np.nansum(values)) / self.n_tokens

    # ---- speculation -----------------------------------------------------------------------------

    def _by_decode(self, name: str) -> _Ints:
        values = np.nan_to_num(self.rows(name))
        return np.bincount(self.group, weights=values).astype(np.intp)

    @cached_property
    def drafted(self) -> _Ints:
        """Tokens that each decode verified; where that is not counted, at least what it
        confirmed."""
        return np.maximum(self._by_decode("drafted"), self.accepted)

    @cached_property
    def accepted(self) -> _Ints:
        """Drafted tokens that each decode confirmed."""
        if np.isnan(self.rows("accepted")).all():
            return np.maximum(self._by_decode("mtp_batch") - 1, 0)
        return self._by_decode("accepted")

    @property
    def n_decodes(self) -> int:
        """Decodes, each of which confirmed a group."""
        return len(self.group_size)

    @property
    def speculated(self) -> bool:
        """Whether anything was drafted."""
        return bool(self.drafted.any())

    @property
    def drafted_steps(self) -> int:
        """Decodes that verified a draft."""
        return int(np.count_nonzero(self.drafted))

    @property
    def acceptance_pct(self) -> float | None:
        """Drafted tokens that were confirmed, in percent; ``None`` where that is not counted."""
        if np.isnan(self.rows("drafted")).all():
            return None
        return _ratio(100.0 * float(self.accepted.sum()), float(self.drafted.sum()))

    @property
    def tokens_per_verify(self) -> float | None:
        """Tokens that a decode with a draft confirmed, the free one included."""
        return _ratio(float((self.accepted[self.drafted > 0] + 1).sum()), self.drafted_steps)

    @property
    def confirmed_counts(self) -> _Ints:
        """Decodes with a draft that confirmed 0, 1, 2, ... tokens."""
        return np.bincount(self.accepted[self.drafted > 0] + 1)

    @property
    def acceptance_at(self) -> list[tuple[int, int]]:
        """For each position of a draft, from the first on: how often it came up for decision
        with all before it confirmed, and how often it was confirmed then."""
        if np.isnan(self.rows("drafted")).all():
            return []
        return [
            (
                int(np.count_nonzero((self.drafted > i) & (self.accepted >= i))),
                int(np.count_nonzero(self.accepted > i)),
            )
            for i in range(int(self.drafted.max(initial=0)))
        ]

    def numbers(self) -> dict[str, Any]:
        """What the series come to, as plain JSON types."""
        offered = self.acceptance_at
        return {
            "tokens": self.n_tokens,
            "tok_s": self.tok_s,
            "decode_tok_s": self.decode_tok_s,
            "ms_per_token": {name: self.part_ms(name) for name in PARTS},
            "hit_pct": self.hit_pct,
            "mib_per_token": self.mib_per_token,
            "majflt_per_token": self.per_token("majflt"),
            "cpu_s_per_token": _scaled(self.per_token("cpu_ms"), 1e-3),
            "decodes": self.n_decodes,
            "drafted_steps": self.drafted_steps,
            "acceptance_pct": self.acceptance_pct,
            "tokens_per_verify": self.tokens_per_verify,
            "offered_at": [count for count, _ in offered],
            "accepted_at": [count for _, count in offered],
        }


def _ratio(a: float, b: float) -> float | None:
    return a / b if b > 0 else None


def _measured(value: float) -> float | None:
    return None if np.isnan(value) else value


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
