"""From sizes and measured rates to a range of tokens a second (pure arithmetic).

Two numbers bound a token: the time to multiply by every weight it uses, and the time to read the
experts it routes that are not in the cache. Which share that is depends on how the model routes,
which no header tells; so there is a range, between two assumptions that are said aloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "NEIGHBOUR_OVERLAP",
    "HitRange",
    "SpeedEstimate",
    "compute_seconds",
    "estimate_speed",
    "hit_range",
]

#: Share of a token's experts that the next token routes again: the optimistic assumption.
NEIGHBOUR_OVERLAP = 0.4


@dataclass(frozen=True, slots=True)
class HitRange:
    """Expected hit rate of the expert cache, 0 to 1, under either assumption."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedEstimate:
    """Seconds and tokens a second, as a range.

    Attributes:
        compute_s: multiplying only, everything in memory; a floor.
        io_s_low, io_s_high: reading what misses, at the better and the worse hit rate.
        tok_s_low: worse hit rate, and reads that nothing is hidden behind.
        tok_s_high: better hit rate, and reads that hide completely behind compute.
        tok_s_resident: if every expert were in memory.
        tok_s_no_cache: if none were kept, and reads that nothing is hidden behind.
    """

    hits: HitRange
    compute_s: float
    io_s_low: float
    io_s_high: float
    tok_s_low: float
    tok_s_high: float
    tok_s_resident: float
    tok_s_no_cache: float


def hit_range(*, cache_bytes: int, expert_bytes: int, cliff_bytes: int) -> HitRange:
    """What an LRU cache of ``cache_bytes`` will hit.

    Args:
        cache_bytes: size of the cache.
        expert_bytes: size of all experts.
        cliff_bytes: below this the hit rate is exactly zero: experts are used layer by layer in
            the same order for every token, so the oldest is always the next one needed.
    """
    if cache_bytes >= expert_bytes:
        return HitRange(1.0, 1.0)
    if cache_bytes < cliff_bytes:
        return HitRange(0.0, 0.0)
    share = cache_bytes / expert_bytes
    return HitRange(share, share + NEIGHBOUR_OVERLAP * (1.0 - share))


def compute_seconds(used: Mapping[str, float], rates: Mapping[str, float]) -> float | None:
    """Time to multiply by ``used`` bytes of each type; types without a rate take the slowest."""
    if not rates:
        return None
    slowest = min(rates.values())
    return sum(size / rates.get(name, slowest) for name, size in used.items())


def estimate_speed(
    *,
    compute_s: float,
    token_demand: int,
    disk_bytes_per_s: float,
    hits: HitRange,
) -> SpeedEstimate:
    """Put the two together."""
    io_all = token_demand / disk_bytes_per_s
    io_low, io_high = (1.0 - hits.high) * io_all, (1.0 - hits.low) * io_all
    return SpeedEstimate(
        hits=hits,
        compute_s=compute_s,
        io_s_low=io_low,
        io_s_high=io_high,
        tok_s_low=1.0 / (compute_s + io_high),
        tok_s_high=1.0 / max(compute_s, io_low),
        tok_s_resident=1.0 / compute_s,
        tok_s_no_cache=1.0 / (compute_s + io_all),
    )
