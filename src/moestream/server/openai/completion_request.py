"""``POST /v1/completions``: the request."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from moestream.config import SamplingConfig
from moestream.server.openai.common import CommonRequest, refuse
from moestream.server.worker import TurnRequest

__all__ = ["CompletionRequest"]

#: As there: whoever wants more says so.
_DEFAULT_TOKENS: Final = 16

TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Tokens = Annotated[list[TokenId], Field(min_length=1)]


class CompletionRequest(CommonRequest):
    """A text to be continued, or several, one after the other."""

    prompt: (
        str
        | Annotated[list[str], Field(min_length=1, max_length=64)]
        | Tokens
        | Annotated[list[Tokens], Field(min_length=1, max_length=64)]
    )
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    #: Known, and refused unless they ask for nothing.
    best_of: int | None = None
    echo: bool | None = None
    suffix: str | None = None

    def check(self) -> None:
        """Refuse what cannot be honoured."""
        super().check()
        refuse(self.best_of not in (None, 1), "best_of", "one answer a request")
        refuse(bool(self.echo), "echo", "the client has the prompt already")
        refuse(bool(self.suffix), "suffix", "text is continued at its end only")

    def turns(self, sampling: SamplingConfig, client: str) -> list[TurnRequest]:
        """What the engine is asked for, a turn a prompt.

        Raises:
            ApiError: a parameter cannot be honoured.
        """
        self.check()
        return [
            TurnRequest(
                prompt=prompt,
                max_tokens=self.max_tokens or _DEFAULT_TOKENS,
                stop=self.stops,
                sampling=self.sampling(sampling),
                logprobs=self.logprobs,
                client=client,
            )
            for prompt in self._prompts()
        ]

    def _prompts(self) -> list[str | tuple[int, ...]]:
        found: list[str | tuple[int, ...]] = []
        if isinstance(self.prompt, str):
            return [self.prompt]
        whole: list[int] = []
        for entry in self.prompt:
            if isinstance(entry, int):
                whole.append(entry)
            else:
                found.append(entry if isinstance(entry, str) else tuple(entry))
        return found or [tuple(whole)]
