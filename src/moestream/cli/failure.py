"""From an exception to one line on stderr and an exit code.

- 0: done
- 1: a runtime error (the line says what, and what to do), or the reader of stdout went away
- 2: wrong usage: an unknown flag, a value out of range, settings that contradict each other
- 130: interrupted with Ctrl-C
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import typer

from moestream.cli.console import note
from moestream.errors import ConfigError, MoestreamError

__all__ = ["EXIT_ERROR", "EXIT_INTERRUPT", "EXIT_OK", "EXIT_USAGE", "UsageError", "fail", "quiet"]

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPT = 130

DEBUG_VARIABLE = "MOESTREAM_DEBUG"

#: Typer brings its own copy of click since 0.26 and used the real one before; its public
#: ``BadParameter`` leads to the usage error of whichever it is.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def fail(error: BaseException) -> int:
    """Print ``error`` as one line on stderr; returns the exit code."""
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return EXIT_INTERRUPT
    if isinstance(error, BrokenPipeError):
        return quiet()
    if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    note("moestream: error: " + " ".join(_words(error).split()), style="bold red")
    return EXIT_USAGE if isinstance(error, (UsageError, ConfigError)) else EXIT_ERROR


def _words(error: BaseException) -> str:
    if isinstance(error, UsageError):
        return _usage_message(error)
    if isinstance(error, MoestreamError):
        return str(error)
    if isinstance(error, OSError) and error.strerror is not None:
        where = "" if error.filename is None else f": {error.filename}"
        return f"{error.strerror}{where}"
    if isinstance(error, MemoryError):
        return "out of memory"
    return (
        f"unexpected {type(error).__name__}: {error} "
        f"(this is a bug; set {DEBUG_VARIABLE}=1 for the traceback)"
    )


def quiet() -> int:
    """After a broken pipe: keep the interpreter from complaining about it at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    return EXIT_ERROR


def _usage_message(error: Any) -> str:
    """What typer says, with the variable's name if the value came from the environment."""
    message = str(error.format_message())
    ctx, param = getattr(error, "ctx", None), getattr(error, "param", None)
    if ctx is not None and param is not None and from_environment(ctx, param.name):
        variable = _variable_name(param)
        message = message.replace(f" (env var: '{variable}')", "")
        return f"environment variable {variable}: {message}"
    if ctx is not None:
        message += f" (see {ctx.command_path} --help)"
    return message


def from_environment(ctx: Any, name: str) -> bool:
    """Whether the value of parameter ``name`` was taken from an environment variable."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "ENVIRONMENT"


def _variable_name(param: Any) -> str:
    variable = param.envvar
    return variable if isinstance(variable, str) else ", ".join(variable or ())


def environment_note(ctx: Any) -> str:
    """The variables that set something for this command, as a note for an error message."""
    names = [
        _variable_name(param) for param in ctx.command.params if from_environment(ctx, param.name)
    ]
    return f" (set in the environment: {', '.join(sorted(names))})" if names else ""
