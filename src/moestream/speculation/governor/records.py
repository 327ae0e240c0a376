"""What goes into the governor and what comes out: frozen records, no clock, no model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from moestream.errors import ConfigError

__all__ = ["SOURCES", "Plan", "Reason", "Source", "StepRecord", "check_settings"]

#: Who can draft.
Source = Literal["ngram", "mtp"]

#: Why a plan is what it is.
#:
#: ``pays``: it is expected to. ``does not pay``: nothing is. ``probe``: it may, which is worth
#: finding out. ``recheck``: a plain step, to see what one costs now. ``capped``: it is expected to
#: pay, but too much was lost lately to risk it. ``first look``: costs of a plain step come first.
Reason = Literal["pays", "does not pay", "probe", "recheck", "capped", "first look"]

SOURCES: tuple[Source, ...] = ("ngram", "mtp")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do in the next step.

    Attributes:
        source: who drafts; ``None`` for a plain step.
        width: most tokens to draft; 0 for a plain step.
        reason: why.
        gain: what the step is expected to bring over a plain one, in tokens, after its own time is
            paid for at the rate the text is going at.
    """

    source: Source | None
    width: int
    reason: Reason
    gain: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """What became of a step. Times are milliseconds.

    Attributes:
        source: who drafted; ``None`` if nobody did.
        drafted: tokens that were drafted.
        verified: how many of them the decode had rows for.
        accepted: how many of those were confirmed.
        tokens: tokens confirmed by the step, the free one included.
        agreed: whether the first draft that was *not* verified equals the token that came free in
            its place. Known without a row wherever every verified draft was confirmed, and what
            makes a guess that is never verified informative.
        compute_ms: time in the decode that was not spent waiting for bytes.
        stall_ms: time in it spent waiting for them; ``None`` where it is not measured, and then
            ``read_bytes * ms_per_byte`` counts.
        read_bytes: expert bytes read by the decode.
        ms_per_byte: what a byte that has to be waited for costs at present, if known otherwise.
        draft_ms: drafting.
        catch_up_ms: keeping the source in step with what was confirmed.
        rollback_ms: going back past what was rejected.
        confidences: of each drafted token, the probability the source gave it (MTP).
        ngram_match: tokens that matched before this step, whoever drafted; 0 for none.
        ngram_agreed: whether the first token that lookup would have proposed is the token that
            came; ``None`` if it had none. Costs nothing to know.
    """

    source: Source | None
    drafted: int = 0
    verified: int = 0
    accepted: int = 0
    tokens: int = 1
    agreed: bool | None = None
    compute_ms: float
    stall_ms: float | None = None
    read_bytes: int = 0
    ms_per_byte: float | None = None
    draft_ms: float = 0.0
    catch_up_ms: float = 0.0
    rollback_ms: float = 0.0
    confidences: tuple[float, ...] = ()
    ngram_match: int = 0
    ngram_agreed: bool | None = None

    @property
    def waited_ms(self) -> float:
        """Time spent waiting for bytes, measured or worked out."""
        if self.stall_ms is not None:
            return self.stall_ms
        return self.read_bytes * (self.ms_per_byte or 0.0)

    @property
    def drafting_ms(self) -> float:
        """Everything the source's guesses cost outside the decode."""
        return self.draft_ms + self.catch_up_ms

    @property
    def wall_ms(self) -> float:
        """The whole step."""
        return self.compute_ms + self.waited_ms + self.drafting_ms + self.rollback_ms

    @property
    def is_sound(self) -> bool:
        """Whether it can be learned from: counts that fit together, times that are numbers."""
        times = (self.compute_ms, self.waited_ms, self.draft_ms, self.catch_up_ms, self.rollback_ms)
        return (
            all(isfinite(ms) and ms >= 0.0 for ms in times)
            and self.compute_ms > 0.0
            and 0 <= self.accepted <= self.verified <= self.drafted
            and self.tokens >= 1
            and self.read_bytes >= 0
        )


def check_settings(
    sources: Collection[str], max_width: int, regret_budget: float, most_width: int
) -> None:
    """Refuse settings that make no sense.

    Raises:
        ConfigError: an unknown source or none, a width or a budget out of range.
    """
    unknown = [name for name in sources if name not in SOURCES]
    if unknown or not sources:
        raise ConfigError(
            f"the governor chooses among {' and '.join(SOURCES)}, got {unknown or 'nothing'}; "
            "name one of them or both"
        )
    if not 1 <= max_width <= most_width:
        raise ConfigError(
            f"the widest draft must be 1 to {most_width} tokens, got {max_width}; narrow it"
        )
    if not (isfinite(regret_budget) and 0.0 <= regret_budget <= 0.1):
        raise ConfigError(
            "the regret budget is the share of time that probes may lose, 0 to 0.1, "
            f"got {regret_budget}; 0.01 is the default"
        )
