"""Every option that more than one verb takes: one table, each with help and environment variable.

Defaults come from :mod:`moestream.config`, which also checks the values; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from moestream.cli.declare import argument, option
from moestream.config import (
    EMBEDDED_MODEL,
    EngineConfig,
    SamplingConfig,
    SpeculationConfig,
    StreamingConfig,
)
from moestream.settings import HELP

__all__ = [
    "EngineOptions",
    "JsonOption",
    "ModelArgument",
    "ModelOptions",
    "ShapeOptions",
    "StreamingOptions",
]

MODEL_PANEL = "Model"
STREAM_PANEL = "Expert streaming"
LOSSY_PANEL = "Lossy switches (off by default)"
COMPUTE_PANEL = "Compute"
OUTPUT_PANEL = "Output"

_STREAMING = StreamingConfig()

_AUTO = "auto"


def _number_or_auto(what: str, least: int) -> Callable[[str | None], str | None]:
    def check(value: str | None) -> str | None:
        if value is None or value.lower() == _AUTO:
            return value if value is None else _AUTO
        if not value.isascii() or not value.isdigit() or int(value) < least:
            raise typer.BadParameter(f"{value!r} is neither 'auto' nor {what} of {least} or more")
        return value

    return check


def _complete_model(incomplete: str) -> list[str]:
    from moestream.models.pull import cached_references

    names = [EMBEDDED_MODEL, *cached_references()]
    return [name for name in names if name.startswith(incomplete)]


ModelOption = Annotated[
    str,
    option(
        "--model",
        "-m",
        metavar="MODEL",
        help=f"GGUF file (first shard of a split one), {EMBEDDED_MODEL} (built in), or a pulled "
        "REPO[:QUANT].",
        panel=MODEL_PANEL,
        autocompletion=_complete_model,
    ),
]

ModelArgument = Annotated[
    str,
    argument(
        "MODEL",
        help=f"GGUF file (first shard of a split one), {EMBEDDED_MODEL}, or a pulled REPO[:QUANT].",
        autocompletion=_complete_model,
    ),
]

JsonOption = Annotated[
    bool,
    option("--json", help="Print one JSON object instead of text.", panel=OUTPUT_PANEL),
]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which model, and how it is talked to."""

    model: ModelOption = EMBEDDED_MODEL
    chat_template: Annotated[
        Path | None,
        option(
            "--chat-template",
            metavar="FILE",
            help="Jinja file that replaces the model's own chat template.",
            panel=MODEL_PANEL,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ShapeOptions:
    """What decides how much memory and time a model takes."""

    threads: Annotated[
        str,
        option(
            "--threads",
            "-t",
            metavar="N|auto",
            help=HELP["threads"],
            panel=COMPUTE_PANEL,
            callback=_number_or_auto("a number", 1),
        ),
    ] = _AUTO
    n_ctx: Annotated[
        int | None,
        option(
            "--ctx",
            "-c",
            metavar="N",
            help=HELP["n_ctx"],
            panel=COMPUTE_PANEL,
        ),
    ] = None
    ubatch: Annotated[
        int | None,
        option(
            "--ubatch",
            metavar="N",
            help=HELP["n_ubatch"],
            panel=COMPUTE_PANEL,
        ),
    ] = None
    cache_ceil_mb: Annotated[
        int | None,
        option(
            "--cache-ceil-mb",
            metavar="N",
            help=HELP["cache_ceil_mb"],
            panel=STREAM_PANEL,
        ),
    ] = _STREAMING.cache_ceil_mb
    n_expert_used: Annotated[
        int | None,
        option(
            "--n-expert-used",
            metavar="K",
            help=HELP["n_expert_used"],
            panel=LOSSY_PANEL,
        ),
    ] = None

    @property
    def thread_count(self) -> int | None:
        """The number of threads, or ``None`` for auto."""
        return None if self.threads == _AUTO else int(self.threads)


@dataclass(frozen=True, kw_only=True)
class StreamingOptions(ShapeOptions):
    """What :class:`moestream.EngineConfig` holds, the model and sampling aside."""

    moe_stream: Annotated[
        bool | None,
        option(
            "--moe-stream/--no-moe-stream",
            help=HELP["moe_stream"],
            panel=STREAM_PANEL,
            show_default=False,
        ),
    ] = _STREAMING.moe_stream
    cache_mb: Annotated[
        str,
        option(
            "--cache-mb",
            metavar="N|auto",
            help=HELP["cache_mb"],
            panel=STREAM_PANEL,
            callback=_number_or_auto("a size in MiB", 0),
        ),
    ] = str(_STREAMING.cache_mb)
    io_threads: Annotated[
        int,
        option("--io-threads", metavar="N", help=HELP["io_threads"], panel=STREAM_PANEL),
    ] = _STREAMING.io_threads
    odirect: Annotated[
        bool,
        option(
            "--odirect/--no-odirect",
            help=HELP["o_direct"],
            panel=STREAM_PANEL,
        ),
    ] = _STREAMING.o_direct
    overlap: Annotated[
        bool | None,
        option(
            "--overlap/--no-overlap",
            help=HELP["overlap"],
            panel=STREAM_PANEL,
            show_default=False,
        ),
    ] = _STREAMING.overlap
    dense_weights: Annotated[
        Literal["mmap", "warm", "anon"],
        option(
            "--dense-weights",
            metavar="mmap|warm|anon",
            help=HELP["dense_weights"],
            panel=STREAM_PANEL,
        ),
    ] = _STREAMING.dense_weights
    repack: Annotated[
        bool,
        option(
            "--repack/--no-repack",
            help=HELP["repack"],
            panel=STREAM_PANEL,
        ),
    ] = _STREAMING.repack
    prefetch: Annotated[
        int,
        option(
            "--prefetch",
            metavar="K",
            help=HELP["prefetch"],
            panel=STREAM_PANEL,
        ),
    ] = _STREAMING.prefetch
    drop_cold_experts: Annotated[
        float,
        option(
            "--drop-cold-experts",
            metavar="F",
            help=HELP["drop_cold_experts"],
            panel=LOSSY_PANEL,
        ),
    ] = _STREAMING.drop_cold_experts
    drop_in_prefill: Annotated[
        bool,
        option(
            "--drop-in-prefill/--no-drop-in-prefill",
            help=HELP["drop_in_prefill"],
            panel=LOSSY_PANEL,
        ),
    ] = _STREAMING.drop_in_prefill

    def config_of(
        self,
        model: str,
        *,
        chat_template: Path | None = None,
        sampling: SamplingConfig | None = None,
        speculation: SpeculationConfig | None = None,
    ) -> EngineConfig:
        """The engine's configuration for a model; a bad value raises ``ConfigError``."""
        from moestream.models.locate import locate_model

        config = EngineConfig(
            model=model,
            n_ctx=self.n_ctx,
            n_ubatch=self.ubatch,
            threads=self.thread_count,
            n_expert_used=self.n_expert_used,
            chat_template=chat_template,
            streaming=StreamingConfig(
                moe_stream=self.moe_stream,
                cache_mb="auto" if self.cache_mb == _AUTO else int(self.cache_mb),
                cache_ceil_mb=self.cache_ceil_mb,
                io_threads=self.io_threads,
                o_direct=self.odirect,
                overlap=self.overlap,
                dense_weights=self.dense_weights,
                repack=self.repack,
                prefetch=self.prefetch,
                drop_cold_experts=self.drop_cold_experts,
                drop_in_prefill=self.drop_in_prefill,
            ),
            sampling=sampling or SamplingConfig(),
            speculation=speculation or SpeculationConfig(),
        )
        config.validate()
        return replace(config, model=locate_model(model))


@dataclass(frozen=True, kw_only=True)
class EngineOptions(StreamingOptions, ModelOptions):
    """What :class:`moestream.EngineConfig` holds, sampling aside."""

    def config(
        self,
        sampling: SamplingConfig | None = None,
        speculation: SpeculationConfig | None = None,
    ) -> EngineConfig:
        """The engine's configuration, checked; a bad value raises ``ConfigError``."""
        return self.config_of(
            self.model,
            chat_template=self.chat_template,
            sampling=sampling,
            speculation=speculation,
        )
