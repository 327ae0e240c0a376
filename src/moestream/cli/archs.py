"""``moestream archs``: which architectures can be streamed."""

from __future__ import annotations

from moestream.cli.console import table, write_json
from moestream.cli.expand import verb
from moestream.cli.options import JsonOption
from moestream.streaming.recipes import architectures, recipe_for

__all__ = ["archs"]


@verb
def archs(json: JsonOption = False) -> None:
    """List the architectures whose experts can be streamed."""
    recipes = [recipe_for(name) for name in architectures()]
    if json:
        write_json(
            {
                "architectures": [
                    {
                        "name": recipe.arch,
                        "expert_tensors": [list(layout) for layout in recipe.layouts],
                    }
                    for recipe in recipes
                ]
            }
        )
        return
    table(
        [
            (recipe.arch, " or ".join(", ".join(layout) for layout in recipe.layouts))
            for recipe in recipes
        ],
        header=("architecture", "expert tensors, in order of use"),
    )
