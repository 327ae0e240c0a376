"""What a generation tells its caller: one immutable record a token, and one for the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "FinishReason",
    "GenerationSummary",
    "Phase",
    "SpeculationSummary",
    "TokenEvent",
    "TokenMetrics",
]

FinishReason = Literal["stop", "length", "cancelled"]
Phase = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMetrics:
    """What the evaluation behind a token cost.

    The first token of a generation carries the whole prefill (``phase`` says so), every other one
    its own decode, or its share of a group's: see ``batch``. ``None`` is "not measured here", never
    zero.

    Attributes:
        phase: what was evaluated.
        rows: tokens evaluated.
        wall_ms: time inside llama.cpp's decode.
        stall_ms: part of it in which compute waited for bytes. While reads overlap compute it is
            what this thread did not spend on the CPU, waits for the other compute threads
            included: an upper bound.
        compute_ms: the rest of ``wall_ms``.
        io_ms: time inside read calls, summed over lanes.
        loop_overhead_ms: time between the previous decode's end and this one's start (sampling,
            text, and whatever the caller did with the previous event).
        cpu_ms: CPU time of the whole process during the decode.
        majflt: major page faults of the process during the decode.
        read_bytes: expert bytes read.
        hits: routed experts found in the cache, counted once a layer.
        misses: routed experts that had to be read.
        dropped: routings skipped by cold-expert dropping.
        routed: routings seen.
        evictions: experts evicted.
        rereads: misses on experts that had been in the cache before.
        guard_loads: reads that nobody had asked for before compute touched them.
        batch: tokens that the decode confirmed: 1 without speculation. A verified group stands on
            its first token; the others carry zeros here and in everything above.
        drafted: tokens that the decode verified.
        accepted: how many of them it confirmed.
        draft_ms: time spent on drafting them and on keeping the draft source in step, since the
            previous decode; part of ``loop_overhead_ms``.
        draft_read_bytes: expert bytes read meanwhile; part of ``read_bytes``.
        mgmt_ms: time spent on making pages present and taking them away, summed over lanes.
    """

    phase: Phase
    rows: int
    wall_ms: float
    stall_ms: float
    compute_ms: float
    io_ms: float
    loop_overhead_ms: float
    cpu_ms: float | None
    majflt: int | None
    read_bytes: int
    hits: int
    misses: int
    dropped: int
    routed: int
    evictions: int
    rereads: int
    guard_loads: int
    batch: int = 1
    drafted: int = 0
    accepted: int = 0
    draft_ms: float = 0.0
    draft_read_bytes: int = 0
    mgmt_ms: float = 0.0

    @classmethod
    def free(cls, *, measured: bool) -> TokenMetrics:
        """Metrics of a token that came with a group's first one, which carries the cost."""
        return cls(
            phase="decode", rows=0, wall_ms=0.0, stall_ms=0.0, compute_ms=0.0, io_ms=0.0,
            loop_overhead_ms=0.0, cpu_ms=0.0 if measured else None,
            majflt=0 if measured else None, read_bytes=0, hits=0, misses=0, dropped=0, routed=0,
            evictions=0, rereads=0, guard_loads=0, batch=0,
        )  # fmt: skip

    @property
    def hit_pct(self) -> float | None:
        """Share of routed experts found in the cache, in percent."""
        return hit_percent(self.hits, self.misses)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEvent:
    """One generated token.

    Attributes:
        text: text that became certain with this token. Bytes of an unfinished character and the
            beginning of a possible stop string are held back until they are decided.
        token_id: the token; ``None`` on the closing event of a cancelled generation.
        index: running number within the generation, from 0.
        position: position of the token in the context.
        finish_reason: set on the last event.
        metrics: what the evaluation behind it cost.
        tok_s: tokens a second so far, over everything since the first token; ``None`` on it.
    """

    text: str
    token_id: int | None
    index: int
    position: int
    finish_reason: FinishReason | None
    metrics: TokenMetrics
    tok_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationSummary:
    """What drafting brought and what it cost, over one generation.

    Attributes:
        source: ``"mtp"`` or ``"ngram"``.
        width: tokens drafted at most; 0 where the generation was asked for without drafts.
        steps: decodes after the prefill.
        drafted_steps: how many of them verified a draft.
        drafted: tokens drafted and verified.
        accepted: tokens confirmed out of them.
        draft_s: time spent on drafting and on keeping the draft source in step.
        draft_read_bytes: expert bytes read meanwhile.
        offered_at: how often a draft reached each position (index 0 is the first) with all
            positions before it confirmed.
        accepted_at: how often the position was confirmed then.
        synthetic: acceptance was forced for a benchmark; the text is not the model's.
    """

    source: str
    width: int
    steps: int
    drafted_steps: int
    drafted: int
    accepted: int
    draft_s: float
    draft_read_bytes: int
    offered_at: tuple[int, ...]
    accepted_at: tuple[int, ...]
    synthetic: bool

    @property
    def acceptance_pct(self) -> float | None:
        """Share of the drafted tokens that were confirmed, in percent."""
        return 100.0 * self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_verify(self) -> float | None:
        """Tokens that a decode with a draft confirmed, the free one included."""
        return 1 + self.accepted / self.drafted_steps if self.drafted_steps else None

    @property
    def coverage_pct(self) -> float | None:
        """Share of the decodes that verified a draft, in percent."""
        return 100.0 * self.drafted_steps / self.steps if self.steps else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSummary:
    """A finished generation as a whole.

    Attributes:
        finish_reason: why it ended; ``None`` if it was abandoned or failed.
        prompt_tokens: tokens of the prompt.
        reused_tokens: how many of them were in the context already.
        generated_tokens: tokens generated.
        prefill_s: time to evaluate the rest of the prompt.
        decode_s: time from the first token to the last.
        read_bytes: expert bytes read while decoding.
        prefill_read_bytes: expert bytes read while prefilling.
        hits: routed experts found in the cache while decoding.
        misses: routed experts read while decoding.
        dropped: routings skipped.
        routed: routings seen.
        stall_s: sum over decodes.
        io_s: sum over decodes and lanes.
        loop_overhead_s: sum over decodes.
        cpu_s: sum over decodes, ``None`` if not measured.
        majflt: sum over decodes, ``None`` if not measured.
        guard_loads: prefill included; zero unless something is wrong.
        wall_s: sum over decodes: time inside llama.cpp, drafting excluded.
        decodes: decodes after the prefill.
        speculation: ``None`` unless the session speculates.
    """

    finish_reason: FinishReason | None
    prompt_tokens: int
    reused_tokens: int
    generated_tokens: int
    prefill_s: float
    decode_s: float
    read_bytes: int
    prefill_read_bytes: int
    hits: int
    misses: int
    dropped: int
    routed: int
    evictions: int
    rereads: int
    stall_s: float
    io_s: float
    loop_overhead_s: float
    cpu_s: float | None
    majflt: int | None
    guard_loads: int
    wall_s: float = 0.0
    decodes: int = 0
    speculation: SpeculationSummary | None = None

    @property
    def decoded_tokens(self) -> int:
        """Tokens that decodes made after the prefill: all but the first."""
        return max(self.generated_tokens - 1, 0)

    @property
    def tok_s(self) -> float | None:
        """The effective rate: tokens a second as the caller saw them, first token excluded."""
        if self.decoded_tokens == 0 or self.decode_s <= 0.0:
            return None
        return self.decoded_tokens / self.decode_s

    @property
    def decode_tok_s(self) -> float | None:
        """Tokens per second of decoding alone, which leaves out drafting, sampling and text.

        Other programs report this one. Nobody experiences it; never show it alone.
        """
        return self.decoded_tokens / self.wall_s if self.wall_s > 0.0 else None

    @property
    def prefill_tok_s(self) -> float | None:
        """Prompt tokens evaluated a second."""
        evaluated = self.prompt_tokens - self.reused_tokens
        return evaluated / self.prefill_s if self.prefill_s > 0.0 else None

    @property
    def hit_pct(self) -> float | None:
        """Share of routed experts found in the cache while decoding, in percent."""
        return hit_percent(self.hits, self.misses)

    @property
    def mib_per_token(self) -> float | None:
        """Expert MiB read per decoded token."""
        if self.decoded_tokens == 0:
            return None
        return self.read_bytes / self.decoded_tokens / 2**20


def hit_percent(hits: int, misses: int) -> float | None:
    """``hits`` in percent of all; ``None`` where nothing was routed."""
    total = hits + misses
    return 100.0 * hits / total if total else None
