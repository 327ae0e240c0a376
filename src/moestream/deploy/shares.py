"""What one of several replicas on a machine may take: arithmetic, and a look at the model's header.

Engines that each measure how many threads are fastest, and each take the memory that is left, fight
over both. So a replica is told its number of threads, and how large its expert cache may become.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor
from typing import Final

from moestream.config import EngineConfig
from moestream.errors import MemoryBudgetError, UnsupportedModelError
from moestream.gguf import read_model
from moestream.models.locate import locate_model
from moestream.models.plan import memory_plan
from moestream.streaming.budget import usable_memory
from moestream.streaming.layout import expert_layout
from moestream.telemetry.system import MemoryState

__all__ = ["CpuShare", "cpu_share", "memory_share", "within_share"]

_MIB: Final = 2**20
_DEFAULT_N_CTX: Final = 4096
#: Python and libraries of the engine's process, before a model is open.
_ENGINE_PROCESS: Final = 128 * _MIB


@dataclass(frozen=True, slots=True)
class CpuShare:
    """Cores of one replica.

    Attributes:
        cpus: what is asked of Ray, which places replicas by it.
        threads: compute threads of the engine.
    """

    cpus: float
    threads: int


def cpu_share(*, cores: int, per_node: int, threads: int | None) -> CpuShare:
    """Whole cores where there are enough for everybody; else parts of one, with one thread each.

    Args:
        cores: of a machine.
        per_node: replicas that share it.
        threads: as the user wants it; ``None`` for an equal part.
    """
    if threads is not None:
        return CpuShare(float(threads), threads)
    each = cores // per_node
    if each >= 1:
        return CpuShare(float(each), each)
    return CpuShare(max(floor(100 * cores / per_node) / 100, 0.01), 1)


def memory_share(machine_bytes: int, *, per_node: int) -> int:
    """Bytes for each of several replicas, after what an ``auto`` cache leaves of a machine.

    Args:
        machine_bytes: what the replicas' machine has for all of them.
        per_node: how many they are at most.
    """
    state = MemoryState(machine_bytes, machine_bytes, None, None)
    return usable_memory(state, reserved=0).bytes // per_node


def within_share(config: EngineConfig, share: int, *, server_bytes: int) -> EngineConfig:
    """``config`` with an ``auto`` cache that leaves the rest of the machine to the others.

    An ``auto`` cache still is no larger than what is available when the engine starts; but the
    replica that starts first may not take the part of the one that starts next.

    Args:
        config: of the engine.
        share: bytes of memory that the replica may take altogether.
        server_bytes: what its server takes of them.

    Raises:
        MemoryBudgetError: the model cannot run in the share.
        ModelError: the file is no well-formed model.
    """
    if config.streaming.moe_stream is False:
        return config
    model = read_model(locate_model(str(config.model)))
    try:
        layout = expert_layout(model)
    except UnsupportedModelError:
        return config  # it is kept in memory as a whole, or the engine says why it cannot be used
    trained = model.get_int("context_length", 0) or _DEFAULT_N_CTX
    room = max(share - server_bytes - _ENGINE_PROCESS, 0)
    plan = memory_plan(
        model,
        layout,
        config,
        n_ctx=config.n_ctx or min(trained, _DEFAULT_N_CTX),
        # The share is a limit like a control group's.
        state=MemoryState(None, None, room, room),
    )
    streaming = config.streaming
    wanted = streaming.cache_mb * _MIB if streaming.cache_mb != "auto" else plan.layer_demand
    if min(wanted, plan.experts) > plan.left_for_experts:
        raise MemoryBudgetError(
            f"one replica's share of the memory is {share / _MIB:.0f} MiB, of which "
            f"{max(plan.left_for_experts, 0) / _MIB:.0f} MiB are left for experts, but "
            f"{wanted / _MIB:.1f} MiB are needed; use fewer replicas a node (per_node), a smaller "
            "context or cache, or give each replica more (memory_mb)"
        )
    if streaming.cache_mb != "auto":
        return config
    left = max(plan.left_for_experts // _MIB, 1)
    ceiling = left if streaming.cache_ceil_mb is None else min(left, streaming.cache_ceil_mb)
    return replace(config, streaming=replace(streaming, cache_ceil_mb=ceiling))
