"""How much memory the expert cache may have: pure arithmetic over probed numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moestream.telemetry.system import MemoryState

__all__ = [
    "AutoCache",
    "Usable",
    "auto_cache",
    "cliff_warning",
    "drop_warning",
    "page_table_bytes",
    "usable_memory",
    "widest_ubatch",
]

MIB: Final = 2**20
_PAGE: Final = 4096
_PAGE_TABLE_ENTRY: Final = 8

# What is left alone. A machine is shared with programs that will grow; a control group is this
# process's own, and what it will still need there is mostly counted (see Usable).
_MACHINE_FLOOR: Final = 512 * MIB
_MACHINE_FLOOR_SHARE: Final = 0.05
_CGROUP_FLOOR: Final = 128 * MIB
_CGROUP_FLOOR_SHARE: Final = 0.03
# Used where the machine does not say what is available.
_UNKNOWN_AVAILABLE_SHARE: Final = 0.5

MAX_UBATCH: Final = 512


@dataclass(frozen=True, slots=True)
class Usable:
    """Memory that experts may take, and how it was found.

    Attributes:
        bytes: after all deductions, 0 or more.
        available: before them.
        floor: left for others.
        source: ``"machine"``, ``"cgroup"`` or ``"unknown"``: which limit is the tighter.
    """

    bytes: int
    available: int
    floor: int
    source: str


@dataclass(frozen=True, slots=True)
class AutoCache:
    """The size that ``auto`` comes to, and what decided it."""

    bytes: int
    limited_by: str


def usable_memory(state: MemoryState, *, reserved: int) -> Usable:
    """Memory left for experts.

    The rule: what is available to the machine less max(512 MiB, 5 % of all memory), and what is
    available to the control group less max(128 MiB, 3 % of its limit); the smaller of the two,
    less ``reserved``.

    Args:
        state: probed after the dense weights and the KV are in memory.
        reserved: bytes that are promised but not touched yet (compute buffers, page tables,
            a checkpoint of the recurrent state, dense weights in the page cache).
    """
    candidates: list[tuple[int, int, str]] = []
    if state.available is not None:
        total = state.total if state.total is not None else state.available
        floor = max(_MACHINE_FLOOR, int(total * _MACHINE_FLOOR_SHARE))
        candidates.append((state.available, floor, "machine"))
    elif state.total is not None:
        available = int(state.total * _UNKNOWN_AVAILABLE_SHARE)
        candidates.append((available, 0, "unknown"))
    if state.cgroup_available is not None and state.cgroup_limit is not None:
        floor = max(_CGROUP_FLOOR, int(state.cgroup_limit * _CGROUP_FLOOR_SHARE))
        candidates.append((state.cgroup_available, floor, "cgroup"))
    if not candidates:
        return Usable(0, 0, 0, "unknown")
    available, floor, source = min(candidates, key=lambda entry: entry[0] - entry[1])
    return Usable(max(available - floor - reserved, 0), available, floor, source)


def auto_cache(usable: int, *, ceiling: int | None, all_experts: int) -> AutoCache:
    """The smallest of the memory there is, the user's ceiling, and what all experts take."""
    size, limited_by = usable, "memory"
    if ceiling is not None and ceiling < size:
        size, limited_by = ceiling, "ceiling"
    if all_experts <= size:
        size, limited_by = all_experts, "model"
    return AutoCache(size, limited_by)


def page_table_bytes(*mapped: int) -> int:
    """Page tables for mappings of these sizes, which the kernel charges like other memory."""
    return sum(size // _PAGE * _PAGE_TABLE_ENTRY for size in mapped)


def widest_ubatch(
    *, budget: int, n_expert: int, n_expert_used: int, max_expert_bytes: int, n_ctx: int
) -> int:
    """Widest power of two up to 512 whose routed experts of one layer fit into ``budget``.

    A step of n tokens routes at most ``min(n * n_expert_used, n_expert)`` experts of a layer, and
    all of them have to be in memory at once.
    """
    width = 1
    candidate = 1
    while candidate <= min(MAX_UBATCH, n_ctx):
        if min(candidate * n_expert_used, n_expert) * max_expert_bytes <= budget:
            width = candidate
        candidate *= 2
    return width


def cliff_warning(*, budget: int, token_demand: int, layer_demand: int, needed: int) -> str | None:
    """What to say where the cache is below one token's demand; ``None`` where it is not.

    Layers use their experts in turn, so when a layer's turn comes again, everything that the
    other layers use has gone through the cache since. A least-recently-used cache that does not
    hold all of that has just evicted what comes next, and hits nothing at all.

    Args:
        budget: of the cache.
        token_demand: bytes that one token routes.
        layer_demand: bytes that one token routes in the neediest layer.
        needed: the budget that one token's demand fits into, pages and lanes included.
    """
    if budget >= needed:
        return None
    nothing = budget < token_demand - layer_demand
    outcome = "its hit rate will be exactly zero" if nothing else "it will hit next to nothing"
    return (
        f"the expert cache of {budget / MIB:.0f} MiB is below what one token routes "
        f"({token_demand / MIB:.1f} MiB), so {outcome}; "
        f"give it {-(-needed // MIB)} MiB or more"
    )


def drop_warning(*, fraction: float, n_expert_used: int) -> str | None:
    """What to say about dropping cold experts where each of them carries much of the result."""
    if fraction <= 0.0 or n_expert_used > 4:
        return None
    share = fraction / n_expert_used
    dropped = (n_expert_used - 1) * share
    return (
        f"this model routes only {n_expert_used} experts a token: dropping cold experts below "
        f"{fraction:g}/{n_expert_used} may skip experts that carry up to {share:.0%} of a layer's "
        f"result each, {dropped:.0%} together"
    )
