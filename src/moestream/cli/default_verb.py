"""A group of verbs of which one need not be named: ``bench MODEL`` is ``bench run MODEL``."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

__all__ = ["DEFAULT", "DefaultVerbGroup", "OrderedGroup"]

#: The verb that is meant when none is named.
DEFAULT = "run"


class DefaultVerbGroup(TyperGroup):
    """Puts the default verb in front of what is not one of the group's verbs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, with the default verb where none is named; ``--help`` stays the group's."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


class OrderedGroup(TyperGroup):
    """Lists single verbs first and groups of verbs last, which typer does the other way round."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the help."""
        del ctx
        return sorted(self.commands, key=lambda name: hasattr(self.commands[name], "commands"))
