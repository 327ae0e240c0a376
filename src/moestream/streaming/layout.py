"""Where a model's routed experts lie in its files, and how many of their bytes a token needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from moestream.errors import GGUFError, UnsupportedModelError
from moestream.gguf.model import GGUFModel, TensorInfo, shown
from moestream.gguf.nextn import missing_nextn_tensors
from moestream.gguf.types import WEIGHT_TYPES, GGMLType
from moestream.streaming.recipes import Recipe, recipe_for

__all__ = ["ExpertLayout", "ExpertTensor", "expert_layout", "override_pattern"]

_BLOCK = re.compile(r"blk\.(\d{1,9})\.(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExpertTensor:
    """The tensor that holds one matrix of all experts of a layer, slice after slice.

    Attributes:
        layer: its block; those from :attr:`ExpertLayout.n_layer` on are nextn blocks.
        order: position among its layer's tensors, in the order in which they are used.
        shard: index of its file.
        offset: of its first byte in that file.
        nbytes: of all experts together.
        stride: bytes of one expert's slice, and the distance to the next one's.
    """

    name: str
    layer: int
    order: int
    shard: int
    offset: int
    nbytes: int
    n_expert: int
    stride: int
    type: GGMLType


@dataclass(frozen=True, slots=True)
class ExpertLayout:
    """The routed experts of a model.

    Attributes:
        recipe: the architecture's, as it applies to this file.
        tensors: by layer, then in order of use. Those of nextn blocks are included where the file
            has them whole.
        n_layer: trunk layers. The nextn blocks have the indices after them.
        n_layer_nextn: nextn (multi-token-prediction) blocks that the metadata claim.
        nextn_present: whether all claimed nextn blocks are really in the file.
        moe_layers: trunk layers that have routed experts.
        n_expert: experts per layer.
        n_expert_used: experts that a token is routed to.
        expert_bytes: of all tensors here.
        dense_bytes: of everything else in the trunk.
        nextn_dense_bytes: of everything else in the nextn blocks.
    """

    arch: str
    recipe: Recipe
    tensors: tuple[ExpertTensor, ...]
    n_layer: int
    n_layer_nextn: int
    nextn_present: bool
    moe_layers: tuple[int, ...]
    n_expert: int
    n_expert_used: int
    expert_bytes: int
    dense_bytes: int
    nextn_dense_bytes: int

    @property
    def n_block(self) -> int:
        """All blocks, trunk and nextn: what a table indexed by layer must hold."""
        return self.n_layer + self.n_layer_nextn

    @property
    def nextn_layers(self) -> tuple[int, ...]:
        """Indices of the nextn blocks whose experts are in the layout."""
        if not self.nextn_present:
            return ()
        return tuple(range(self.n_layer, self.n_block))

    def of_layer(self, layer: int) -> tuple[ExpertTensor, ...]:
        """The tensors of one layer in order of use; none for a dense layer."""
        return tuple(tensor for tensor in self.tensors if tensor.layer == layer)

    def expert_bytes_of(self, layer: int) -> int:
        """Bytes of one expert of a layer, over all its slices."""
        return sum(tensor.stride for tensor in self.tensors if tensor.layer == layer)

    def layer_demand(self, n_tokens: int = 1, n_used: int | None = None) -> int:
        """Bytes that the neediest layer may touch for a batch of ``n_tokens``, all different."""
        experts = min(self.n_expert, n_tokens * (n_used or self.n_expert_used))
        layers = {tensor.layer for tensor in self.tensors}
        return max(experts * self.expert_bytes_of(layer) for layer in layers)

    def token_demand(self, n_used: int | None = None) -> int:
        """Bytes of expert weights that one token is routed to in the trunk.

        A cache smaller than this hits nothing: least recently used experts are thrown out before
        their layer comes round again.
        """
        return (n_used or self.n_expert_used) * sum(
            tensor.stride for tensor in self.tensors if tensor.layer < self.n_layer
        )


def expert_layout(model: GGUFModel) -> ExpertLayout:
    """Find the routed experts of a model.

    Raises:
        UnsupportedModelError: if it has none, or its architecture has no recipe.
        GGUFError: if its metadata and its tensors contradict each other.
    """
    arch = model.architecture
    recipe = recipe_for(arch).with_gating(model.get_int("expert_gating_func", 0))
    n_expert = model.get_int("expert_count", 0)
    if n_expert == 0:
        raise UnsupportedModelError(
            f"{shown(model.paths[0])} is not a mixture-of-experts model ({arch} without experts), "
            "so there is nothing to stream; run it without expert streaming"
        )
    n_block = model.get_int("block_count")
    n_nextn = model.get_int("nextn_predict_layers", 0)
    if not 0 < n_block <= 512 or n_nextn >= n_block:
        raise GGUFError(
            f"{shown(model.paths[0])} claims {n_block} blocks, {n_nextn} of them nextn blocks; "
            "a model has 1 to 512, and at least one that is not"
        )
    n_layer = n_block - n_nextn
    used = model.get_ints("expert_used_count", n_block)
    n_used = max(used)
    if n_used != min(used):
        raise UnsupportedModelError(
            f"{shown(model.paths[0])} routes to {min(used)} experts in some layers and to {n_used} "
            "in others, which is not supported"
        )
    if not 0 < n_used <= n_expert:
        raise GGUFError(f"{shown(model.paths[0])} routes a token to {n_used} of {n_expert} experts")
    by_layer = _by_layer(model, recipe, n_block)
    nextn_present = n_nextn > 0 and not missing_nextn_tensors(model)
    nextn_present = nextn_present and all(layer in by_layer for layer in range(n_layer, n_block))
    tensors: list[ExpertTensor] = []
    for layer in sorted(by_layer):
        if layer < n_layer or nextn_present:
            parts = _matching_layout(model, recipe, layer, by_layer[layer])
            tensors += [
                _expert_tensor(model, by_layer[layer][part], layer, order, n_expert)
                for order, part in enumerate(parts)
            ]
    moe_layers = tuple(sorted({tensor.layer for tensor in tensors if tensor.layer < n_layer}))
    if not moe_layers:
        raise UnsupportedModelError(
            f"{shown(model.paths[0])} claims {n_expert} experts but has no expert tensors "
            f"({_names(0, recipe.tensors)}, ...)"
        )
    streamed = {tensor.name for tensor in tensors}
    dense = [tensor for name, tensor in model.tensors.items() if name not in streamed]
    nextn_dense = sum(tensor.nbytes for tensor in dense if _layer_of(tensor.name) >= n_layer)
    return ExpertLayout(
        arch=arch,
        recipe=recipe,
        tensors=tuple(tensors),
        n_layer=n_layer,
        n_layer_nextn=n_nextn,
        nextn_present=nextn_present,
        moe_layers=moe_layers,
        n_expert=n_expert,
        n_expert_used=n_used,
        expert_bytes=sum(tensor.nbytes for tensor in tensors),
        dense_bytes=sum(tensor.nbytes for tensor in dense) - nextn_dense,
        nextn_dense_bytes=nextn_dense,
    )


def override_pattern(layout: ExpertLayout) -> str:
    """Return a regular expression that matches the names of the layout's tensors and no other.

    It is meant for llama.cpp's tensor overrides (ECMAScript syntax, searched for in the name).
    """
    layers_of: dict[tuple[str, ...], list[int]] = {}
    for layer in sorted({tensor.layer for tensor in layout.tensors}):
        prefix = f"blk.{layer}."
        parts = tuple(
            tensor.name.removeprefix(prefix).removesuffix(".weight")
            for tensor in layout.of_layer(layer)
        )
        layers_of.setdefault(parts, []).append(layer)
    alternatives = [
        rf"blk\.({_alternatives(layers)})\.({_alternatives(parts)})\.weight"
        for parts, layers in layers_of.items()
    ]
    return f"^({_alternatives(alternatives)})$"


def _alternatives(items: Iterable[object]) -> str:
    return "|".join(str(item) for item in items)


def _layer_of(name: str) -> int:
    """The block that a tensor belongs to, or -1."""
    match = _BLOCK.fullmatch(name)
    return int(match[1]) if match else -1


def _names(layer: int, parts: Iterable[str]) -> str:
    return ", ".join(f"blk.{layer}.{part}.weight" for part in parts)


def _by_layer(model: GGUFModel, recipe: Recipe, n_block: int) -> dict[int, dict[str, TensorInfo]]:
    """The model's expert tensors by layer and name part."""
    parts = {f"{part}.weight": part for layout in recipe.layouts for part in layout}
    found: dict[int, dict[str, TensorInfo]] = {}
    for name, tensor in model.tensors.items():
        match = _BLOCK.fullmatch(name)
        if match and match[2] in parts:
            layer = int(match[1])
            if layer >= n_block or name != f"blk.{layer}.{match[2]}":
                raise GGUFError(
                    f"{shown(model.paths[0])} has {n_block} blocks, but a tensor {shown(name)}"
                )
            found.setdefault(layer, {})[parts[match[2]]] = tensor
    return found


def _matching_layout(
    model: GGUFModel, recipe: Recipe, layer: int, found: dict[str, TensorInfo]
) -> tuple[str, ...]:
    for layout in recipe.layouts:
        if set(layout) == set(found):
            return layout
    wanted = " or ".join(_names(layer, layout) for layout in recipe.layouts)
    raise GGUFError(
        f"{shown(model.paths[0])} has only some of the expert tensors of layer {layer}: "
        f"{_names(layer, found)}; a {recipe.arch} model has {wanted}"
    )


def _expert_tensor(
    model: GGUFModel, info: TensorInfo, layer: int, order: int, n_expert: int
) -> ExpertTensor:
    where = f"tensor {shown(info.name)} of {shown(model.paths[info.shard])}"
    if len(info.shape) != 3 or info.shape[2] != n_expert:
        raise GGUFError(
            f"{where} has the shape {info.shape}; for {n_expert} experts it must have three "
            f"dimensions, the last of them {n_expert}"
        )
    if info.type not in WEIGHT_TYPES:
        raise GGUFError(f"{where} is of type {info.type.name}, which is not a type for weights")
    return ExpertTensor(
        name=info.name,
        layer=layer,
        order=order,
        shard=info.shard,
        offset=info.offset,
        nbytes=info.nbytes,
        n_expert=n_expert,
        stride=info.nbytes // n_expert,
        type=info.type,
    )
