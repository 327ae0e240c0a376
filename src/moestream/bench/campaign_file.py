"""Campaigns as TOML files, so that one command repeats one::

    name = "streaming"
    model = "giant.gguf"                 # relative to the file; the command line may say otherwise
    base = "threads=2@ctx=512"           # what all cells share, written like a cell's settings
    cells = ["off", "lanes=1/2/4", "cache=0/auto/2000"]
    workloads = ["prose", "copy"]        # or text files, relative to the file
    rounds = 5
    tokens = 128
    ram_ratio = 1.6                      # or memory_limit = "6GiB"

    [[cell]]                             # a cell with a name of its own
    name = "small but eager"
    is = "cache=500@prefetch=2"

    [[command]]                          # another program
    name = "llama-cli"
    run = "llama-cli -m giant.gguf -n 128 -p Hello"
    regex = "eval time.* ([0-9.]+) tokens per second"

Every key may be left out, and the command line wins over the file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from moestream.bench.cell_grammar import parse_cells
from moestream.bench.cells import Cell, command_cell
from moestream.bench.workloads import BUILT_IN
from moestream.errors import ConfigError

__all__ = ["CampaignFile", "read_campaign_file"]

_LONGEST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFile:
    """What a campaign file says; ``None`` and empty is "nothing".

    Attributes:
        name: of the campaign.
        model: path or reference of the model, a path resolved against the file's folder.
        base: what all cells share: :meth:`Cell.apply` it before any of them.
        cells: all of them, other programs too.
        workloads: names or paths, paths resolved against the file's folder.
        rounds: how often each cell runs.
        tokens: tokens of a run.
        memory_limit: as the option of that name takes it.
        ram_ratio: size of the model over the memory it is given.
    """

    name: str | None = None
    model: str | None = None
    base: Cell | None = None
    cells: tuple[Cell, ...] = ()
    workloads: tuple[str, ...] = ()
    rounds: int | None = None
    tokens: int | None = None
    memory_limit: str | None = None
    ram_ratio: float | None = None


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "name": (str,),
    "model": (str,),
    "base": (str,),
    "cells": (list,),
    "workloads": (list,),
    "rounds": (int,),
    "tokens": (int,),
    "memory_limit": (str,),
    "ram_ratio": (float, int),
    "cell": (list,),
    "command": (list,),
}
_WORDS: Final = {str: "text", list: "a list", int: "a whole number", float: "a number"}


def read_campaign_file(path: Path) -> CampaignFile:
    """Read a campaign file; raises :class:`ConfigError` naming the file and what is wrong in it."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LONGEST_BYTES + 1)
        if len(raw) > _LONGEST_BYTES:
            raise ConfigError(f"longer than {_LONGEST_BYTES} bytes; is this a campaign file?")
        return _read(tomllib.loads(raw.decode("utf-8")), path.parent)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as a campaign file: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _read(data: Mapping[str, Any], folder: Path) -> CampaignFile:
    _check(data, _KINDS, "a campaign file")
    name = data.get("name")
    if name is not None and (not name.strip() or not name.isprintable()):
        raise ConfigError(f"name must be printable text, got {name!r}")
    model = data.get("model")
    if model is not None and (folder / model).is_file():
        model = str(folder / model)
    workloads = _texts(data, "workloads")
    return CampaignFile(
        name=name,
        model=model,
        base=_base(data),
        cells=(*_listed(_texts(data, "cells")), *_named(data), *_commands(data)),
        workloads=tuple(w if w in BUILT_IN else str(folder / w) for w in workloads),
        rounds=data.get("rounds"),
        tokens=data.get("tokens"),
        memory_limit=data.get("memory_limit"),
        ram_ratio=data.get("ram_ratio"),
    )


def _check(
    data: Mapping[str, Any],
    kinds: Mapping[str, tuple[type, ...]],
    what: str,
    needed: tuple[str, ...] = (),
) -> None:
    for key, value in data.items():
        if key not in kinds:
            raise ConfigError(f"{what} has no {key!r}; it may have {', '.join(kinds)}")
        if isinstance(value, bool) or not isinstance(value, kinds[key]):
            wanted = _WORDS[kinds[key][0]]
            raise ConfigError(f"{key} must be {wanted}, got {value!r}")
    for key in needed:
        if key not in data:
            raise ConfigError(f"{what} needs {' and '.join(needed)}, {key!r} is missing")


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = data.get(key, [])
    if not all(isinstance(value, str) for value in values):
        raise ConfigError(f"{key} must be a list of texts, got {values!r}")
    return tuple(values)


def _listed(texts: tuple[str, ...]) -> tuple[Cell, ...]:
    return tuple(cell for text in texts for cell in parse_cells(text))


def _one(text: str, what: str) -> Cell:
    cells = parse_cells(text)
    if len(cells) != 1:
        raise ConfigError(f"{what} must be one cell, {text!r} makes {len(cells)}")
    return cells[0]


def _base(data: Mapping[str, Any]) -> Cell | None:
    if "base" not in data:
        return None
    base = _one(data["base"], "base")
    if base.kind != "engine":
        raise ConfigError(
            f"base is what all cells share, which {base.name!r} cannot be; write settings, "
            'such as "threads=2@cache=2000"'
        )
    return base


def _tables(
    data: Mapping[str, Any], key: str, needed: tuple[str, ...]
) -> tuple[Mapping[str, str], ...]:
    for table in data.get(key, []):
        if not isinstance(table, dict):
            raise ConfigError(f"{key} must be tables, written [[{key}]], got {table!r}")
        _check(table, dict.fromkeys(needed, (str,)), f"[[{key}]]", needed)
    return tuple(data.get(key, []))


def _named(data: Mapping[str, Any]) -> tuple[Cell, ...]:
    return tuple(
        replace(_one(table["is"], f"[[cell]] {table['name']!r}"), name=table["name"])
        for table in _tables(data, "cell", ("name", "is"))
    )


def _commands(data: Mapping[str, Any]) -> tuple[Cell, ...]:
    return tuple(
        command_cell(table["name"], table["run"], table["regex"])
        for table in _tables(data, "command", ("name", "run", "regex"))
    )
