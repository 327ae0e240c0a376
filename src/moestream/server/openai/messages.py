"""Messages of a conversation: from the API's shape to what chat templates read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from moestream.server.errors import ApiError

__all__ = ["ChatMessage", "for_template"]


class FunctionCall(BaseModel):
    """A call in an assistant's message."""

    model_config = ConfigDict(strict=True, extra="ignore")

    name: Annotated[str, Field(min_length=1, max_length=200)]
    arguments: str | dict[str, Any] = "{}"


class CalledTool(BaseModel):
    """An entry of ``tool_calls``."""

    model_config = ConfigDict(strict=True, extra="ignore")

    id: str | None = None
    type: Literal["function"] = "function"
    function: FunctionCall


class ContentPart(BaseModel):
    """A part of a message's content; only text is read."""

    model_config = ConfigDict(strict=True, extra="ignore")

    type: str
    text: str | None = None


class ChatMessage(BaseModel):
    """A message. Fields that only templates know, such as ``reasoning_content``, reach them."""

    model_config = ConfigDict(strict=True, extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[CalledTool] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None


def for_template(messages: Sequence[ChatMessage]) -> tuple[dict[str, Any], ...]:
    """The messages as chat templates read them: text as text, arguments as objects.

    Raises:
        ApiError: a message holds what a language model cannot read.
    """
    return tuple(_message(message, f"messages.{at}") for at, message in enumerate(messages))


def _message(message: ChatMessage, where: str) -> dict[str, Any]:
    # Templates of open models know no developers.
    role = "system" if message.role == "developer" else message.role
    found: dict[str, Any] = {"role": role, "content": _text(message, f"{where}.content")}
    if message.tool_calls:
        found["tool_calls"] = [
            _call(call, f"{where}.tool_calls.{at}.function.arguments")
            for at, call in enumerate(message.tool_calls)
        ]
    for name in ("name", "tool_call_id", "reasoning_content"):
        value = getattr(message, name)
        if value is not None:
            found[name] = value
    return found


def _text(message: ChatMessage, where: str) -> str:
    content = message.content
    if content is None:
        if message.role != "assistant" or not (message.tool_calls or message.reasoning_content):
            raise ApiError(f"the {message.role} message has no content", param=where)
        return ""
    if isinstance(content, str):
        return content
    for at, part in enumerate(content):
        if part.type != "text" or part.text is None:
            raise ApiError(
                f"this model reads text only, and {part.type!r} is something else",
                code="unsupported_parameter",
                param=f"{where}.{at}",
            )
    return "\n".join(part.text or "" for part in content)


def _call(call: CalledTool, where: str) -> dict[str, Any]:
    arguments = call.function.arguments
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise ApiError(f"the arguments of a call must be JSON: {error}", param=where) from error
    if not isinstance(arguments, dict):
        raise ApiError("the arguments of a call must be a JSON object", param=where)
    function = {"name": call.function.name, "arguments": arguments}
    return {"id": call.id or "", "type": "function", "function": function}
