"""Bodies of requests to ``/api``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

__all__ = [
    "LoadRequest",
    "NewConversation",
    "NewPull",
    "RenamedRun",
    "ReplyRequest",
    "SettingsRequest",
    "TitleRequest",
]

Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400)]

_MOST_SETTINGS = 200


class _Body(BaseModel):
    """A misspelt key, or a word for a number, must not silently do something else."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NewConversation(_Body):
    """``POST /api/conversations``."""

    title: Title | None = None


class TitleRequest(_Body):
    """``PATCH /api/conversations/{id}``."""

    title: Title


class ReplyRequest(_Body):
    """``POST /api/conversations/{id}/reply``.

    Attributes:
        content: what the user says; without it the last message left is answered once more.
        after: cut everything behind this message first; ``null`` cuts everything.
        thinking: whether to reason aloud, instead of the setting.
    """

    content: Annotated[str, StringConstraints(min_length=1, max_length=2_000_000)] | None = None
    after: Annotated[str, StringConstraints(max_length=64)] | None = None
    thinking: bool | None = None

    @property
    def cuts(self) -> bool:
        """Whether ``after`` was given, be it as ``null``."""
        return "after" in self.model_fields_set


class SettingsRequest(_Body):
    """``PUT /api/settings``."""

    values: Annotated[dict[str, Any], Field(max_length=_MOST_SETTINGS)]


class LoadRequest(_Body):
    """``POST /api/engine/load``.

    Attributes:
        model: a reference or path of the list of models; without it, the one chosen last.
        settings: to take before loading.
        cancel: end a turn that is running instead of waiting for it.
    """

    model: Name | None = None
    settings: Annotated[dict[str, Any], Field(max_length=_MOST_SETTINGS)] | None = None
    cancel: bool = False


class NewPull(_Body):
    """``POST /api/pulls``."""

    reference: Name


class RenamedRun(_Body):
    """``PATCH /api/runs/{id}``."""

    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120)]
