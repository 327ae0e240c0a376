"""Options of a generation: how tokens are chosen, where it ends, how a prompt is rendered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from moestream.cli.declare import option
from moestream.cli.options import MODEL_PANEL
from moestream.config import SamplingConfig
from moestream.errors import ConfigError

__all__ = ["LimitOptions", "SamplingOptions", "TemplateOptions"]

SAMPLING_PANEL = "Sampling"

_SAMPLING = SamplingConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """What :class:`moestream.SamplingConfig` holds."""

    temp: Annotated[
        float,
        option("--temp", metavar="F", help="Temperature; 0 is greedy.", panel=SAMPLING_PANEL),
    ] = _SAMPLING.temperature
    top_k: Annotated[
        int,
        option(
            "--top-k",
            metavar="N",
            help="Keep the N likeliest tokens; 0 is off.",
            panel=SAMPLING_PANEL,
        ),
    ] = _SAMPLING.top_k
    top_p: Annotated[
        float,
        option(
            "--top-p",
            metavar="F",
            help="Keep the likeliest tokens that sum to F; 1 is off.",
            panel=SAMPLING_PANEL,
        ),
    ] = _SAMPLING.top_p
    min_p: Annotated[
        float,
        option(
            "--min-p",
            metavar="F",
            help="Drop tokens below F times the likeliest; 0 is off.",
            panel=SAMPLING_PANEL,
        ),
    ] = _SAMPLING.min_p
    repeat_penalty: Annotated[
        float,
        option(
            "--repeat-penalty",
            metavar="F",
            help="Penalty on tokens seen lately; 1 is off.",
            panel=SAMPLING_PANEL,
        ),
    ] = _SAMPLING.repeat_penalty
    seed: Annotated[
        int | None,
        option(
            "--seed",
            metavar="N",
            help="Seed of the sampler; by default a new one each time.",
            panel=SAMPLING_PANEL,
        ),
    ] = _SAMPLING.seed

    def config(self) -> SamplingConfig:
        """The sampling configuration."""
        return SamplingConfig(
            temperature=self.temp,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repeat_penalty=self.repeat_penalty,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """Where an answer ends."""

    max_tokens: Annotated[
        int,
        option(
            "--max-tokens",
            "-n",
            metavar="N",
            help="Most tokens to generate; -1 goes on until the model stops or the context is "
            "full.",
            panel=SAMPLING_PANEL,
        ),
    ] = 512
    stop: Annotated[
        list[str] | None,
        option(
            "--stop",
            metavar="TEXT",
            help="Stop before this text (repeat for more; the variable separates by spaces).",
            panel=SAMPLING_PANEL,
            show_default=False,
        ),
    ] = None

    @property
    def limit(self) -> int | None:
        """The most tokens, or ``None`` for no limit."""
        if self.max_tokens == 0:
            raise ConfigError("the number of tokens to generate must be 1 or more, or -1: 0")
        return None if self.max_tokens < 0 else self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        """Stop strings."""
        return tuple(self.stop or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateOptions:
    """How a prompt reaches the model."""

    system: Annotated[
        str | None,
        option("--system", "-s", metavar="TEXT", help="System message.", panel=MODEL_PANEL),
    ] = None
    enable_thinking: Annotated[
        bool,
        option(
            "--enable-thinking/--no-enable-thinking",
            help="Let a model that reasons aloud do so; passed to chat templates that know it.",
            panel=MODEL_PANEL,
        ),
    ] = True
