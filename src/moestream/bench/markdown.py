"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns with words in them are set to the left, numbers to the right."""
    lines = [[_cell(text) for text in row] for row in rows]
    words = [i == 0 or any(_has_words(line[i]) for line in lines) for i in range(len(header))]
    rule = ["---" if word else "---:" for word in words]
    return "\n".join(f"| {' | '.join(line)} |" for line in (list(header), rule, *lines))


def _cell(text: str) -> str:
    """On one line, and without what would end the cell."""
    return " ".join(text.split()).replace("|", "\\|")


def _has_words(text: str) -> bool:
    return any(c.isalpha() for c in text)
