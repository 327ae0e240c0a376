"""Reads the tool calls that a model wrote, in each of the ways in which models write them."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from moestream.server.answer.dialect import DEEPSEEK_CALL, ToolStyle
from moestream.server.answer.gemma import gemma_value
from moestream.server.answer.parts import Call, Tools

__all__ = ["read_calls"]


def read_calls(body: str, style: ToolStyle, tools: Tools) -> tuple[Call, ...]:
    """The calls in a block.

    Args:
        body: what stands between the markers.
        style: how it is written.
        tools: what could be called; tells text from numbers where the model does not.

    Raises:
        ValueError: it cannot be read as calls.
    """
    calls = _READERS[style](body.strip(), tools)
    if not calls:
        raise ValueError("no call in the block")
    try:
        for call in calls:
            json.dumps(call.arguments, allow_nan=False)  # whatever came out must go out as JSON
    except TypeError as error:
        raise ValueError("an argument is not JSON") from error
    return calls


def _tagged(body: str, tools: Tools) -> tuple[Call, ...]:
    if body.startswith(("{", "[")):
        return _json(body)
    if "<function=" in body:
        return _xml(body, tools)
    return _key_value(body, tools)


def _json(body: str) -> tuple[Call, ...]:
    found = json.loads(body)
    rows = found if isinstance(found, list) else [found]
    return tuple(_json_call(row) for row in rows)


def _json_call(row: Any) -> Call:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise ValueError("a call needs a name")
    arguments = row.get("arguments", row.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    return Call(row["name"], _object(arguments))


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("arguments must be an object")
    return value


_FUNCTION: Final = re.compile(r"<function=([^>\s]+)\s*>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER: Final = re.compile(
    r"<parameter=([^>\s]+)\s*>(.*?)(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL
)


def _xml(body: str, tools: Tools) -> tuple[Call, ...]:
    """``<function=name><parameter=key>value</parameter></function>``, of Qwen's newer models."""
    calls = []
    for name, inner in _FUNCTION.findall(body):
        pairs = [(key, _unpadded(value)) for key, value in _PARAMETER.findall(inner)]
        calls.append(Call(name, _typed(name, pairs, tools)))
    return tuple(calls)


_ARGUMENT: Final = re.compile(
    r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|\Z)", re.DOTALL
)


def _key_value(body: str, tools: Tools) -> tuple[Call, ...]:
    """``name<arg_key>key</arg_key><arg_value>value</arg_value>``, of GLM."""
    name = body.split("<arg_key>", 1)[0].strip()
    if not re.fullmatch(r"[\w.:/-]+", name):
        raise ValueError("no name of a function")
    pairs = [(key.strip(), _unpadded(value)) for key, value in _ARGUMENT.findall(body)]
    return (Call(name, _typed(name, pairs, tools)),)


def _unpadded(value: str) -> str:
    """Without the line end after the opening tag and the one before the closing tag."""
    return value.removeprefix("\n").removesuffix("\n")


def _typed(name: str, pairs: list[tuple[str, str]], tools: Tools) -> dict[str, Any]:
    """Values as the tool declares them: a parameter that is a string keeps its text."""
    declared = _properties(name, tools)
    return {key: _value(text, declared.get(key)) for key, text in pairs}


def _properties(name: str, tools: Tools) -> Mapping[str, Any]:
    for tool in tools:
        function = tool.get("function", tool)
        if isinstance(function, Mapping) and function.get("name") == name:
            parameters = function.get("parameters")
            properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
            return properties if isinstance(properties, Mapping) else {}
    return {}


def _value(text: str, schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "string":
        return text
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        words = {"True": True, "False": False, "None": None}
        return words.get(text.strip(), text)


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _python(body: str, tools: Tools) -> tuple[Call, ...]:
    """``[name(key="value")]``, of LFM2; it may be asked to write JSON instead."""
    if re.match(r"\[?\s*\{", body):
        return _json(body)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes that Python does not know
            tree = ast.parse(body, mode="eval").body
    except (SyntaxError, MemoryError, RecursionError) as err:
        raise ValueError("not a list of calls") from err
    nodes = tree.elts if isinstance(tree, (ast.List, ast.Tuple)) else [tree]
    return tuple(_python_call(node) for node in nodes)


def _python_call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("not a call with named arguments")
    arguments = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("not a call with named arguments")
        arguments[keyword.arg] = ast.literal_eval(keyword.value)
    return Call(ast.unparse(node.func), arguments)


_GEMMA_CALL: Final = re.compile(r"call:\s*([\w.:/-]+)\s*")


def _gemma(body: str, tools: Tools) -> tuple[Call, ...]:
    """``call:name{key:<|"|>value<|"|>}``, one or several."""
    calls, at = [], 0
    while found := _GEMMA_CALL.match(body, at):
        arguments, at = gemma_value(body, found.end())
        calls.append(Call(found[1], _object(arguments)))
        while at < len(body) and body[at] in " \n,":
            at += 1
    if at != len(body):
        raise ValueError("something else than calls in the block")
    return tuple(calls)


_DEEPSEEK_CALL: Final = re.compile(
    r"{}(.*?){}(.*?)(?:{}|\Z)".format(*map(re.escape, DEEPSEEK_CALL)), re.DOTALL
)
_FENCED: Final = re.compile(r"\s*([^\n]+)\n```json\n(.*?)\n?```\s*", re.DOTALL)


def _deepseek(body: str, tools: Tools) -> tuple[Call, ...]:
    """``function<sep>name``, then fenced JSON (V3); or ``name<sep>JSON`` (V3.1)."""
    calls = []
    for before, after in _DEEPSEEK_CALL.findall(body):
        fenced = _FENCED.fullmatch(after)
        name, text = (fenced[1], fenced[2]) if fenced else (before, after)
        calls.append(Call(name.strip(), _object(json.loads(text))))
    return tuple(calls)


_READERS: Final[dict[ToolStyle, Callable[[str, Tools], tuple[Call, ...]]]] = {
    "tagged": _tagged,
    "python": _python,
    "gemma": _gemma,
    "deepseek": _deepseek,
}
