"""How an option or an argument is declared: always with help, and options with a variable."""

from __future__ import annotations

from typing import Any

import typer

__all__ = ["argument", "option"]

ENV_PREFIX = "MOESTREAM_"


def _variable(declarations: tuple[str, ...]) -> str:
    """``--cache-mb`` -> ``MOESTREAM_CACHE_MB`` (of a pair ``--x/--no-x`` the first)."""
    long = next(name for name in declarations if name.startswith("--"))
    return ENV_PREFIX + long.split("/")[0].removeprefix("--").replace("-", "_").upper()


def option(*declarations: str, help: str, panel: str = "Options", **more: Any) -> Any:
    """An option with help text and the environment variable that its long name implies."""
    return typer.Option(
        *declarations,
        help=help,
        envvar=_variable(declarations),
        show_envvar=True,
        rich_help_panel=panel,
        **more,
    )


def argument(name: str, *, help: str, **more: Any) -> Any:
    """A positional argument with help text (arguments take no environment variable)."""
    return typer.Argument(metavar=name, help=help, show_default=False, **more)
