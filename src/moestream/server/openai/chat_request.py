"""``POST /v1/chat/completions``: the request."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from moestream.config import SamplingConfig
from moestream.server.answer import Dialect
from moestream.server.errors import ApiError
from moestream.server.openai.common import CommonRequest, refuse, refuse_given
from moestream.server.openai.messages import ChatMessage, for_template
from moestream.server.worker import TurnRequest

__all__ = ["ChatRequest"]


class Function(BaseModel):
    """What a tool is."""

    model_config = ConfigDict(strict=True, extra="ignore")

    name: Annotated[str, Field(min_length=1, max_length=200)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(BaseModel):
    """An entry of ``tools``."""

    model_config = ConfigDict(strict=True, extra="ignore")

    type: Literal["function"] = "function"
    function: Function


class ResponseFormat(BaseModel):
    """``response_format``."""

    model_config = ConfigDict(strict=True, extra="ignore")

    type: str


class ChatRequest(CommonRequest):
    """A conversation to be answered."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=10_000)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=2**31)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: Annotated[list[Tool], Field(max_length=1000)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    #: ``none`` asks a model that reasons aloud to answer at once; the rest is for the template.
    reasoning_effort: Annotated[str, Field(max_length=100)] | None = None
    #: For the model's template, as llama.cpp and vLLM take it; ``enable_thinking`` is one.
    chat_template_kwargs: dict[str, Any] | None = None
    #: Known, and refused unless they ask for nothing.
    response_format: ResponseFormat | None = None
    modalities: list[str] | None = None
    functions: list[Any] | None = None
    function_call: Any = None
    audio: Any = None
    web_search_options: Any = None

    def check(self) -> None:
        """Refuse what cannot be honoured."""
        super().check()
        refuse_given(
            (("functions", self.functions), ("function_call", self.function_call)), "use tools"
        )
        refuse_given(
            (("audio", self.audio), ("web_search_options", self.web_search_options)),
            "this model reads and writes text only",
        )
        refuse(self.modalities not in (None, ["text"]), "modalities", "text only")
        refuse(
            self.response_format is not None and self.response_format.type != "text",
            "response_format",
            "ask for the format in words",
        )
        refuse(
            self.tool_choice not in (None, "auto", "none"),
            "tool_choice",
            "the model decides; give 'auto' or 'none'",
        )
        if self.top_logprobs is not None and not self.logprobs:
            raise ApiError("top_logprobs needs logprobs", param="top_logprobs")

    def turn(self, sampling: SamplingConfig, dialect: Dialect | None, client: str) -> TurnRequest:
        """What the engine is asked for.

        Args:
            sampling: what to choose tokens by where the request does not say.
            dialect: of the model.
            client: who asks.

        Raises:
            ApiError: a parameter cannot be honoured.
        """
        self.check()
        tools = () if self.tool_choice == "none" else tuple(self.tools or ())
        if tools and dialect is not None:
            refuse(not dialect.accepts_tools, "tools", "the model's chat template knows no tools")
        variables = dict(self.chat_template_kwargs or {})
        thinking = variables.pop("enable_thinking", self.reasoning_effort != "none")
        if not isinstance(thinking, bool):
            raise ApiError(
                "enable_thinking must be true or false",
                param="chat_template_kwargs.enable_thinking",
            )
        if self.reasoning_effort not in (None, "none"):
            variables.setdefault("reasoning_effort", self.reasoning_effort)
        limits = [n for n in (self.max_completion_tokens, self.max_tokens) if n is not None]
        return TurnRequest(
            messages=for_template(self.messages),
            tools=tuple(tool.model_dump(exclude_none=True) for tool in tools),
            template_variables=variables,
            enable_thinking=thinking,
            max_tokens=min(limits, default=None),
            stop=self.stops,
            sampling=self.sampling(sampling),
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            parallel_tool_calls=self.parallel_tool_calls is not False,
            client=client,
        )
