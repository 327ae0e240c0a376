"""Cells: what is compared. A cell is a name and what it changes in the campaign's configuration.

:mod:`moestream.bench.cell_grammar` reads cells from text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from moestream.config import EngineConfig, SpeculationConfig
from moestream.errors import ConfigError

__all__ = ["OFF", "SAME", "Cell", "CellKind", "Setting", "command_cell", "command_cells"]

CellKind = Literal["engine", "plain", "command"]
Setting = int | float | str | bool

#: Name of the cell that all others are compared with.
OFF: Final = "off"

#: Name of the cell that is ``off`` once more.
SAME: Final = "same"

_SECTIONS: Final = ("streaming", "speculation")
_LONGEST_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class Cell:
    """One configuration of a comparison.

    Attributes:
        name: what it is called in tables; unique within a campaign.
        overrides: fields of :class:`~moestream.EngineConfig` that it changes, by dotted name
            (``"threads"``, ``"streaming.cache_mb"``).
        kind: ``"engine"`` is a session of ours, ``"plain"`` is llama.cpp alone over the mapped
            file, ``"command"`` is another program.
        command: command line of another program.
        regex: finds tokens a second in its output, in the group ``tok_s`` or the first one.
    """

    name: str
    overrides: Mapping[str, Setting]
    kind: CellKind = "engine"
    command: str | None = None
    regex: str | None = None

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable() or len(self.name) > _LONGEST_NAME:
            raise ConfigError(
                f"a cell's name must be 1 to {_LONGEST_NAME} printable characters, "
                f"got {self.name!r}"
            )
        given = {self.command is not None, self.regex is not None}
        if given != {self.kind == "command"}:
            raise ConfigError(
                f"cell {self.name!r}: a command and a regular expression for its output belong "
                "together, and to no other kind of cell"
            )

    @property
    def sections(self) -> frozenset[str]:
        """Sections of the configuration that it changes; ``""`` is the outermost."""
        return frozenset(key.rpartition(".")[0] for key in self.overrides)

    def without(self, section: str) -> Mapping[str, Setting]:
        """The overrides outside a section."""
        return {k: v for k, v in self.overrides.items() if k.rpartition(".")[0] != section}

    def apply(self, base: EngineConfig) -> EngineConfig:
        """``base`` with this cell's changes, checked; raises :class:`ConfigError`.

        A cell that drafts starts from the default drafting settings, and one with a cache of its
        own forgets the base's ceiling: what belonged to another choice would contradict this one.
        """
        config = base
        if "speculation" in self.sections:
            config = replace(config, speculation=SpeculationConfig())
        if "streaming.cache_mb" in self.overrides:
            config = replace(config, streaming=replace(config.streaming, cache_ceil_mb=None))
        try:
            for key, value in self.overrides.items():
                config = _changed(config, key, value)
            config.validate()
        except ConfigError as error:
            raise ConfigError(f"cell {self.name!r}: {error}") from error
        return config

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        values: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "overrides": dict(self.overrides),
        }
        if self.kind == "command":
            values |= {"command": self.command, "regex": self.regex}
        return values

    @classmethod
    def from_json(cls, value: object) -> Cell:
        """Read what :meth:`to_json` wrote; raises :class:`ConfigError` if it is something else."""
        if not isinstance(value, dict):
            raise ConfigError(f"a cell must be a JSON object, found {type(value).__name__}")
        kinds: dict[object, CellKind] = {kind: kind for kind in get_args(CellKind)}
        name, kind = value.get("name"), kinds.get(value.get("kind"))
        overrides = value.get("overrides")
        command, regex = value.get("command"), value.get("regex")
        if (
            not isinstance(name, str)
            or kind is None
            or not isinstance(overrides, dict)
            or not all(
                isinstance(k, str) and isinstance(v, int | float | str | bool)
                for k, v in overrides.items()
            )
            or not isinstance(command, str | None)
            or not isinstance(regex, str | None)
        ):
            raise ConfigError(
                f"a cell needs a name, a kind of {', '.join(kinds.values())} and overrides, "
                f"found {value!r}; the results file is damaged"
            )
        return cls(name=name, overrides=overrides, kind=kind, command=command, regex=regex)


def _changed(config: EngineConfig, key: str, value: Setting) -> EngineConfig:
    section, _, name = key.rpartition(".")
    part: Any = getattr(config, section) if section in _SECTIONS else config
    if section not in ("", *_SECTIONS) or name in ("", *_SECTIONS) or not hasattr(part, name):
        raise ConfigError(f"there is no setting {key!r}")
    changed: Any = replace(part, **{name: value})
    return replace(config, **{section: changed}) if section else changed


def command_cells(commands: Sequence[str], regexes: Sequence[str]) -> tuple[Cell, ...]:
    """Cells of other programs, from ``NAME=COMMAND`` each and one expression for all or one each.

    Raises:
        ConfigError: a name or a command is missing, an expression is none, has no group, or there
            is not one for each.
    """
    if not commands:
        if regexes:
            raise ConfigError("--cell-cmd-regex has no effect without --cell-cmd; drop it")
        return ()
    if len(regexes) not in (1, len(commands)):
        raise ConfigError(
            f"{len(commands)} --cell-cmd need one --cell-cmd-regex for all or one each, "
            f"got {len(regexes)}; it finds tokens a second in the program's output, such as "
            r"'eval:.* ([0-9.]+) tokens per second'"
        )
    each = [*regexes] if len(regexes) == len(commands) else [*regexes] * len(commands)
    cells = []
    for text, expression in zip(commands, each, strict=True):
        name, equals, command = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise ConfigError(f"--cell-cmd must be NAME=COMMAND, got {text!r}")
        cells.append(command_cell(name, command, expression))
    return tuple(cells)


def command_cell(name: str, command: str, regex: str) -> Cell:
    """The cell of another program; raises :class:`ConfigError` if it cannot be one."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(
            f"cell {name!r}: the command {command!r} cannot be split into words ({error}); "
            "close the quotation"
        ) from error
    if not words:
        raise ConfigError(f"cell {name!r} has no command; write the program and its arguments")
    try:
        groups = re.compile(regex).groups
    except re.error as error:
        raise ConfigError(f"cell {name!r}: {regex!r} is no regular expression: {error}") from error
    if groups == 0:
        raise ConfigError(
            f"cell {name!r}: the expression {regex!r} has no group; put parentheses round the "
            "number"
        )
    return Cell(name, {}, kind="command", command=command, regex=regex)
