"""Fits a model into the memory there is: refuses what cannot run, sizes the cache, picks the width.

Sizing comes last, when the dense weights, the KV and the buffers are allocated: what is available
then is what experts may have. The width of a prefill step depends on the cache and the buffers on
the width, so the context is made anew, narrower, until both fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from moestream.config import EngineConfig, SpeculationConfig
from moestream.errors import ConfigError, MemoryBudgetError
from moestream.gguf import GGUFModel
from moestream.llama.context import Context, ContextOptions
from moestream.llama.model import Model
from moestream.models.context_size import context_size
from moestream.speculation.mtp import GRAPH_WIDTH
from moestream.streaming import budget as rules
from moestream.streaming.budget import MIB
from moestream.streaming.layout import ExpertLayout
from moestream.streaming.source import ExpertSource
from moestream.telemetry.system import address_space_left, available_cpus, memory_state

__all__ = [
    "Cache",
    "Contexts",
    "Fitting",
    "SpeculationCosts",
    "check_fits",
    "resident_bytes",
    "speculation_costs",
    "warnings_about",
]

# Compute buffers, where llama.cpp's log does not say.
_UNKNOWN_BUFFERS = 256 * MIB


@dataclass(frozen=True, slots=True)
class Cache:
    """The expert memory, sized.

    Attributes:
        budget: bytes; 0 for a resident model.
        limited_by: what decided an automatic size.
        usable: the memory it was taken from.
        reserved: what was taken off that first.
        for_width: what the experts of one prefill step may take; without a cache that is not
            what is kept.
    """

    budget: int = 0
    limited_by: str | None = None
    usable: rules.Usable | None = None
    reserved: int = 0
    for_width: int = 0


def check_fits(
    gguf: GGUFModel,
    layout: ExpertLayout | None,
    *,
    n_ctx: int,
    mapped: bool,
    load_mtp: bool = False,
    n_snapshots: int = 0,
) -> str | None:
    """Refuse before the load what would end in the hands of the OOM killer.

    Args:
        gguf: the model.
        layout: of its streamed experts; ``None`` where everything is to be resident.
        n_ctx: positions of the context, whose keys and values are allocated at once.
        mapped: weights are mapped, so the kernel may drop and read them again.
        load_mtp: the multi-token-prediction block is loaded, and has a context of its own.
        n_snapshots: copies of the recurrent state beside the one in use.

    Returns:
        A warning, where it does not fit but can run.

    Raises:
        MemoryBudgetError: it does not fit.
    """
    _check_address_space(gguf, layout, n_ctx, load_mtp)
    state = memory_state()
    if state.available is None and state.cgroup_available is None:
        return None
    available = rules.usable_memory(state, reserved=0).available
    if layout is None:
        needed, what = resident_bytes(gguf, load_mtp=load_mtp), "the model"
        advice = "stream its experts, or use a smaller quantisation"
    else:
        needed = layout.dense_bytes + (layout.nextn_dense_bytes if load_mtp else 0)
        what = "the model without its experts"
        advice = "leave dense weights mapped (mmap), or use a smaller quantisation"
    if needed <= available:
        n_layer = gguf.get_int("block_count", 0) if layout is None else layout.n_layer
        size = context_size(gguf, layers=range(n_layer), n_ctx=n_ctx, n_ubatch=1)
        room = available - (0 if mapped else needed)
        taken = size.kv + size.recurrent * (1 + n_snapshots)
        if taken > room:
            snapshots = f" with {n_snapshots} snapshots of its state" if n_snapshots else ""
            raise MemoryBudgetError(
                f"a context of {n_ctx} tokens{snapshots} takes {taken / MIB:.0f} MiB of "
                f"memory, but only {room / MIB:.0f} MiB are left for it; use a smaller context"
                + (", or a narrower draft" if n_snapshots else "")
            )
        return None
    found = (
        f"{what} takes {needed / MIB:.0f} MiB of memory, but only "
        f"{available / MIB:.0f} MiB are available"
    )
    if mapped:
        return f"{found}: the kernel will read mapped weights again and again"
    raise MemoryBudgetError(f"{found}; {advice}")


def _check_address_space(
    gguf: GGUFModel, layout: ExpertLayout | None, n_ctx: int, load_mtp: bool
) -> None:
    """Refuse under a limit on addresses (``ulimit -v``) what llama.cpp would die of."""
    room = address_space_left()
    if room is None:
        return
    n_layer = gguf.get_int("block_count", 0) if layout is None else layout.n_layer
    # Every expert has an address, whether it is in memory or not.
    needed = resident_bytes(gguf, load_mtp=load_mtp) + _UNKNOWN_BUFFERS
    needed += context_size(gguf, layers=range(n_layer), n_ctx=n_ctx, n_ubatch=1).total
    if needed > room:
        raise MemoryBudgetError(
            f"the model and its context need about {needed / MIB:.0f} MiB of address space, but "
            f"this process may only use {room / MIB:.0f} MiB more; raise the limit (ulimit -v)"
        )


def resident_bytes(gguf: GGUFModel, *, load_mtp: bool = False) -> int:
    """Bytes of all tensors that llama.cpp will load; the MTP block's only if it is asked to."""
    if load_mtp:
        return sum(info.nbytes for info in gguf.tensors.values())
    n_block = gguf.get_int("block_count", 0)
    n_nextn = min(gguf.get_int("nextn_predict_layers", 0), n_block)
    nextn = tuple(f"blk.{layer}." for layer in range(n_block - n_nextn, n_block))
    return sum(info.nbytes for info in gguf.tensors.values() if not info.name.startswith(nextn))


@dataclass(frozen=True, slots=True)
class Contexts:
    """The target's context, and the draft context where the model's own head drafts."""

    target: Context
    draft: Context | None

    def __iter__(self) -> Iterator[Context]:
        """Those there are."""
        yield self.target
        if self.draft is not None:
            yield self.draft

    def close(self) -> None:
        """Free them."""
        for context in self:
            context.close()


class Fitting:
    """Makes the context of a model and sizes its expert memory, together."""

    def __init__(
        self, config: EngineConfig, model: Model, source: ExpertSource, *, n_ctx: int
    ) -> None:
        """Fit ``model`` with its ``source`` and a context of ``n_ctx``."""
        self._config = config
        self._model = model
        self._source = source
        self._n_ctx = n_ctx

    def make_contexts(self) -> tuple[Contexts, Cache]:
        """The contexts with the widest prefill step that fits, and the expert memory.

        Raises:
            MemoryBudgetError: not even one token's experts of one layer fit.
        """
        layout, given = self._source.layout, self._config.n_ubatch
        least_width = self._least_width()
        if self._n_ctx < least_width:
            raise ConfigError(
                f"a context of {self._n_ctx} tokens is too small to verify "
                f"{self._speculation.draft} drafts in; it must hold at least {least_width}"
            )
        if layout is None:
            width = max(min(given or rules.MAX_UBATCH, self._n_ctx), least_width)
            return self._contexts(width), Cache()
        used = layout.n_expert_used
        if given is not None:
            width = min(given, self._n_ctx)
        else:
            # A first guess, without the context's own memory.
            width = rules.widest_ubatch(
                budget=self._size_cache(layout, None, 1).for_width,
                n_expert=layout.n_expert,
                n_expert_used=used,
                max_expert_bytes=layout.layer_demand(1, 1),
                n_ctx=self._n_ctx,
            )
        width = max(width, least_width)
        while True:
            contexts = self._contexts(width)
            try:
                cache = self._size_cache(layout, contexts, width)
            except BaseException:
                contexts.close()
                raise
            least = self._source.floor_bytes(width, used)
            if cache.budget >= least:
                return contexts, cache
            contexts.close()
            if given is not None or width == least_width:
                raise MemoryBudgetError(_too_small(cache.budget, least, width, given is not None))
            width = max(width // 2, least_width)

    @property
    def _speculation(self) -> SpeculationConfig:
        return self._config.speculation

    def _least_width(self) -> int:
        """Rows that a verify batch needs: llama.cpp ends the process below two more than drafts."""
        return 1 if self._speculation.source == "none" else self._speculation.draft + 2

    def _contexts(self, width: int) -> Contexts:
        speculates = self._speculation.source != "none"
        drafts_itself = self._speculation.source == "mtp"
        draft = self._speculation.draft if speculates else 0
        target = Context(
            self._model,
            self._options(
                width,
                n_outputs=1 + draft,
                n_snapshots=draft if self._model.keeps_state else 0,
                hidden="all" if drafts_itself else "none",
            ),
        )
        if not drafts_itself:
            return Contexts(target, None)
        try:
            options = self._options(min(width, GRAPH_WIDTH), hidden="outputs", mtp=True)
            return Contexts(target, Context(self._model, options))
        except BaseException:
            target.close()
            raise

    def _options(
        self,
        width: int,
        *,
        n_outputs: int = 1,
        n_snapshots: int = 0,
        hidden: Literal["none", "all", "outputs"] = "none",
        mtp: bool = False,
    ) -> ContextOptions:
        source = self._source
        return ContextOptions(
            n_ctx=self._n_ctx,
            n_ubatch=width,
            threads=self._config.threads or available_cpus(),
            n_outputs=n_outputs,
            n_snapshots=n_snapshots,
            hidden=hidden,
            mtp=mtp,
            eval_callback=source.store.eval_callback() if source.streamed else None,
            abort_callback=source.store.abort_callback(),
        )

    def _size_cache(self, layout: ExpertLayout, contexts: Contexts | None, width: int) -> Cache:
        streaming, source = self._config.streaming, self._source
        reserved = source.dense_in_page_cache + rules.page_table_bytes(
            layout.expert_bytes, layout.expert_bytes
        )
        if contexts is not None:
            for context in contexts:
                buffers = context.buffers
                reserved += buffers.compute + buffers.output if buffers.known else _UNKNOWN_BUFFERS
                reserved += context.late_bytes
            if self._model.keeps_state:
                # A checkpoint is a copy of the state; without snapshots a verify makes another.
                target = contexts.target
                state = target.buffers.recurrent // (1 + target.n_snapshots)
                speculates = self._speculation.source != "none"
                reserved += state * (2 if speculates and not target.n_snapshots else 1)
        usable = rules.usable_memory(memory_state(), reserved=reserved)
        floor = source.floor_bytes(width, layout.n_expert_used)
        most = source.bytes_of_all() + floor
        if streaming.cache_mb == 0:
            return Cache(min(floor, usable.bytes), None, usable, reserved, usable.bytes)
        if streaming.cache_mb == "auto":
            ceiling = None if streaming.cache_ceil_mb is None else streaming.cache_ceil_mb * MIB
            auto = rules.auto_cache(usable.bytes, ceiling=ceiling, all_experts=most)
            return Cache(auto.bytes, auto.limited_by, usable, reserved, auto.bytes)
        budget = min(streaming.cache_mb * MIB, most)
        if budget > usable.available > 0:
            raise MemoryBudgetError(
                f"an expert cache of {budget / MIB:.0f} MiB does not fit: "
                f"{usable.available / MIB:.0f} MiB are available; "
                f"give it {usable.bytes / MIB:.0f} MiB or less, or 'auto'"
            )
        return Cache(budget, None, usable, reserved, budget)


@dataclass(frozen=True, slots=True)
class SpeculationCosts:
    """Memory that a session would not need without speculation, in bytes.

    Attributes:
        snapshots: copies of the recurrent state beside the one in use.
        draft_kv: keys and values of the draft context.
        draft_compute: its compute and output buffers.
        draft_dense: the weights of the multi-token-prediction block, without its experts.
    """

    snapshots: int
    draft_kv: int
    draft_compute: int
    draft_dense: int


def speculation_costs(
    contexts: Contexts, gguf: GGUFModel, layout: ExpertLayout | None
) -> SpeculationCosts:
    """What speculation takes, as llama.cpp reported it."""
    target, draft = contexts.target, contexts.draft
    state = target.buffers.recurrent // (1 + target.n_snapshots)
    if draft is None:
        return SpeculationCosts(state * target.n_snapshots, 0, 0, 0)
    if layout is not None:
        dense = layout.nextn_dense_bytes
    else:
        dense = resident_bytes(gguf, load_mtp=True) - resident_bytes(gguf)
    buffers = draft.buffers
    return SpeculationCosts(
        snapshots=state * target.n_snapshots,
        draft_kv=buffers.kv + buffers.recurrent,
        draft_compute=buffers.compute + buffers.output + draft.late_bytes,
        draft_dense=dense,
    )


def warnings_about(config: EngineConfig, source: ExpertSource, cache: Cache) -> list[str]:
    """What will hurt with this cache and these settings, in words."""
    layout, streaming = source.layout, config.streaming
    if layout is None:
        return []
    found: list[str | None] = []
    used = layout.n_expert_used
    if streaming.cache_mb != 0:
        layer = layout.layer_demand(1)
        lanes = max(source.floor_bytes(1, used) - layer, 0)
        found.append(
            rules.cliff_warning(
                budget=cache.budget,
                token_demand=layout.token_demand(),
                layer_demand=layer,
                needed=source.bytes_of_token(used) + lanes,
            )
        )
    if cache.usable is not None and cache.budget > cache.usable.bytes:
        found.append(
            f"the expert cache of {cache.budget / MIB:.0f} MiB leaves less than the "
            f"{cache.usable.floor / MIB:.0f} MiB that are better left free"
        )
    found.append(rules.drop_warning(fraction=streaming.drop_cold_experts, n_expert_used=used))
    return [warning for warning in found if warning is not None]


def _too_small(budget: int, least: int, width: int, given: bool) -> str:
    advice = "use a smaller micro-batch" if given and width > 1 else "free memory"
    return (
        f"experts get {budget / MIB:.1f} MiB, but one layer of a step of {width} tokens "
        f"needs {least / MIB:.1f} MiB of them at once; {advice}, or give the cache at least "
        f"{-(-least // MIB)} MiB"
    )
