"""What both kinds of requests have in common, and what is refused by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from moestream.config import SamplingConfig
from moestream.server.errors import ApiError

__all__ = ["CommonRequest", "StreamOptions", "refuse", "refuse_given"]

#: Seeds of the API are wider than llama.cpp's.
_SEEDS: Final = 2**32 - 1
_MOST_STOPS: Final = 16
#: Nothing is left to draw from but the most likely token.
_LEAST_TOP_P: Final = 1e-9


class StreamOptions(BaseModel):
    """``stream_options``."""

    model_config = ConfigDict(strict=True)

    include_usage: bool | None = None


class CommonRequest(BaseModel):
    """Fields of ``/v1/chat/completions`` and ``/v1/completions``.

    Unknown fields are ignored, as clients expect; fields that are known and cannot be honoured are
    refused, see :meth:`check`.
    """

    model_config = ConfigDict(strict=True, extra="ignore")

    model: Annotated[str, Field(max_length=1000)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    stop: str | list[str] | None = None
    #: Not OpenAI's, but llama.cpp's and vLLM's.
    top_k: Annotated[int, Field(ge=-1, lt=2**31)] | None = None
    min_p: Annotated[float, Field(ge=0, lt=1)] | None = None
    repeat_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    #: Known, and refused unless they ask for nothing.
    n: Annotated[int, Field(ge=1)] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with a chunk that has the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def stops(self) -> tuple[str, ...]:
        """Stop strings."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    def check(self) -> None:
        """Refuse what cannot be honoured.

        Raises:
            ApiError: names the parameter.
        """
        refuse(self.n not in (None, 1), "n", "one answer a request; ask several times")
        for name in ("presence_penalty", "frequency_penalty"):
            refuse(bool(getattr(self, name)), name, "use repeat_penalty")
        refuse(bool(self.logit_bias), "logit_bias", "drop it")
        refuse(
            self.stream_options is not None and not self.stream,
            "stream_options",
            "it needs stream",
        )
        if len(self.stops) > _MOST_STOPS or not all(self.stops):
            raise ApiError(
                f"stop takes up to {_MOST_STOPS} texts, and none of them empty", param="stop"
            )

    def sampling(self, base: SamplingConfig) -> SamplingConfig:
        """How to choose tokens: what the request says, and the rest as configured."""
        own, other = self.repeat_penalty, self.repetition_penalty
        asked: dict[str, Any] = {
            "temperature": self.temperature,
            "top_p": None if self.top_p is None else max(self.top_p, _LEAST_TOP_P),
            "top_k": None if self.top_k is None else max(self.top_k, 0),
            "min_p": self.min_p,
            "repeat_penalty": other if own is None else own,
            "seed": None if self.seed is None else self.seed % _SEEDS,
        }
        return replace(base, **{name: value for name, value in asked.items() if value is not None})


def refuse(condition: bool, param: str, instead: str) -> None:
    """Refuse a parameter if ``condition``.

    Raises:
        ApiError: names it.
    """
    if condition:
        raise ApiError(
            f"{param} is not supported here: {instead}", code="unsupported_parameter", param=param
        )


def refuse_given(values: Iterable[tuple[str, Any]], instead: str) -> None:
    """Refuse the first parameter that has a value."""
    for param, value in values:
        refuse(value is not None, param, instead)
