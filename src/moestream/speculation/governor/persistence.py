"""What a session has learned, for the next one on the same model, machine and thread count.

Small JSON: ``{"format": ..., "version": 1, "key": ..., "width": ..., "curves": ..., "head": ...,
"matches": ...}``. Reading never fails: content that is old, foreign, cut off or hostile is
answered with a reason in words, and the governor begins uninformed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

__all__ = ["Knowledge", "decode", "encode"]

_FORMAT: Final = "moestream-governor"
_VERSION: Final = 1
_MOST_TEXT: Final = 1 << 20
_MOST_NUMBER: Final = 1e12

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is kept.

    Attributes:
        curves: of each cost curve that was measured, level with shape, and deviations of the shape.
        head: weights of the calibration's grid, and frequencies of its bins.
        matches: weights of each match length's levels.
    """

    curves: Mapping[str, Rows]
    head: Rows
    matches: Rows


def encode(knowledge: Knowledge, *, key: str, width: int) -> str:
    """As text; ``key`` names model, machine and threads."""
    return json.dumps(
        {
            "format": _FORMAT,
            "version": _VERSION,
            "key": key,
            "width": width,
            "curves": {name: _short(rows) for name, rows in knowledge.curves.items()},
            "head": _short(knowledge.head),
            "matches": _short(knowledge.matches),
        },
        separators=(",", ":"),
    )


def decode(text: str, *, key: str, width: int, like: Knowledge) -> Knowledge | str:
    """Read back, or say why not.

    Args:
        text: what :func:`encode` has made, or anything else.
        key: what it must have been made for.
        width: likewise.
        like: has every curve that there may be, and everything in its right size.
    """
    found = _parse(text)
    if isinstance(found, str):
        return found
    for name, wanted, what in (
        ("format", _FORMAT, "something else"),
        ("version", _VERSION, "of another version"),
        ("key", key, "of another model, machine or number of threads"),
        ("width", width, "for another draft width"),
    ):
        if found.get(name) != wanted:
            return f"what was stored is {what}"
    return _knowledge(found, like) or "what was stored is damaged"


def _parse(text: str) -> dict[str, Any] | str:
    if len(text) > _MOST_TEXT:
        return "what was stored is too large to be ours"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "what was stored cannot be read"
    return found if isinstance(found, dict) else "what was stored is something else"


def _knowledge(found: Mapping[str, Any], like: Knowledge) -> Knowledge | None:
    stored = found.get("curves")
    head, matches = _rows(found.get("head"), like.head), _rows(found.get("matches"), like.matches)
    if not isinstance(stored, dict) or head is None or matches is None:
        return None
    curves: dict[str, Rows] = {}
    for name, shape in like.curves.items():
        if name in stored:
            rows = _rows(stored[name], shape)
            if rows is None or rows[0][0] <= 0.0 or min(rows[0][1:], default=1.0) < 0.1:
                return None
            curves[name] = rows
    if any(sum(row) <= 0.0 for row in (*head, *matches)):
        return None
    return Knowledge(curves=curves, head=head, matches=matches)


def _short(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[float(f"{value:.5g}") for value in row] for row in rows]


def _rows(found: Any, like: Sequence[Sequence[float]]) -> Rows | None:
    """Rows of non-negative numbers in the sizes of ``like``, or nothing."""
    if not isinstance(found, list) or len(found) != len(like):
        return None
    rows: list[tuple[float, ...]] = []
    for row, pattern in zip(found, like, strict=True):
        if not isinstance(row, list) or len(row) != len(pattern):
            return None
        values: list[float] = []
        for value in row:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return None
            if not 0.0 <= value <= _MOST_NUMBER or not isfinite(value):
                return None
            values.append(float(value))
        rows.append(tuple(values))
    return tuple(rows)
