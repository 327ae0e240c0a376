"""One number of the telemetry: its name, what it means, and how it is written down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

__all__ = ["Column", "Form", "Plain", "Value"]

#: What a column or a key may hold; ``None`` is "not measured, or does not apply", never zero.
Value = int | float | str | bool | tuple[int, ...] | None

#: The same as JSON takes it.
Plain = int | float | str | bool | list[int] | None

#: ``int``, ``float`` (so many digits), ``text`` (one word in rows), ``flag`` (0 or 1), ``counts``
#: (numbers joined by ``:``).
Form = Literal["int", "float", "text", "flag", "counts"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the rows, or a key of the preamble or the trailer.

    Attributes:
        name: the same in CSV and JSON, except that ``/tok`` is ``_tok`` there.
        unit: empty for words and for plain numbers.
        meaning: one sentence.
        unmeasured: when there is no value; empty if there always is one.
        form: how a value looks.
        digits: after the decimal point, of a ``float``.
    """

    name: str
    unit: str
    meaning: str
    unmeasured: str = ""
    form: Form = "int"
    digits: int = 0

    @property
    def json_name(self) -> str:
        """The key in JSON."""
        return self.name.replace("/", "_")

    def plain(self, value: Value) -> Plain:
        """The value as JSON takes it, rounded as CSV rounds it."""
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return None
        if isinstance(value, tuple):
            return list(value)
        if self.form == "float" and isinstance(value, (int, float)):
            return round(float(value), self.digits)
        return value

    def text(self, value: Value) -> str:
        """The value as CSV takes it: empty if there is none."""
        if value is None:
            return ""
        if self.form == "float" and isinstance(value, (int, float)):
            return f"{value:.{self.digits}f}" if math.isfinite(value) else ""
        if isinstance(value, bool):
            return "1" if value else "0"
        if isinstance(value, tuple):
            return ":".join(map(str, value))
        if isinstance(value, str):
            # A name out of a model file must begin neither a line nor a key of its own.
            clean = "".join(c if c.isprintable() and c != "=" else " " for c in value)
            return " ".join(clean.split())
        return str(value)
