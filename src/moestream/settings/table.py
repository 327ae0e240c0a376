"""The switches that the app shows: where each lives in the configuration, and when it applies.

Types, choices and defaults come from :mod:`moestream.config`, which also says what is in range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Any, Final, Literal, get_args, get_type_hints

from moestream.config import MAX_DRAFT, EngineConfig
from moestream.settings.help import HELP

__all__ = ["SETTINGS", "Group", "Kind", "Setting", "Takes"]

Kind = Literal["bool", "int", "float", "choice", "text"]
Group = Literal["draft", "streaming", "memory", "sampling", "server"]
Takes = Literal["next turn", "reload"]

_DRAFTS: Final = {"draft_source": ("mtp", "ngram")}


# No slots: the cached properties need a dictionary.
@dataclass(frozen=True, kw_only=True)
class Setting:
    """One switch.

    Attributes:
        key: its name in the app and in what is stored.
        label: a few words for people.
        group: where it is shown.
        path: the field of :class:`EngineConfig`; of the app's own settings empty.
        own: type and default of an own setting.
        minimum: least number; for display, the configuration itself decides.
        maximum: largest number.
        null_means: what no value stands for, if there may be none.
        experimental: folded away.
        lossy: changes what the model says.
        takes: when a change takes effect.
        applies_if: it has no effect unless these settings have one of these values.
    """

    key: str
    label: str
    group: Group
    path: str = ""
    own: tuple[type, Any] | None = None
    minimum: float | None = None
    maximum: float | None = None
    null_means: str | None = None
    experimental: bool = False
    lossy: bool = False
    takes: Takes = "reload"
    applies_if: Mapping[str, tuple[Any, ...]] | None = None

    @property
    def help(self) -> str:
        """One line on what it does."""
        return HELP[self.key]

    @property
    def section(self) -> str:
        """The part of the configuration, such as ``streaming``; empty for its top level."""
        return self.path.rpartition(".")[0]

    @property
    def field(self) -> str:
        """The field in that part."""
        return self.path.rpartition(".")[2]

    @cached_property
    def _hint(self) -> tuple[Any, ...]:
        """What the annotation allows, a union taken apart."""
        if self.own is not None:
            return (self.own[0],)
        part = EngineConfig() if not self.section else getattr(EngineConfig(), self.section)
        hint = get_type_hints(type(part))[self.field]
        return (hint,) if hint in (bool, int, float, str) else (get_args(hint) or (hint,))

    @cached_property
    def choices(self) -> tuple[str, ...] | None:
        """What there is to choose from; ``None`` for anything else than a choice."""
        if any(isinstance(kind, type) and kind is not NoneType for kind in self._hint):
            return None
        return tuple(str(value) for value in self._hint if value is not NoneType)

    @cached_property
    def kind(self) -> Kind:
        """What a value is."""
        for name, kind in (("bool", bool), ("float", float), ("int", int), ("text", str)):
            if kind in self._hint:
                return name  # type: ignore[return-value]
        return "choice"

    @property
    def nullable(self) -> bool:
        """Whether there may be no value."""
        return self.null_means is not None

    @cached_property
    def default(self) -> Any:
        """The value where nothing was chosen."""
        return self.of(EngineConfig()) if self.own is None else self.own[1]

    def of(self, config: EngineConfig) -> Any:
        """The value in a configuration; ``None`` where it has the word for none."""
        part = config if not self.section else getattr(config, self.section)
        value = getattr(part, self.field)
        return None if value == "auto" else value


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(key="draft_source", label="Draft source", group="draft", path="speculation.source"),
    Setting(
        key="draft", label="Draft width", group="draft", path="speculation.draft",
        minimum=1, maximum=MAX_DRAFT, applies_if=_DRAFTS,
    ),
    Setting(
        key="mtp_p_min", label="Least certainty (p-min)", group="draft",
        path="speculation.mtp_p_min", minimum=0, maximum=1, applies_if={"draft_source": ("mtp",)},
    ),
    Setting(
        key="ngram_min_match", label="Shortest match", group="draft",
        path="speculation.ngram_min_match", minimum=1, maximum=32,
        applies_if={"draft_source": ("ngram",)},
    ),
    Setting(
        key="cache_mb", label="Expert cache (MiB)", group="streaming", path="streaming.cache_mb",
        minimum=0, maximum=2**30, null_means="auto",
    ),
    Setting(
        key="cache_ceil_mb", label="Ceiling of an auto cache (MiB)", group="streaming",
        path="streaming.cache_ceil_mb", minimum=1, maximum=2**30,
        null_means="no ceiling",
        applies_if={"cache_mb": (None,)},
    ),
    Setting(
        key="io_threads", label="Read lanes", group="streaming", path="streaming.io_threads",
        minimum=1, maximum=64,
    ),
    Setting(
        key="overlap", label="Compute while reading", group="streaming", path="streaming.overlap",
        null_means="wherever the platform can",
    ),
    Setting(
        key="prefetch", label="Layers to read ahead", group="streaming", path="streaming.prefetch",
        minimum=0, maximum=8, experimental=True,
    ),
    Setting(
        key="o_direct", label="Direct I/O", group="streaming", path="streaming.o_direct",
        experimental=True,
    ),
    Setting(
        key="moe_stream", label="Stream experts", group="streaming", path="streaming.moe_stream",
        null_means="whatever can be streamed", experimental=True,
    ),
    Setting(
        key="drop_cold_experts", label="Drop cold experts", group="streaming",
        path="streaming.drop_cold_experts", minimum=0, maximum=1, experimental=True, lossy=True,
    ),
    Setting(
        key="drop_in_prefill", label="Drop in the prompt too", group="streaming",
        path="streaming.drop_in_prefill", experimental=True, lossy=True,
    ),
    Setting(
        key="n_expert_used", label="Experts per token", group="streaming", path="n_expert_used",
        minimum=1, maximum=4096, null_means="the model's own", experimental=True, lossy=True,
    ),
    Setting(
        key="threads", label="Compute threads", group="memory", path="threads", minimum=1,
        maximum=512, null_means="auto",
    ),
    Setting(
        key="n_ctx", label="Context (tokens)", group="memory", path="n_ctx", minimum=8,
        maximum=2**24, null_means="the smaller of the model's and 4096",
    ),
    Setting(
        key="dense_weights", label="Dense weights", group="memory", path="streaming.dense_weights",
    ),
    Setting(
        key="repack", label="Repack dense weights", group="memory", path="streaming.repack",
        experimental=True, applies_if={"dense_weights": ("anon",)},
    ),
    Setting(
        key="n_ubatch", label="Prompt tokens per step", group="memory", path="n_ubatch", minimum=1,
        maximum=8192, null_means="as many as the expert memory holds", experimental=True,
    ),
    Setting(
        key="temperature", label="Temperature", group="sampling", path="sampling.temperature",
        minimum=0, maximum=100, takes="next turn",
    ),
    Setting(
        key="top_k", label="Top-k", group="sampling", path="sampling.top_k", minimum=0,
        maximum=2**31 - 1, takes="next turn",
    ),
    Setting(
        key="top_p", label="Top-p", group="sampling", path="sampling.top_p", minimum=0, maximum=1,
        takes="next turn",
    ),
    Setting(
        key="min_p", label="Min-p", group="sampling", path="sampling.min_p", minimum=0, maximum=1,
        takes="next turn",
    ),
    Setting(
        key="repeat_penalty", label="Repeat penalty", group="sampling",
        path="sampling.repeat_penalty", minimum=0, maximum=10, takes="next turn",
    ),
    Setting(
        key="seed", label="Seed", group="sampling", path="sampling.seed", minimum=0,
        maximum=2**32 - 2, null_means="a new one each time", takes="next turn",
    ),
    Setting(
        key="max_tokens", label="Longest answer (tokens)", group="sampling", own=(int, 512),
        minimum=-1, maximum=2**24, takes="next turn",
    ),
    Setting(
        key="enable_thinking", label="Thinking", group="server", own=(bool, True),
        takes="next turn",
    ),
    Setting(
        key="system_prompt", label="System prompt", group="server", own=(str, ""),
        takes="next turn",
    ),
    Setting(
        key="record_runs", label="Record runs", group="server", own=(bool, False),
        takes="next turn",
    ),
)  # fmt: skip
