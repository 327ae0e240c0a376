"""What a recording says, as data: the header, the documentation and the glossary are made from it.

A consumer reads by name: the order of columns means nothing after the first seven, and columns
and keys are only ever added. No value (empty in CSV, ``null`` in JSON) is "not measured, or does
not apply"; that is never written as zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moestream.telemetry.column import Column, Plain, Value
from moestream.telemetry.run_keys import DONE_KEYS, PREAMBLE_KEYS
from moestream.telemetry.token_columns import TOKEN_COLUMNS

__all__ = [
    "DONE_KEYS",
    "PREAMBLE_KEYS",
    "TOKEN_COLUMNS",
    "Column",
    "GlossaryEntry",
    "csv_header",
    "glossary",
    "plain_values",
    "text_values",
]

_TABLES: Final = (("token", TOKEN_COLUMNS), ("load", PREAMBLE_KEYS), ("done", DONE_KEYS))


def csv_header() -> str:
    """The header row, without a line end."""
    return ",".join(column.name for column in TOKEN_COLUMNS)


def plain_values(table: Sequence[Column], values: Mapping[str, Value]) -> dict[str, Plain]:
    """``values`` by the names of JSON; a key of the table that they lack is ``None``."""
    return {column.json_name: column.plain(values.get(column.name)) for column in table}


def text_values(table: Sequence[Column], values: Mapping[str, Value]) -> list[tuple[str, str]]:
    """``values`` by the names of CSV, in the order of the table."""
    return [(column.name, column.text(values.get(column.name))) for column in table]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlossaryEntry:
    """What a name means wherever it appears.

    Attributes:
        name: as in CSV.
        json_name: as in JSON lines.
        where: ``token`` rows, ``load`` (the preamble) or ``done`` (the trailer), each with its
            column, in this order.
    """

    name: str
    json_name: str
    where: Mapping[str, Column]

    @property
    def unit(self) -> str:
        """The unit, the same everywhere."""
        return next(iter(self.where.values())).unit

    @property
    def meaning(self) -> str:
        """The meaning where it appears first."""
        return next(iter(self.where.values())).meaning


def glossary() -> dict[str, GlossaryEntry]:
    """Every name of a recording, in CSV's spelling."""
    found: dict[str, dict[str, Column]] = {}
    for place, table in _TABLES:
        for column in table:
            found.setdefault(column.name, {})[place] = column
    return {
        name: GlossaryEntry(name=name, json_name=next(iter(where.values())).json_name, where=where)
        for name, where in found.items()
    }
