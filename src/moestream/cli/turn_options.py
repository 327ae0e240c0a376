"""Options of a generation: how tokens are chosen, where it ends, how a prompt is rendered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from moestream.cli.declare import option
from moestream.cli.options import MODEL_PANEL
from moestream.config import SamplingConfig
from moestream.errors import ConfigError
from moestream.settings import HELP

__all__ = ["LimitOptions", "SamplingOptions", "TemplateOptions"]

SAMPLING_PANEL = "Sampling"

_SAMPLING = SamplingConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """What :class:`moestream.SamplingConfig` holds."""

    temp: Annotated[
        float,
        option("--temp", metavar="F", help=HELP["temperature"], panel=SAMPLING_PANEL),
    ] = _SAMPLING.temperature
    top_k: Annotated[
        int,
        option(
            "--top-k",
            metavar="N",
            help=HELP["top_k"],
            panel=SAMPLING_PANEL,
        ),
    ] = _SAMPLING.top_k
    top_p: Annotated[
        float,
        option(
            "--top-p",
            metavar="F",
            help=HELP["top_p"],
            panel=SAMPLING_PANEL,
        ),
    ] = _SAMPLING.top_p
    min_p: Annotated[
        float,
        option(
            "--min-p",
            metavar="F",
            help=HELP["min_p"],
            panel=SAMPLING_PANEL,
        ),
    ] = _SAMPLING.min_p
    repeat_penalty: Annotated[
        float,
        option(
            "--repeat-penalty",
            metavar="F",
            help=HELP["repeat_penalty"],
            panel=SAMPLING_PANEL,
        ),
    ] = _SAMPLING.repeat_penalty
    seed: Annotated[
        int | None,
        option(
            "--seed",
            metavar="N",
            help=HELP["seed"],
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
            help=HELP["max_tokens"],
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
        option("--system", "-s", metavar="TEXT", help=HELP["system_prompt"], panel=MODEL_PANEL),
    ] = None
    enable_thinking: Annotated[
        bool,
        option(
            "--enable-thinking/--no-enable-thinking",
            help=HELP["enable_thinking"],
            panel=MODEL_PANEL,
        ),
    ] = True
