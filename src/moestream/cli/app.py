"""The command tree, and :func:`main` around it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

import moestream
from moestream.cli import archs, bench, chat, inspect, plan, plot, pull, run, serve, trace
from moestream.cli.default_verb import OrderedGroup
from moestream.cli.failure import EXIT_OK, fail

__all__ = ["app", "main"]

app = typer.Typer(
    name="moestream",
    cls=OrderedGroup,
    help="Run Mixture-of-Experts models that are bigger than memory, from the GGUF on disk.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"moestream {moestream.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    pass


for _function in (
    run.run, chat.chat, serve.serve, inspect.inspect, plan.plan, pull.pull, archs.archs,
    trace.trace, plot.plot,
):  # fmt: skip
    app.command()(_function)
app.add_typer(bench.bench)


def _replace_closed_streams() -> None:
    """Without descriptors 0 to 2 (``<&-``, ``>&-``) Python has ``None`` for its streams."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code and never raises an ordinary exception."""
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # whatever the locale cannot show
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        result = app(words, prog_name="moestream", standalone_mode=False)
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise  # shell completion leaves this way
        return fail(error)
    return result if isinstance(result, int) else EXIT_OK
