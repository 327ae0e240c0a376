"""Settings of a session: frozen dataclasses, checked by :meth:`EngineConfig.validate`.

This module is pure: it knows no llama.cpp, no files and no machine. What depends on the machine
or the model (``auto`` sizes, thread counts) is resolved later, by the engine, and reported as
resolved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

from moestream.errors import ConfigError

__all__ = [
    "EMBEDDED_MODEL",
    "MAX_DRAFT",
    "DenseWeights",
    "DraftSourceName",
    "EngineConfig",
    "SamplingConfig",
    "SpeculationConfig",
    "StreamingConfig",
]

#: Name of the model that ships inside the package.
EMBEDDED_MODEL = "moestream-nano"

#: Most tokens that a step may draft.
MAX_DRAFT = 8

DenseWeights = Literal["mmap", "warm", "anon"]
DraftSourceName = Literal["none", "mtp", "ngram"]

_MAX_IO_THREADS = 64
_MAX_PREFETCH = 8


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


_NUMBERS: dict[type, tuple[type, ...]] = {float: (float, int)}


def _check_types(config: object) -> None:
    """Refuse fields whose value is not of the annotated type, before anything is compared.

    A truth value is no number, whatever Python thinks: ``cache_mb=True`` is a mistake.
    """
    for name, hint in get_type_hints(type(config)).items():
        options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        value = getattr(config, name)
        literals = [arg for option in options for arg in get_args(option)]
        kinds = [option for option in options if isinstance(option, type)]
        allowed = tuple(kind for option in kinds for kind in _NUMBERS.get(option, (option,)))
        wrong = isinstance(value, bool) and bool not in kinds
        if wrong or not (value in literals or isinstance(value, allowed)):
            names = [repr(arg) for arg in literals]
            names += ["nothing" if kind is type(None) else kind.__name__ for kind in kinds]
            raise ConfigError(f"{name} must be {' or '.join(names)}, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    """How the next token is chosen.

    ``temperature`` 0 is greedy decoding and ignores the other fields; the default.
    """

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    seed: int | None = None

    def validate(self) -> None:
        """Raise :class:`ConfigError` if a value is out of its range."""
        _check_types(self)
        _require(
            0.0 <= self.temperature <= 100.0,
            f"temperature must lie in 0..100 (0 is greedy), got {self.temperature}",
        )
        _require(self.top_k >= 0, f"top-k must be 0 (off) or more, got {self.top_k}")
        _require(0.0 < self.top_p <= 1.0, f"top-p must lie in (0, 1], got {self.top_p}")
        _require(0.0 <= self.min_p < 1.0, f"min-p must lie in [0, 1), got {self.min_p}")
        _require(
            0.0 < self.repeat_penalty <= 10.0,
            f"repeat penalty must lie in (0, 10] (1 is off), got {self.repeat_penalty}",
        )
        if self.seed is not None:
            _require(
                0 <= self.seed < 2**32 - 1,
                f"seed must be an integer from 0 to {2**32 - 2}, got {self.seed}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingConfig:
    """Where expert weights live and how they are read.

    Attributes:
        moe_stream: ``True`` streams and refuses a model that cannot be streamed, ``False`` keeps
            everything resident, ``None`` streams whatever can be streamed.
        cache_mb: expert cache in MiB, 0 for none, ``"auto"`` to size it from available memory.
        cache_ceil_mb: upper bound in MiB for ``"auto"``.
        io_threads: parallel read lanes.
        o_direct: bypass the page cache (falls back where the filesystem refuses it).
        overlap: compute while reading; ``None`` wherever the platform can, ``True`` refuses
            where it cannot, ``False`` waits for the reads before computing.
        dense_weights: ``"mmap"`` leaves the non-expert weights mapped, ``"warm"`` maps them and
            reads them into the page cache once, ``"anon"`` reads them into anonymous memory.
        repack: let llama.cpp rearrange dense weights for its faster kernels (``"anon"`` only).
        prefetch: number of layers to read ahead on idle lanes, from the previous token's routing.
        drop_cold_experts: lossy. Skip a routed expert that is a cache miss and whose routing
            weight is below this fraction of ``1 / top-k``. 0 is off.
        drop_in_prefill: lossy. Apply dropping to the prompt as well.
    """

    moe_stream: bool | None = None
    cache_mb: int | Literal["auto"] = "auto"
    cache_ceil_mb: int | None = None
    io_threads: int = 2
    o_direct: bool = True
    overlap: bool | None = None
    dense_weights: DenseWeights = "anon"
    repack: bool = False
    prefetch: int = 0
    drop_cold_experts: float = 0.0
    drop_in_prefill: bool = False

    def validate(self) -> None:
        """Raise :class:`ConfigError` if a value is out of range or contradicts another."""
        _check_types(self)
        if self.cache_mb != "auto":
            _require(
                self.cache_mb >= 0,
                f"cache must be 'auto' or a size in MiB of 0 or more, got {self.cache_mb!r}",
            )
        if self.cache_ceil_mb is not None:
            _require(
                self.cache_ceil_mb > 0,
                f"the cache ceiling must be more than 0 MiB, got {self.cache_ceil_mb}",
            )
            _require(
                self.cache_mb == "auto",
                "a cache ceiling only applies to an 'auto' cache; "
                f"drop it, or the fixed cache of {self.cache_mb} MiB",
            )
        _require(
            1 <= self.io_threads <= _MAX_IO_THREADS,
            f"io threads must lie in 1..{_MAX_IO_THREADS}, got {self.io_threads}",
        )
        _require(
            not (self.repack and self.dense_weights != "anon"),
            "repacked dense weights are copies in memory: use them with dense weights 'anon', "
            f"not {self.dense_weights!r}",
        )
        _require(
            0 <= self.prefetch <= _MAX_PREFETCH,
            f"prefetch must lie in 0..{_MAX_PREFETCH} layers, got {self.prefetch}",
        )
        _require(
            not (self.prefetch and self.cache_mb == 0),
            f"prefetch ({self.prefetch} layers) needs a cache to put experts in; "
            "give the cache a size, or drop prefetch",
        )
        _require(
            0.0 <= self.drop_cold_experts <= 1.0,
            f"drop-cold-experts must lie in 0..1, got {self.drop_cold_experts}",
        )
        _require(
            not (self.drop_cold_experts and self.cache_mb == 0),
            "drop-cold-experts needs a cache: without one every expert is cold; "
            "give the cache a size, or drop the flag",
        )
        _require(
            not (self.drop_in_prefill and not self.drop_cold_experts),
            "drop-in-prefill has no effect without drop-cold-experts",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationConfig:
    """Self-speculative decoding: guess a few tokens, verify them all in one decode.

    The text is what the model says without it, up to rounding: a decode of several rows may
    resolve a near-tie between two tokens otherwise than a decode of one.

    Attributes:
        source: who drafts. ``"mtp"`` is the model's own multi-token-prediction block, ``"ngram"``
            looks up what followed the same words earlier in the conversation.
        draft: most tokens to draft a step.
        mtp_p_min: stop drafting where the head gives its own proposal less than this probability.
        ngram_min_match: draft only if at least this many tokens match.
        ngram_max_match: do not look for matches longer than this.
        synthetic_acceptance: for benchmarks. Confirm each draft with this probability, whatever
            the model says: maps what speculation costs without depending on a head. The text is
            not the model's then.
    """

    source: DraftSourceName = "none"
    draft: int = 3
    mtp_p_min: float = 0.0
    ngram_min_match: int = 3
    ngram_max_match: int = 32
    synthetic_acceptance: float | None = None

    def validate(self) -> None:
        """Raise :class:`ConfigError` if a value is out of range or contradicts another."""
        _check_types(self)
        _require(
            1 <= self.draft <= MAX_DRAFT,
            f"the draft width must lie in 1..{MAX_DRAFT} tokens, got {self.draft}",
        )
        _require(
            0.0 <= self.mtp_p_min <= 1.0,
            f"mtp-p-min is a probability and must lie in 0..1, got {self.mtp_p_min}",
        )
        _require(
            1 <= self.ngram_min_match <= self.ngram_max_match,
            f"ngram-min-match must be at least 1 and at most the longest match looked for "
            f"({self.ngram_max_match}), got {self.ngram_min_match}",
        )
        default = SpeculationConfig()
        _require(
            self.mtp_p_min == 0.0 or self.source == "mtp",
            "mtp-p-min is a setting of the MTP head; select it with --mtp, or drop the setting",
        )
        _require(
            self.source == "ngram"
            or (self.ngram_min_match, self.ngram_max_match)
            == (default.ngram_min_match, default.ngram_max_match),
            "ngram-min-match is a setting of n-gram lookup; select it with --ngram, or drop the "
            "setting",
        )
        _require(
            self.draft == default.draft or self.source != "none",
            f"a draft width of {self.draft} needs somebody to draft; "
            "select --mtp or --ngram, or drop the setting",
        )
        if self.synthetic_acceptance is not None:
            _require(
                self.source != "none",
                "synthetic acceptance needs a draft source; select --mtp or --ngram",
            )
            _require(
                0.0 <= self.synthetic_acceptance <= 1.0,
                "synthetic acceptance is a probability and must lie in 0..1, "
                f"got {self.synthetic_acceptance}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Everything a session needs to know.

    Attributes:
        model: path of a GGUF (the first shard of a split one), or the embedded model's name.
        n_ctx: context window in tokens; ``None`` takes the smaller of the model's and 4096.
        n_ubatch: tokens per prefill step; ``None`` takes the widest that the expert memory holds.
        threads: compute threads; ``None`` measures at load and takes the fastest.
        n_expert_used: override of the model's top-k.
        chat_template: path of a Jinja template that replaces the model's own.
    """

    model: str | Path = EMBEDDED_MODEL
    n_ctx: int | None = None
    n_ubatch: int | None = None
    threads: int | None = None
    n_expert_used: int | None = None
    chat_template: Path | None = None
    streaming: StreamingConfig = field(default_factory=StreamingConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    speculation: SpeculationConfig = field(default_factory=SpeculationConfig)

    def validate(self) -> None:
        """Raise :class:`ConfigError` if a value is out of range or contradicts another."""
        _check_types(self)
        _require(str(self.model) != "", "no model given")
        if self.n_ctx is not None:
            _require(self.n_ctx >= 8, f"the context must hold at least 8 tokens, got {self.n_ctx}")
        if self.n_ubatch is not None:
            _require(
                1 <= self.n_ubatch <= 8192,
                f"the micro-batch must lie in 1..8192 tokens, got {self.n_ubatch}",
            )
        if self.threads is not None:
            _require(1 <= self.threads <= 512, f"threads must lie in 1..512, got {self.threads}")
        if self.n_expert_used is not None:
            _require(
                self.n_expert_used >= 1,
                f"experts per token must be 1 or more, got {self.n_expert_used}",
            )
        self.streaming.validate()
        self.sampling.validate()
        self.speculation.validate()
        if self.speculation.source != "none":
            self.check_greedy(self.sampling)
            _require(
                self.n_ubatch is None or self.n_ubatch >= self.speculation.draft + 2,
                f"a micro-batch of {self.n_ubatch} tokens is too narrow to verify "
                f"{self.speculation.draft} drafts; it must hold at least "
                f"{self.speculation.draft + 2}",
            )

    def check_greedy(self, sampling: SamplingConfig) -> None:
        """Raise :class:`ConfigError` if this session speculates and ``sampling`` draws tokens."""
        _require(
            self.speculation.source == "none" or sampling.temperature == 0.0,
            "speculation verifies the one most likely token, so it needs a temperature of 0, "
            f"got {sampling.temperature}; drop --mtp or --ngram, or the temperature",
        )
