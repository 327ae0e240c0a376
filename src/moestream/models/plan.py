"""Does a model run on this machine, and how fast about: nothing of it is loaded.

:func:`memory_plan`, :func:`speed_plan` and :func:`verdict_of` are arithmetic over numbers that
they are given; :func:`plan_model` reads the header, probes the machine and measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from moestream.config import EngineConfig
from moestream.errors import PlatformError, UnsupportedModelError
from moestream.gguf import GGMLType, GGUFModel, check_model, read_model
from moestream.gguf.nextn import nextn_layers
from moestream.models.context_size import ContextSize, context_size
from moestream.models.diskrate import DiskMeasurement, FileRange, measure_disk
from moestream.models.estimate import SpeedEstimate, compute_seconds, estimate_speed, hit_range
from moestream.speculation.mtp import GRAPH_WIDTH
from moestream.speculation.support import check_mtp
from moestream.streaming import budget as rules
from moestream.streaming.layout import ExpertLayout, expert_layout
from moestream.telemetry.system import MemoryState, available_cpus, memory_state

__all__ = [
    "ComputeRate",
    "MemoryPlan",
    "PlanReport",
    "Verdict",
    "memory_plan",
    "plan_model",
    "used_bytes",
    "verdict_of",
]

Verdict = Literal["resident", "streams", "thrashes", "too-big", "not-streamable"]

_DEFAULT_N_CTX = 4096
_PAGE = 4096
_F32 = 4
#: Types to measure; the others are a small part of a token and take the slowest one's rate.
_MEASURED_TYPES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Where the memory goes, in bytes.

    Attributes:
        available: what this process may still take, ``source`` (machine or cgroup) says why.
        floor: part of it that is left alone.
        dense: weights that are always in memory.
        checkpoint: a saved recurrent state, to return to between turns.
        snapshots: more of them, to go back past rejected drafts.
        draft_context: of the multi-token-prediction block, and the hidden states it is fed.
        draft_dense: its weights without its experts, for a model that is streamed.
        left_for_experts: after all of these.
        layer_demand: the least that can work: one token's experts of the neediest layer.
        token_demand: one token's experts of all layers.
        cliff: cache size below which nothing is ever hit.
        auto_cache: what ``--cache-mb auto`` will come to, ``limited_by`` what decided it.
    """

    available: int
    source: str
    floor: int
    dense: int
    context: ContextSize
    checkpoint: int
    snapshots: int
    draft_context: int
    draft_dense: int
    page_tables: int
    left_for_experts: int
    experts: int
    layer_demand: int
    token_demand: int
    cliff: int
    auto_cache: int
    limited_by: str


@dataclass(frozen=True, slots=True)
class ComputeRate:
    """Measured rate of multiplying weights of a type with a vector."""

    type: str
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """Everything ``moestream plan`` says; what was not measured is ``None`` or empty.

    Attributes:
        used_bytes: weights one token multiplies by, by type.
    """

    architecture: str
    paths: tuple[Path, ...]
    file_bytes: int
    n_ctx: int
    threads: int
    n_expert: int
    n_expert_used: int
    memory: MemoryPlan
    used_bytes: Mapping[str, float]
    compute: tuple[ComputeRate, ...]
    disk: DiskMeasurement | None
    speed: SpeedEstimate | None
    verdict: Verdict
    notes: tuple[str, ...]


def plan_model(
    path: str | Path,
    config: EngineConfig,
    *,
    seconds: float = 3.0,
    tell: Callable[[str], None] | None = None,
) -> PlanReport:
    """Plan a run of the model at ``path`` with ``config``.

    Args:
        path: the model's file.
        config: context, micro-batch, threads, top-k, cache ceiling and speculation are taken into
            account.
        seconds: time to spend on measuring the disk; 0 measures nothing at all.
        tell: told what is going on, for a person who waits.

    Raises:
        ModelError: the file is not a well-formed model, or cannot draft as the config wants.
    """
    say = tell or (lambda _text: None)
    model = read_model(path)
    notes: list[str] = []
    layout: ExpertLayout | None = None
    if config.speculation.source == "mtp":
        check_model(model)
        check_mtp(model)
    try:
        layout = expert_layout(model)
    except UnsupportedModelError as error:
        notes.append(str(error))
    trained = model.get_int("context_length", 0) or _DEFAULT_N_CTX
    n_ctx = config.n_ctx or min(trained, _DEFAULT_N_CTX)
    memory = memory_plan(model, layout, config, n_ctx=n_ctx, state=memory_state())
    n_used = _n_used(model, layout, config)
    used = used_bytes(model, layout, n_used)
    threads = config.threads or available_cpus()

    rates: tuple[ComputeRate, ...] = ()
    disk: DiskMeasurement | None = None
    if seconds > 0:
        say("measuring how fast this machine multiplies")
        rates = _compute_rates(used, threads, notes)
        if layout is not None:
            say("measuring random reads")
            disk = _disk(model, layout, seconds, notes)
    speed = _speed(memory, used, rates, disk)
    return PlanReport(
        architecture=model.architecture,
        paths=model.paths,
        file_bytes=sum(model.file_sizes),
        n_ctx=n_ctx,
        threads=threads,
        n_expert=layout.n_expert if layout else 0,
        n_expert_used=n_used,
        memory=memory,
        used_bytes=used,
        compute=rates,
        disk=disk,
        speed=speed,
        verdict=verdict_of(memory, streamable=layout is not None),
        notes=tuple(notes),
    )


def memory_plan(
    model: GGUFModel,
    layout: ExpertLayout | None,
    config: EngineConfig,
    *,
    n_ctx: int,
    state: MemoryState,
) -> MemoryPlan:
    """Where the memory would go (pure)."""
    n_used = _n_used(model, layout, config)
    n_layer = layout.n_layer if layout else model.get_int("block_count", 0)
    weights = sum(tensor.nbytes for tensor in model.tensors.values())
    dense = layout.dense_bytes if layout else weights
    ubatch = config.n_ubatch or min(rules.MAX_UBATCH, n_ctx)
    extra = _speculation(model, layout, config, n_ctx=n_ctx, n_ubatch=ubatch)
    experts = _expert_bytes(layout, with_nextn=extra.loads_block)
    context = context_size(
        model,
        layers=range(n_layer),
        n_ctx=n_ctx,
        n_ubatch=ubatch,
        n_logits=1 + extra.snapshots,
    )
    page_tables = rules.page_table_bytes(dense, experts)
    snapshots = extra.snapshots * context.recurrent
    reserved = dense + context.total + context.recurrent + page_tables
    reserved += snapshots + extra.context + extra.hidden + extra.dense
    usable = rules.usable_memory(state, reserved=reserved)
    ceiling = config.streaming.cache_ceil_mb
    auto = rules.auto_cache(
        usable.bytes,
        ceiling=None if ceiling is None else ceiling * rules.MIB,
        all_experts=experts,
    )
    demand = layout.token_demand(n_used) if layout else 0
    return MemoryPlan(
        available=usable.available,
        source=usable.source,
        floor=usable.floor,
        dense=dense,
        context=context,
        checkpoint=context.recurrent,
        snapshots=snapshots,
        draft_context=extra.context + extra.hidden,
        draft_dense=extra.dense,
        page_tables=page_tables,
        left_for_experts=usable.available - usable.floor - reserved,
        experts=experts,
        layer_demand=layout.layer_demand(1, n_used) if layout else 0,
        token_demand=demand,
        cliff=demand + _edge_bytes(layout, n_used),
        auto_cache=auto.bytes,
        limited_by=auto.limited_by,
    )


def verdict_of(memory: MemoryPlan, *, streamable: bool) -> Verdict:
    """What it comes to.

    ``resident``: everything fits. ``streams``: the cache holds more than one token's demand.
    ``thrashes``: it runs, and reads every routed expert of every token. ``too-big``: not even
    one layer's experts fit. ``not-streamable``: does not fit, and there is nothing to stream.
    """
    if memory.left_for_experts >= 0 and memory.auto_cache >= memory.experts:
        return "resident"
    if not streamable:
        return "not-streamable"
    if memory.auto_cache >= memory.cliff:
        return "streams"
    return "thrashes" if memory.auto_cache >= memory.layer_demand else "too-big"


def used_bytes(
    model: GGUFModel, layout: ExpertLayout | None, n_expert_used: int
) -> dict[str, float]:
    """Bytes of weights that one token multiplies by, by type (pure)."""
    experts = layout.tensors if layout else ()
    share = {tensor.name: n_expert_used / tensor.n_expert for tensor in experts}
    n_layer = layout.n_layer if layout else model.get_int("block_count", 0)
    tied = "output.weight" not in model.tensors
    used: dict[str, float] = {}
    for tensor in model.tensors.values():
        if len(tensor.shape) < 2 or _block_of(tensor.name) >= n_layer:
            continue
        if tensor.name == "token_embd.weight" and not tied:
            continue  # one row of it is looked up
        size = tensor.nbytes * share.get(tensor.name, 1.0)
        used[tensor.type.name] = used.get(tensor.type.name, 0.0) + size
    return used


def _block_of(name: str) -> int:
    parts = name.split(".")
    return int(parts[1]) if parts[0] == "blk" and len(parts) > 1 and parts[1].isdecimal() else -1


def _n_used(model: GGUFModel, layout: ExpertLayout | None, config: EngineConfig) -> int:
    if layout is None:
        return 0
    return min(config.n_expert_used or layout.n_expert_used, layout.n_expert)


def _expert_bytes(layout: ExpertLayout | None, *, with_nextn: bool) -> int:
    if layout is None:
        return 0
    return sum(
        tensor.nbytes for tensor in layout.tensors if with_nextn or tensor.layer < layout.n_layer
    )


@dataclass(frozen=True, slots=True)
class _Speculation:
    """What speculation takes: copies of the state (a number), and bytes."""

    snapshots: int = 0
    context: int = 0
    hidden: int = 0
    dense: int = 0
    loads_block: bool = False


def _speculation(
    model: GGUFModel,
    layout: ExpertLayout | None,
    config: EngineConfig,
    *,
    n_ctx: int,
    n_ubatch: int,
) -> _Speculation:
    source, draft = config.speculation.source, config.speculation.draft
    if source == "none":
        return _Speculation()
    if source == "ngram":
        return _Speculation(snapshots=draft)
    layers = nextn_layers(model)
    width = min(n_ubatch, GRAPH_WIDTH)
    return _Speculation(
        snapshots=draft,
        context=context_size(model, layers=layers, n_ctx=n_ctx, n_ubatch=width).total,
        hidden=_F32 * n_ubatch * model.get_int("embedding_length", 0),
        dense=layout.nextn_dense_bytes if layout else 0,  # a resident plan counts every tensor
        loads_block=True,
    )


def _edge_bytes(layout: ExpertLayout | None, n_used: int) -> int:
    """Pages that slices share with their neighbours count as a whole: two for each slice."""
    if layout is None:
        return 0
    slices = sum(1 for tensor in layout.tensors if tensor.layer < layout.n_layer)
    return 2 * _PAGE * slices * n_used


def _compute_rates(
    used: Mapping[str, float], threads: int, notes: list[str]
) -> tuple[ComputeRate, ...]:
    largest = sorted(used, key=lambda name: -used[name])[:_MEASURED_TYPES]
    try:
        from moestream.llama.matvec import matvec_rate

        rates = [(name, matvec_rate(GGMLType[name], threads=threads)) for name in largest]
    except PlatformError as error:
        notes.append(f"compute was not measured: {error}")
        return ()
    return tuple(ComputeRate(name, rate) for name, rate in rates if rate is not None)


def _disk(
    model: GGUFModel, layout: ExpertLayout, seconds: float, notes: list[str]
) -> DiskMeasurement | None:
    trunk = [tensor for tensor in layout.tensors if tensor.layer < layout.n_layer]
    ranges = [FileRange(tensor.shard, tensor.offset, tensor.nbytes) for tensor in trunk]
    lanes = (1, 2, 4)
    try:
        return measure_disk(
            model.paths,
            ranges,
            read_bytes=int(median(tensor.stride for tensor in trunk)),
            lanes=lanes,
            seconds=seconds / len(lanes),
        )
    except OSError as error:
        notes.append(f"the disk was not measured: {error.strerror or error}")
        return None


def _speed(
    memory: MemoryPlan,
    used: Mapping[str, float],
    rates: Sequence[ComputeRate],
    disk: DiskMeasurement | None,
) -> SpeedEstimate | None:
    compute = compute_seconds(used, {rate.type: rate.bytes_per_s for rate in rates})
    best = disk.best if disk is not None else None
    if not compute or best is None or best.bytes_per_s <= 0:
        return None
    return estimate_speed(
        compute_s=compute,
        token_demand=memory.token_demand,
        disk_bytes_per_s=best.bytes_per_s,
        hits=hit_range(
            cache_bytes=memory.auto_cache, expert_bytes=memory.experts, cliff_bytes=memory.cliff
        ),
    )
