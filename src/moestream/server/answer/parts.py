"""The parts of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["NOTHING", "Call", "Parts", "Tools"]

#: Tools in OpenAI's shape, as the template was given them.
Tools: TypeAlias = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the model calls, with its arguments as a JSON object."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What became certain: text of the answer, text of the thinking, calls."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()

    def __add__(self, other: Parts) -> Parts:
        """Both, one after the other."""
        return Parts(
            text=self.text + other.text,
            reasoning=self.reasoning + other.reasoning,
            calls=self.calls + other.calls,
        )

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.text or self.reasoning or self.calls)


NOTHING = Parts()
