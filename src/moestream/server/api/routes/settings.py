"""Every switch: what it does, what it is, and what waits for a reload."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from moestream.server.api.schemas import SettingsRequest
from moestream.server.api.services import Services
from moestream.settings import HELP, SETTINGS, Setting
from moestream.settings.values import applies

__all__ = ["add_routes"]


def add_routes(router: APIRouter, services: Services) -> None:
    """Read and change settings."""

    @router.get("/settings", tags=["settings"])
    async def read() -> dict[str, Any]:
        """All settings with what is known about them."""
        return _all(services)

    @router.put("/settings", tags=["settings"])
    async def change(wanted: SettingsRequest) -> dict[str, Any]:
        """Change some; all of them, or none if one cannot be taken."""
        await services.change_settings(wanted.values)
        return _all(services)


def _all(services: Services) -> dict[str, Any]:
    values = services.settings.values
    return {
        "schema": [_described(setting) for setting in SETTINGS],
        "values": values,
        "applies": {setting.key: applies(setting, values) for setting in SETTINGS},
        "pending_reload": services.pending_reload(),
        "notices": services.settings.notices,
    }


def _described(setting: Setting) -> dict[str, Any]:
    choices = setting.choices
    conditions = setting.applies_if
    return {
        "key": setting.key,
        "label": setting.label,
        "help": setting.help,
        "kind": setting.kind,
        "choices": None if choices is None else list(choices),
        "choice_help": {choice: HELP[choice] for choice in choices or () if choice in HELP},
        "minimum": setting.minimum,
        "maximum": setting.maximum,
        "default": setting.default,
        "nullable": setting.nullable,
        "null_means": setting.null_means,
        "group": setting.group,
        "experimental": setting.experimental,
        "lossy": setting.lossy,
        "takes": setting.takes,
        "applies_if": None
        if conditions is None
        else {key: list(wanted) for key, wanted in conditions.items()},
    }
