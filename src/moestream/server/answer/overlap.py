"""How much of the end of a text may turn out to be the beginning of a marker."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["held_back"]


def held_back(text: str, markers: Iterable[str]) -> int:
    """Length of the longest end of ``text`` that begins a marker without being all of it."""
    longest = 0
    for marker in markers:
        # Most texts end in a character that the marker does not begin with.
        start = text.rfind(marker[0], max(0, len(text) - len(marker) + 1))
        if start < 0:
            continue
        for size in range(min(len(marker) - 1, len(text)), longest, -1):
            if text.endswith(marker[:size]):
                longest = size
                break
    return longest
