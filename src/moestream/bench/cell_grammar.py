"""Cells as text: ``off,mtp:1-4,cache=0/auto/2000,synth:0.4/0.6@draft=3``.

A list of cells, separated by commas. A cell is a *head*, and settings behind ``@``::

    off              the configuration itself, with which all others are compared
    same             off once more: an A/A campaign must find no difference
    serial           compute waits for the reads (overlap=off)
    plain            llama.cpp alone over the mapped file, no streaming of ours
    mtp:N            the model's own MTP head drafts N tokens
    ngram:N          what followed the same words before is drafted
    synth:F          each draft is confirmed with probability F, whatever the model says
    cache=2000       any setting can be a head

Settings, of which a cell takes any number::

    cache=MIB|auto  ceil=MIB   lanes=N     prefetch=N   drop=F       overlap=on|off
    direct=on|off   stream=on|off          dense=mmap|warm|anon      repack=on|off
    threads=N       ubatch=N   ctx=N       topk=N
    mtp only: p=F   ngram only: min=N max=N             synth only: draft=N source=mtp|ngram

Where a value stands, several may stand: ``a/b/c``, and for whole numbers ``1-4``. Each value makes
a cell of its own, all combinations of them, the last one changing fastest::

    mtp:1-4                    mtp:1, mtp:2, mtp:3, mtp:4
    ngram:3@min=3/5            ngram:3@min=3, ngram:3@min=5
    cache=500/auto@lanes=1/2   cache=500@lanes=1, cache=500@lanes=2, cache=auto@lanes=1, ...
    synth:0.4/0.8@draft=3      synth:0.4@draft=3, synth:0.8@draft=3

Without a value ``mtp`` and ``ngram`` draft as many tokens as the program does by default. ``synth``
fills its drafts up to ``draft`` tokens, whatever its ``source`` (ngram) finds.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from moestream.bench.cells import OFF, SAME, Cell, CellKind, Setting
from moestream.config import EngineConfig, SpeculationConfig
from moestream.errors import ConfigError

__all__ = ["MOST_CELLS", "parse_cells"]

#: A list that makes more cells than this is taken for a mistake.
MOST_CELLS: Final = 256


class _WrongValue(Exception):
    """What a value should have been."""


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise _WrongValue("a whole number")
    return int(text)


def _fraction(text: str) -> float:
    try:
        value = float(text) if re.fullmatch(r"[0-9.eE+-]{1,20}", text) else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _WrongValue("a number")
    return value


def _whole_or_auto(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return _whole(text)
    except _WrongValue:
        raise _WrongValue("a size in MiB or auto") from None


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise _WrongValue("on or off")
    return text == "on"


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise _WrongValue(" or ".join(words))
        return text

    return read


@dataclass(frozen=True, slots=True)
class _Value:
    """Where a value goes and how it is read."""

    key: str
    read: Callable[[str], Setting]

    @property
    def ranges(self) -> bool:
        return self.read in (_whole, _whole_or_auto)


_SHAPE: Final = {
    "threads": _Value("threads", _whole),
    "ubatch": _Value("n_ubatch", _whole),
    "ctx": _Value("n_ctx", _whole),
}

_GENERAL: Final = {
    "cache": _Value("streaming.cache_mb", _whole_or_auto),
    "ceil": _Value("streaming.cache_ceil_mb", _whole),
    "lanes": _Value("streaming.io_threads", _whole),
    "prefetch": _Value("streaming.prefetch", _whole),
    "drop": _Value("streaming.drop_cold_experts", _fraction),
    "overlap": _Value("streaming.overlap", _switch),
    "direct": _Value("streaming.o_direct", _switch),
    "stream": _Value("streaming.moe_stream", _switch),
    "dense": _Value("streaming.dense_weights", _one_of("mmap", "warm", "anon")),
    "repack": _Value("streaming.repack", _switch),
    "topk": _Value("n_expert_used", _whole),
    **_SHAPE,
}

_DRAFT: Final = _Value("speculation.draft", _whole)


@dataclass(frozen=True, slots=True)
class _Head:
    """A word that a cell may begin with.

    Attributes:
        fixed: what it always sets.
        value: what its value after the colon sets; ``None`` if it takes none.
        settings: settings that may follow.
        default: the value if there is none; ``None`` if there must be one.
    """

    fixed: dict[str, Setting]
    value: _Value | None
    settings: dict[str, _Value]
    default: Setting | None = None
    kind: CellKind = "engine"


_WIDTH: Final = SpeculationConfig().draft

_HEADS: Final = {
    OFF: _Head({}, None, {}),
    SAME: _Head({}, None, {}),
    "serial": _Head(
        {"streaming.overlap": False},
        None,
        {name: value for name, value in _GENERAL.items() if name != "overlap"},
    ),
    "plain": _Head({}, None, _SHAPE, kind="plain"),
    "mtp": _Head(
        {"speculation.source": "mtp"},
        _DRAFT,
        {"p": _Value("speculation.mtp_p_min", _fraction), **_GENERAL},
        _WIDTH,
    ),
    "ngram": _Head(
        {"speculation.source": "ngram"},
        _DRAFT,
        {
            "min": _Value("speculation.ngram_min_match", _whole),
            "max": _Value("speculation.ngram_max_match", _whole),
            **_GENERAL,
        },
        _WIDTH,
    ),
    "synth": _Head(
        {"speculation.source": "ngram"},
        _Value("speculation.synthetic_acceptance", _fraction),
        {
            "draft": _DRAFT,
            "source": _Value("speculation.source", _one_of("ngram", "mtp")),
            **_GENERAL,
        },
    ),
}

_ONLY_HEADS: Final = ("mtp", "ngram", "synth")


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of the text, and where it begins in it (from 0)."""

    text: str
    at: int

    def split(self, separator: str) -> Iterator[_Part]:
        at = self.at
        for text in self.text.split(separator):
            yield _Part(text, at)._stripped()
            at += len(text) + len(separator)

    def partition(self, separator: str) -> tuple[_Part, _Part | None]:
        before, found, after = self.text.partition(separator)
        rest = _Part(after, self.at + len(before) + len(separator))._stripped() if found else None
        return _Part(before, self.at)._stripped(), rest

    def _stripped(self) -> _Part:
        text = self.text.lstrip()
        return _Part(text.rstrip(), self.at + len(self.text) - len(text))


def parse_cells(text: str) -> tuple[Cell, ...]:
    """Read a list of cells; the grammar is the module's docstring.

    Raises:
        ConfigError: the text is none; the message says what is wrong, where, and what to write.
    """
    return _Parser(text).cells()


@dataclass(frozen=True, slots=True)
class _Choice:
    """One value of a cell: what it sets, and how it stands in the cell's name."""

    key: str
    value: Setting
    name: str


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text

    def cells(self) -> tuple[Cell, ...]:
        made: dict[str, Cell] = {}
        for part in _Part(self._text, 0).split(","):
            for cell in self._expand(part):
                if cell.name in made:
                    raise self._wrong(
                        part, f"cell {cell.name!r} stands there twice", "write it once"
                    )
                made[cell.name] = cell
                if len(made) > MOST_CELLS:
                    raise self._wrong(part, f"more than {MOST_CELLS} cells", "write fewer values")
        return tuple(made.values())

    def _wrong(self, part: _Part, what: str, write: str) -> ConfigError:
        return ConfigError(f"cells: {what}, at character {part.at + 1} of {self._text!r}; {write}")

    def _expand(self, part: _Part) -> Iterator[Cell]:
        first, *rest = part.split("@")
        head, stem, choices = self._first(first)
        seen = {choice.key for choice in itertools.chain(*choices)}
        for setting in rest:
            name, values = setting.partition("=")
            wanted = self._setting(name, head, first)
            if wanted.key in seen:
                raise self._wrong(name, f"{name.text!r} is set twice in this cell", "set it once")
            seen.add(wanted.key)
            choices.append(self._choices(setting, wanted, f"@{name.text}=", values))
        for combination in itertools.product(*choices):
            overrides = dict(head.fixed)
            overrides.update((choice.key, choice.value) for choice in combination)
            name_of_cell = stem + "".join(choice.name for choice in combination)
            try:
                cell = Cell(name_of_cell, overrides, kind=head.kind)
                cell.apply(EngineConfig())
            except ConfigError as error:
                raise self._wrong(part, str(error), "change the cell") from error
            yield cell

    def _first(self, first: _Part) -> tuple[_Head, str, list[list[_Choice]]]:
        """The head, what a cell's name begins with, and the head's values."""
        word, values = first.partition("=")
        if values is not None:
            head = _Head({}, None, _GENERAL)
            wanted = self._setting(word, head, None)
            return head, "", [self._choices(first, wanted, f"{word.text}=", values)]
        word, values = first.partition(":")
        if not word.text:
            raise self._wrong(word, "a cell is missing", f"write one of {', '.join(_HEADS)}")
        if word.text not in _HEADS:
            raise self._unknown(word)
        head, prefix = _HEADS[word.text], f"{word.text}:"
        if head.value is None:
            if values is not None:
                raise self._wrong(values, f"{word.text!r} takes no value", f"write {word.text}")
            return head, word.text, []
        if values is None and head.default is not None:
            return head, "", [[_Choice(head.value.key, head.default, f"{prefix}{head.default}")]]
        return head, "", [self._choices(first, head.value, prefix, values)]

    def _unknown(self, word: _Part) -> ConfigError:
        if word.text in _GENERAL:
            return self._wrong(word, f"{word.text!r} has no value", f"write {word.text}=VALUE")
        near = difflib.get_close_matches(word.text, [*_HEADS, *_GENERAL], n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return self._wrong(
            word,
            f"there is no cell {word.text!r}",
            f"{hint}write one of {', '.join(_HEADS)}, or a setting such as cache=2000",
        )

    def _setting(self, name: _Part, head: _Head, first: _Part | None) -> _Value:
        if name.text in head.settings:
            return head.settings[name.text]
        if first is not None and not head.settings:
            raise self._wrong(name, f"{first.text!r} takes no settings", "write it alone")
        owners = [word for word in _ONLY_HEADS if name.text in _HEADS[word].settings]
        if owners and name.text not in _GENERAL:
            raise self._wrong(
                name,
                f"{name.text!r} is a setting of {' and '.join(owners)} only",
                f"write {owners[0]}:VALUE@{name.text}=VALUE",
            )
        near = difflib.get_close_matches(name.text, list(head.settings), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise self._wrong(
            name,
            f"there is no setting {name.text!r} here",
            f"{hint}write one of {', '.join(head.settings)}",
        )

    def _choices(
        self, whole: _Part, wanted: _Value, prefix: str, values: _Part | None
    ) -> list[_Choice]:
        if values is None or not values.text:
            raise self._wrong(whole, f"{whole.text!r} has no value", f"write {prefix}VALUE")
        found: list[_Choice] = []
        for part in values.split("/"):
            for text in self._range(part) if wanted.ranges else [part.text]:
                try:
                    value = wanted.read(text)
                except _WrongValue as error:
                    raise self._wrong(part, f"{text!r} is not {error}", f"write {error}") from None
                found.append(_Choice(wanted.key, value, prefix + _shown(text, value)))
        return found

    def _range(self, part: _Part) -> list[str]:
        match = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", part.text)
        if match is None:
            return [part.text]
        low, high = int(match[1]), int(match[2])
        if not low < high <= low + MOST_CELLS:
            raise self._wrong(
                part,
                f"{part.text!r} is no range of 2 to {MOST_CELLS} numbers",
                "write the smaller number first, such as 1-4",
            )
        return [str(number) for number in range(low, high + 1)]


def _shown(text: str, value: Setting) -> str:
    """A value as a cell's name has it: the same number always looks the same."""
    if isinstance(value, bool | str):
        return text
    return str(value) if isinstance(value, int) else f"{value:g}"
