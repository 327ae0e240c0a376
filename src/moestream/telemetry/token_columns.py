"""The columns of a token's row, in the order of the CSV."""

from __future__ import annotations

from typing import Final

from moestream.telemetry.column import Column

__all__ = ["TOKEN_COLUMNS"]

_RESIDENT: Final = "nothing is streamed"
_NO_RUSAGE: Final = "the platform does not count it for a process"
_NO_PROC: Final = "the platform has no /proc"


def _ms(name: str, meaning: str, unmeasured: str = "") -> Column:
    return Column(name, "ms", meaning, unmeasured, "float", 3)


def _mib(name: str, meaning: str, unmeasured: str = "") -> Column:
    return Column(name, "MiB", meaning, unmeasured, "float", 3)


TOKEN_COLUMNS: Final[tuple[Column, ...]] = (
    Column("step", "", "Running number of the token within its turn, from 0."),
    Column(
        "steps",
        "",
        "Tokens that the turn may generate at most: the limit that was asked for.",
        "there was no limit",
    ),
    _ms(
        "wall_ms",
        "Time inside llama.cpp's decode alone. The first row of a turn carries the whole prefill "
        "(see phase). A verify decode confirms a group of tokens: its whole cost stands on the "
        "group's first row, and the others carry zeros (see mtp_batch).",
    ),
    _ms("io_ms", "Time inside read calls for experts, summed over lanes.", _RESIDENT),
    _ms("compute_ms", "The residual: wall_ms less stall_ms."),
    Column(
        "read_bytes",
        "bytes",
        "Bytes of experts read from disk, drafting included; those of the prefill stand on the "
        "first row of a turn (see phase).",
        _RESIDENT,
    ),
    Column(
        "cache_hit_pct",
        "%",
        "Share of the routed experts that were in the cache, counted once a layer.",
        "nothing was routed: nothing is streamed, or the row is not the first of its group",
        "float",
        3,
    ),
    _ms(
        "stall_ms",
        "Part of wall_ms in which compute waited for bytes. While reads overlap compute it is "
        "what the decoding thread did not spend on the CPU: an upper bound.",
        _RESIDENT,
    ),
    _ms(
        "mgmt_ms",
        "Time spent making pages of experts present or taking them away, summed over lanes.",
        _RESIDENT,
    ),
    Column("majflt", "", "Major page faults of the process during the decode.", _NO_RUSAGE),
    _ms("cpu_ms", "CPU time of the whole process during the decode.", _NO_RUSAGE),
    Column(
        "dense_resident_frac",
        "",
        "Share of the non-expert weights that is in memory: 1 where they are anonymous memory and "
        "nothing of the process is in swap.",
        "the weights are mapped (mmap, warm), where looking at every page would cost more than a "
        "row may; or something of the process is in swap",
        "float",
        4,
    ),
    Column("turn", "", "Running number of the turn within the session, from 0."),
    _mib(
        "majflt_mib",
        "majflt times the page size: the least that those faults read.",
        _NO_RUSAGE,
    ),
    _mib("cache_budget_mib", "Bound on all memory held for experts.", _RESIDENT),
    _mib("rss_mib", "Resident memory of the process; probed after the decode.", _NO_PROC),
    _mib("rss_anon_mib", "Part of it that is anonymous or shared memory.", _NO_PROC),
    _mib("rss_file_mib", "Part of it that is mapped from files.", _NO_PROC),
    _mib("swap_mib", "Memory of the process that is in swap.", _NO_PROC),
    _mib(
        "mem_available_mib",
        "Memory of the machine that can be taken without swapping. The limit of a control group "
        "is not in it.",
        _NO_PROC,
    ),
    _mib("mem_free_mib", "Memory of the machine that nothing uses.", _NO_PROC),
    _mib("swap_free_mib", "Swap of the machine that nothing uses.", _NO_PROC),
    _ms(
        "loop_overhead_ms",
        "Everything between the previous decode's end and this one's begin: drafting, choosing, "
        "text, and whatever the caller did with the previous token.",
    ),
    Column(
        "mtp_batch",
        "",
        "Tokens that the decode confirmed: 1 without speculation, 0 on the other rows of a group. "
        "The name is the same for every draft source.",
    ),
    _ms(
        "mtp_draft_ms",
        "Drafting and catching up the draft source since the previous decode; a slice of "
        "loop_overhead_ms.",
    ),
    Column(
        "phase",
        "",
        "What was evaluated: prefill (the first row of a turn) or decode.",
        form="text",
    ),
    Column("position", "", "Position of the token in the context, from 0."),
    Column("rows", "", "Tokens that were evaluated; 0 on the other rows of a group."),
    Column("hits", "", "Routed experts that were in the cache, counted once a layer.", _RESIDENT),
    Column("misses", "", "Routed experts that had to be read.", _RESIDENT),
    Column("routed", "", "Routings seen: one per token, layer and slot.", _RESIDENT),
    Column("dropped", "", "Routings skipped by cold-expert dropping (lossy).", _RESIDENT),
    Column("evictions", "", "Experts evicted from the cache.", _RESIDENT),
    Column("rereads", "", "Misses on experts that had been in the cache before.", _RESIDENT),
    Column(
        "guard_loads",
        "",
        "Reads that nobody had queued before compute touched the bytes; not 0 only if something "
        "is wrong.",
        _RESIDENT,
    ),
    Column("drafted", "", "Drafted tokens that the decode verified."),
    Column("accepted", "", "Drafted tokens that the decode confirmed."),
    Column(
        "draft_read_bytes",
        "bytes",
        "Bytes of experts read while drafting; part of read_bytes.",
        _RESIDENT,
    ),
    Column(
        "tok_s",
        "tokens/s",
        "Effective rate of the turn so far, from its first token on.",
        "it is the turn's first token",
        "float",
        4,
    ),
)
