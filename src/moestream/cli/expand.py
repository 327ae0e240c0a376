"""Verbs: functions whose parameters may be groups of command-line options.

A verb takes a whole group as one parameter (``engine: EngineOptions``); :func:`verb` shows the
group's fields to typer as ordinary options and hands the function the filled dataclass. So an
option is declared once, with its help, its default and its environment variable, however many
verbs share it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import typer

from moestream.cli.failure import environment_note
from moestream.errors import ConfigError

__all__ = ["verb"]

R = TypeVar("R")


def verb(function: Callable[..., R]) -> Callable[..., R]:
    """Replace every dataclass parameter of ``function`` by its fields, after its own parameters.

    A :class:`ConfigError` out of the function is told which settings came from the environment.
    """
    # Not get_type_hints: before Python 3.11 it wraps what defaults to None in another Optional.
    hints = inspect.get_annotations(function, eval_str=True)
    groups: dict[str, type[Any]] = {}
    own = [inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    shared: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        annotation = hints[parameter.name]
        if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
            groups[parameter.name] = annotation
            shared.extend(_field_parameters(annotation))
        else:
            own.append(
                parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY)
            )
    parameters = own + shared
    owner = {
        field.name: name for name, group in groups.items() for field in dataclasses.fields(group)
    }
    names = [parameter.name for parameter in parameters]
    if len(names) != len(set(names)):
        raise TypeError(f"{function.__name__} takes an option name twice: {sorted(names)}")

    @functools.wraps(function)
    def wrapper(ctx: typer.Context, **values: Any) -> R:
        arguments: dict[str, Any] = {}
        fields: dict[str, dict[str, Any]] = {name: {} for name in groups}
        for name, value in values.items():
            if name in owner:
                fields[owner[name]][name] = value
            else:
                arguments[name] = value
        for name, group in groups.items():
            arguments[name] = group(**fields[name])
        try:
            return function(**arguments)
        except ConfigError as error:
            raise ConfigError(f"{error}{environment_note(ctx)}") from error

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del wrapper.__wrapped__  # typer would look behind the wrapper
    return wrapper


def _field_parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=(
                inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
            ),
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(group)
    ]
