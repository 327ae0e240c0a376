"""Other programs as cells: their own output says how fast they were.

A command line goes through ``/bin/sh``. In it, words in braces are replaced, quoted for the shell:
``{model}`` (path of the GGUF), ``{prompt}`` (the text), ``{prompt_file}`` (a file with the text),
``{tokens}`` and ``{threads}``.
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass
from typing import Final

from moestream.bench.result import METRICS
from moestream.errors import ConfigError

__all__ = ["WORDS", "CommandValues", "check_regex", "command_line", "read_metrics"]

#: What may stand in braces in a command line.
WORDS: Final = ("model", "prompt", "prompt_file", "tokens", "threads")
_BRACES: Final = re.compile("{(" + "|".join(WORDS) + ")}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandValues:
    """What the words in braces stand for."""

    model: str
    prompt: str
    prompt_file: str
    tokens: int
    threads: int | None


def command_line(command: str, values: CommandValues) -> str:
    """The command with its words replaced; other braces are the shell's."""
    return _BRACES.sub(lambda match: shlex.quote(str(getattr(values, match[1]))), command)


def check_regex(regex: str) -> re.Pattern[str]:
    """Compile an expression for output.

    It finds tokens a second in its group ``tok_s``, or in its first group; other groups may have
    the names of other metrics.

    Raises:
        ConfigError: it is none, or its groups mean nothing.
    """
    try:
        pattern = re.compile(regex, re.MULTILINE)
    except re.error as error:
        raise ConfigError(f"{regex!r} is no regular expression: {error}") from error
    if not pattern.groups:
        raise ConfigError(f"{regex!r} has no group: put parentheses round the number")
    unknown = sorted(set(pattern.groupindex) - set(METRICS))
    if unknown:
        raise ConfigError(
            f"{regex!r} has a group {unknown[0]!r}, which is no metric; "
            f"name groups like one of {', '.join(METRICS)}"
        )
    return pattern


def read_metrics(output: str, pattern: re.Pattern[str]) -> dict[str, float | None]:
    """The numbers of the last match; programs say the final figure last.

    Raises:
        ConfigError: there is no match, or what was found is no number.
    """
    last = None
    for match in pattern.finditer(output):
        last = match
    if last is None:
        said = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
        raise ConfigError(
            f"the output does not match {pattern.pattern!r}; its last line is {said[:200]!r}"
        )
    groups = {name: last[name] for name in pattern.groupindex}
    if "tok_s" not in groups:
        groups["tok_s"] = last[1]
    return {name: _number(text, pattern) for name, text in groups.items() if text is not None}


def _number(text: str, pattern: re.Pattern[str]) -> float:
    try:
        value = float(text.replace(",", "" if "." in text else "."))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(f"{pattern.pattern!r} found {text[:80]!r}, which is no number")
    return value
