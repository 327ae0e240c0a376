"""Where a model's weights come from: loads it so that its experts can be streamed, or does not.

The order matters and is kept here: declare the expert tensors, load the model with the store's
buffer type, give the tensors back their shape, make the context, and only then, when all other
memory is spoken for, size the cache and start the store.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moestream.config import StreamingConfig
from moestream.errors import (
    ConfigError,
    MemoryBudgetError,
    ModelError,
    PlatformError,
    UnsupportedModelError,
)
from moestream.gguf.model import GGUFModel
from moestream.llama.model import LoadProgress, Model, ModelOptions, TensorOverride
from moestream.llama.runtime import runtime
from moestream.streaming.budget import MIB
from moestream.streaming.layout import ExpertLayout, expert_layout, override_pattern

if TYPE_CHECKING:
    from moestream._core import DenseMapping, ExpertStore

__all__ = ["ExpertSource", "Overlap", "choose_layout", "expert_count_used", "resolve_overlap"]

_EVERYTHING = ".*"
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Overlap:
    """Whether compute runs while bytes are read, and what there is to say about it."""

    enabled: bool
    note: str | None = None


class ExpertSource:
    """The expert store of one model (empty for a resident one) and its dense mapping.

    Close it after the model.
    """

    def __init__(
        self,
        gguf: GGUFModel,
        layout: ExpertLayout | None,
        config: StreamingConfig,
        *,
        load_mtp: bool = False,
    ) -> None:
        """Open the shards and declare the tensors.

        Args:
            gguf: the model's files.
            layout: its experts; ``None`` keeps everything resident.
            config: how to hold and read the weights.
            load_mtp: load the multi-token-prediction block as well; its experts are streamed like
                any layer's.

        Raises:
            ModelError: a shard cannot be opened.
        """
        core: Any = runtime().core
        self.gguf = gguf
        self.layout = layout
        self.config = config
        self._load_mtp = load_mtp
        self.dense_warm_bytes: int | None = None
        files = [str(path) for path in gguf.paths]
        nodes = (
            {}
            if layout is None
            else {
                "routing_node": layout.recipe.routing_node,
                "weights_node": layout.recipe.weights_node,
            }
        )
        self._dense: DenseMapping | None = None
        try:
            self.store: ExpertStore = core.ExpertStore(
                files if layout is not None else [], o_direct=config.o_direct, **nodes
            )
            if config.dense_weights != "anon":
                self._dense = core.DenseMapping(files)
        except OSError as err:
            raise ModelError(f"the model's files cannot be opened: {err}") from err
        self._experts = (
            tuple(tensor for tensor in layout.tensors if load_mtp or tensor.layer < layout.n_layer)
            if layout is not None
            else ()
        )
        for tensor in self._experts:
            self.store.add_tensor(
                tensor.name,
                layer=tensor.layer,
                order=tensor.order,
                file=tensor.shard,
                offset=tensor.offset,
                n_expert=tensor.n_expert,
                stride=tensor.stride,
            )
        if self._dense is not None:
            self._declare_dense(self._dense)

    @property
    def streamed(self) -> bool:
        """Whether experts are read as they are routed."""
        return self.layout is not None

    @property
    def maps_files(self) -> bool:
        """Whether weights are read from the files after the load, by whatever way."""
        return self.streamed or self.config.dense_weights != "anon"

    @property
    def dense_in_page_cache(self) -> int:
        """Bytes of dense weights that live in the page cache, not in this process's own memory."""
        if self.layout is None or self.config.dense_weights == "anon":
            return 0
        nextn = self.layout.nextn_dense_bytes if self._load_mtp else 0
        return self.layout.dense_bytes + nextn

    def load(
        self,
        path: Path,
        *,
        metadata: dict[str, int],
        progress: LoadProgress | None,
    ) -> Model:
        """Load the model; of a streamed one the dense weights only.

        Raises:
            ModelError: llama.cpp refused it, or placed the tensors otherwise than declared.
        """
        options = ModelOptions(
            repack=self.config.repack,
            load_mtp=self._load_mtp,
            overrides=self._overrides(),
            metadata=metadata,
        )
        model = Model.load(path, options, progress=progress)
        try:
            if self.streamed:
                self.store.finish_load()
            if self._dense is not None:
                self._dense.finish_load()
                if self.config.dense_weights == "warm":
                    self.dense_warm_bytes = self._dense.warm()
        except RuntimeError as err:
            model.close()
            raise ModelError(f"{path} did not load as its header says: {err}") from err
        if self.config.dense_weights == "anon":
            _drop_from_page_cache(self.gguf.paths)
        return model

    def lost_weights(self) -> str | None:
        """What is wrong with mapped dense weights by now: a file got shorter under the session."""
        pages = 0 if self._dense is None else self._dense.lost_pages
        if pages == 0:
            return None
        return (
            f"{pages} pages of the dense weights are gone: a file became shorter while it was "
            "mapped; open the model again"
        )

    def floor_bytes(self, n_ubatch: int, n_expert_used: int) -> int:
        """The least budget that a micro-batch of ``n_ubatch`` works with."""
        return self.store.floor_bytes(
            lanes=self.config.io_threads, n_ubatch=n_ubatch, n_expert_used=n_expert_used
        )

    def bytes_of_all(self) -> int:
        """Memory that all experts take, in whole pages."""
        return sum(tensor.n_expert * _pages(tensor.stride) for tensor in self._experts)

    def bytes_of_token(self, n_expert_used: int) -> int:
        """Memory that the experts of one token take, in whole pages."""
        return n_expert_used * sum(_pages(tensor.stride) for tensor in self._experts)

    def start(self, *, budget: int, overlap: bool, n_ubatch: int, n_expert_used: int) -> None:
        """Start the lanes.

        Raises:
            MemoryBudgetError: the budget does not hold one layer's experts.
        """
        config = self.config
        try:
            self.store.start(
                budget_bytes=budget,
                retain=config.cache_mb != 0,
                lanes=config.io_threads,
                overlap=overlap,
                mover="auto",
                prefetch=config.prefetch,
                n_ubatch=n_ubatch,
                n_expert_used=n_expert_used,
            )
        except (RuntimeError, OSError) as err:
            raise MemoryBudgetError(
                f"expert streaming did not start with {budget / MIB:.0f} MiB: {err}"
            ) from err
        if config.drop_cold_experts > 0.0:
            self.store.set_cold_drop(
                fraction=config.drop_cold_experts, in_prefill=config.drop_in_prefill
            )

    def close(self) -> None:
        """Stop the lanes and release all memory; the model must be gone."""
        self.store.close()
        self._dense = None

    def _declare_dense(self, mapping: DenseMapping) -> None:
        experts = {tensor.name for tensor in self._experts}
        for info in self.gguf.tensors.values():
            if info.name not in experts:
                mapping.add_tensor(
                    info.name, file=info.shard, offset=info.offset, nbytes=info.nbytes
                )

    def _overrides(self) -> tuple[TensorOverride, ...]:
        overrides = []
        if self.layout is not None:
            pattern = override_pattern(self.layout)
            overrides.append(TensorOverride(pattern, self.store.buffer_type()))
        if self._dense is not None:
            overrides.append(TensorOverride(_EVERYTHING, self._dense.buffer_type()))
        return tuple(overrides)


def _pages(stride: int) -> int:
    """Whole pages that a slice can touch: one more than it fills, as it may begin anywhere."""
    return (-(-stride // _PAGE) + 1) * _PAGE


def choose_layout(
    gguf: GGUFModel, moe_stream: bool | None, notes: list[str]
) -> ExpertLayout | None:
    """The experts to stream, or ``None`` for a resident model.

    Raises:
        UnsupportedModelError: streaming was asked for and this model cannot be streamed.
    """
    if moe_stream is False:
        return None
    try:
        layout = expert_layout(gguf)
    except UnsupportedModelError as err:
        if moe_stream:
            raise
        notes.append(f"not streamed: {err}")
        return None
    if not runtime().core.platform_movers():
        if moe_stream:
            raise PlatformError("this platform has no way to stream experts")
        notes.append("not streamed: this platform has no way to do it")
        return None
    return layout


def expert_count_used(gguf: GGUFModel, override: int | None) -> tuple[int, int]:
    """Experts per layer and experts a token uses, as the model will be run.

    Raises:
        ConfigError: the override does not fit the model.
    """
    n_expert = gguf.get_int("expert_count", 0)
    used = max(gguf.get_ints("expert_used_count", gguf.get_int("block_count"), 0))
    if override is not None:
        if n_expert == 0:
            raise ConfigError("experts per token cannot be set: this model has no experts")
        key = f"{gguf.architecture}.expert_used_count"
        if not isinstance(gguf.metadata.get(key), int):
            raise ConfigError(
                "experts per token cannot be overridden: this model has its own number per layer"
            )
        if override > n_expert:
            raise ConfigError(
                f"experts per token must not be more than the model's {n_expert}, got {override}"
            )
        return n_expert, override
    return n_expert, used


def resolve_overlap(wanted: bool | None) -> Overlap:
    """Overlap where the platform can; a refusal where it was asked for and it cannot.

    Raises:
        PlatformError: it was asked for and the platform cannot.
    """
    core = runtime().core
    possible = any(mover != "inplace" for mover in core.platform_movers())
    if possible or wanted is False:
        return Overlap(possible and wanted is not False)
    reason = core.why_no_overlap() or "no way to wait for single pages"
    if wanted:
        raise PlatformError(
            f"overlap is not possible here: {reason}; leave it out to wait for reads instead"
        )
    return Overlap(False, f"reads do not overlap compute here: {reason}")


def _drop_from_page_cache(paths: tuple[Path, ...]) -> None:
    # The weights are in memory of our own now; a second copy in the page cache is of no use.
    if not hasattr(os, "posix_fadvise"):
        return
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            continue
        finally:
            os.close(descriptor)
