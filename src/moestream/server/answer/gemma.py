"""Values as Gemma 4 writes them: like JSON, with bare keys and strings in marks of their own."""

from __future__ import annotations

import json
import re
from typing import Any, Final

__all__ = ["gemma_value"]

_QUOTE: Final = '<|"|>'
_SCALAR: Final = re.compile(r"[^,{}\[\]]+")
_KEY: Final = re.compile(r"\s*([^:{}\[\],]+?)\s*:")
_DEPTH: Final = 32


def gemma_value(text: str, at: int, depth: int = 0) -> tuple[Any, int]:
    """The value that begins at ``at``, and where it ends.

    Raises:
        ValueError: there is none.
    """
    if depth > _DEPTH:
        raise ValueError("values are nested too deeply")
    at = _skip(text, at)
    for quote in (_QUOTE, '"'):
        if text.startswith(quote, at):
            return _string(text, at + len(quote), quote)
    if text.startswith("{", at):
        return _members(text, at + 1, depth)
    if text.startswith("[", at):
        return _items(text, at + 1, depth)
    found = _SCALAR.match(text, at)
    if found is None:
        raise ValueError("a value is missing")
    word = found[0].strip()
    try:
        return json.loads(word), found.end()
    except ValueError:
        return word, found.end()


def _string(text: str, at: int, quote: str) -> tuple[str, int]:
    end = text.find(quote, at)
    if end < 0:
        raise ValueError("a string does not end")
    return text[at:end], end + len(quote)


def _members(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at = _skip(text, at)
    while not text.startswith("}", at):
        if text.startswith((_QUOTE, '"'), at):
            quote = _QUOTE if text.startswith(_QUOTE, at) else '"'
            key, at = _string(text, at + len(quote), quote)
            at = _skip(text, at)
            if not text.startswith(":", at):
                raise ValueError("a key has no value")
            at += 1
        else:
            match = _KEY.match(text, at)
            if match is None:
                raise ValueError("a key is missing")
            key, at = match[1], match.end()
        found[key], at = gemma_value(text, at, depth + 1)
        at = _next(text, at, "}")
    return found, at + 1


def _items(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _skip(text, at)
    while not text.startswith("]", at):
        value, at = gemma_value(text, at, depth + 1)
        found.append(value)
        at = _next(text, at, "]")
    return found, at + 1


def _next(text: str, at: int, end: str) -> int:
    at = _skip(text, at)
    if text.startswith(",", at):
        return _skip(text, at + 1)
    if not text.startswith(end, at):
        raise ValueError(f"{end} is missing")
    return at


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
