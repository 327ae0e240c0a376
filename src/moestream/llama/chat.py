"""Renders a conversation with the model's own Jinja chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from moestream.errors import ConfigError, ModelError, UnsupportedModelError

__all__ = ["ChatTemplate", "Message"]

#: ``{"role": ..., "content": ...}``, and whatever else the template understands.
Message = Mapping[str, Any]

#: What a template is always given.
_OWN_VARIABLES = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "enable_thinking", "bos_token",
     "eos_token"}
)  # fmt: skip


class _TemplateRaisedError(Exception):
    """A template called ``raise_exception``."""


class _GenerationBlock(Extension):
    """``{% generation %}``: marks the assistant's words for training; here it only passes them."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> Node | list[Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_pass_through")
        return CallBlock(call, [], [], body).set_lineno(line)

    def _pass_through(self, caller: Any) -> str:
        return str(caller())


class ChatTemplate:
    """A compiled template. The template is foreign code: it runs in an immutable sandbox."""

    def __init__(self, source: str | None, *, bos_token: str, eos_token: str) -> None:
        """Compile ``source``.

        Raises:
            UnsupportedModelError: there is no template.
            ModelError: it is not valid Jinja.
        """
        if not source:
            raise UnsupportedModelError(
                "the model has no chat template; give one with a chat template file, "
                "or generate from a plain prompt"
            )
        self.source = source
        self.bos_token = bos_token
        self.eos_token = eos_token
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationBlock]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        try:
            self._template = environment.from_string(source)
            #: Names that the template reads from outside.
            self.variables = frozenset(find_undeclared_variables(environment.parse(source)))
        except (TemplateError, RecursionError) as err:
            raise ModelError(
                f"the model's chat template is not valid Jinja: {_reason(err)}; "
                "give another one with a chat template file"
            ) from err

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        enable_thinking: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The conversation as the model expects to read it.

        Args:
            messages: the conversation, oldest first.
            add_generation_prompt: whether the assistant's next message begins at the end.
            enable_thinking: for templates of models that reason aloud.
            tools: what the model may call, as the template expects it (commonly OpenAI's shape).
            variables: whatever else the template understands.

        Raises:
            ConfigError: a message lacks its role or content, the template knows no tools, or a
                variable is one that it is given anyway.
            ModelError: the template refused the conversation or failed.
        """
        rows = [_checked(message) for message in messages]
        if not rows:
            raise ConfigError("a conversation needs at least one message")
        if tools and "tools" not in self.variables:
            raise ConfigError(
                "the model's chat template knows no tools; ask without them, or give another "
                "template with a chat template file"
            )
        given = sorted(_OWN_VARIABLES.intersection(variables or ()))
        if given:
            raise ConfigError(f"{', '.join(given)} cannot be given as a variable of the template")
        try:
            return self._template.render(
                messages=rows,
                add_generation_prompt=add_generation_prompt,
                enable_thinking=enable_thinking,
                tools=list(tools) or None,
                documents=None,
                bos_token=self.bos_token,
                eos_token=self.eos_token,
                **(variables or {}),
            )
        except _TemplateRaisedError as err:
            raise ModelError(f"the chat template refuses this conversation: {err}") from err
        except Exception as err:
            # Whatever a foreign template runs into, it is the template that is at fault.
            raise ModelError(f"the chat template failed: {_reason(err)}") from err


def _checked(message: Message) -> dict[str, Any]:
    role = message.get("role")
    content = message.get("content")
    if not isinstance(role, str) or not role:
        raise ConfigError(f"a message needs a role such as 'user', got {role!r}")
    if content is not None and not isinstance(content, (str, list)):
        raise ConfigError(f"the content of a message must be text, got {type(content).__name__}")
    if content is None and not message.get("tool_calls"):
        raise ConfigError(f"the {role} message has no content")
    return dict(message)


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    # Jinja's own escapes for HTML, which is not what a model has learnt to read.
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def _raise_exception(message: str) -> NoReturn:
    raise _TemplateRaisedError(message)


def _strftime_now(format_string: str) -> str:
    return datetime.now().strftime(format_string)


def _reason(err: BaseException) -> str:
    line = getattr(err, "lineno", None)
    where = f" (line {line})" if line is not None else ""
    return f"{str(err) or type(err).__name__}{where}"
