"""Which architectures can be streamed: one row each.

A recipe names things, it measures nothing: how many experts there are, how large, of what type and
where in the file, all comes from the file. Adding an architecture is adding a row, provided that
llama.cpp builds its experts with the common code (see docs/adding-a-model.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from moestream.errors import UnsupportedModelError

__all__ = ["Recipe", "architectures", "recipe_for"]

_SPLIT = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
_FUSED = ("ffn_gate_up_exps", "ffn_down_exps")
# A router that picks on logits, and of which only the picked ones go through a softmax.
_SOFTMAX_OF_CHOSEN = 3
_SOFTMAX_NODE = "ffn_moe_weights_softmax"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the routed experts of one architecture are stored and routed.

    Attributes:
        arch: the architecture's name in a GGUF.
        layouts: the ways its experts may be stored, the usual one first. Each is the name parts
            of a layer's expert tensors (``blk.<layer>.<part>.weight``) in the order in which a
            layer uses them.
        routing_node: name of the graph node that holds the routed expert ids,
            ``<routing_node>-<layer>``; a strided view of 32-bit integers.
        weights_node: name of the graph node that holds the routing weights by which the experts'
            outputs are multiplied in the end, ``<weights_node>-<layer>``. What follows it is at
            most a normalisation to a sum of one and a constant factor. So an expert is dropped
            by writing a zero here, and scaling the layer's other weights to the old sum
            renormalises whatever follows.
        gating_in_file: whether the file says how the router turns logits into weights, and with
            it whether the weights node is another one.
    """

    arch: str
    layouts: tuple[tuple[str, ...], ...]
    routing_node: str = "ffn_moe_topk"
    weights_node: str = "ffn_moe_weights"
    gating_in_file: bool = False

    def with_gating(self, function: int) -> Recipe:
        """Return the recipe for a file that names this gating function."""
        if self.gating_in_file and function == _SOFTMAX_OF_CHOSEN:
            return replace(self, weights_node=_SOFTMAX_NODE)
        return self

    @property
    def tensors(self) -> tuple[str, ...]:
        """Name parts of the usual layout, in order of use."""
        return self.layouts[0]


_RECIPES: dict[str, Recipe] = {
    recipe.arch: recipe
    for recipe in (
        Recipe("qwen35moe", (_SPLIT, _FUSED)),
        Recipe("qwen3moe", (_SPLIT,)),
        Recipe("qwen2moe", (_SPLIT,)),
        Recipe("qwen3next", (_SPLIT, _FUSED)),
        Recipe("gpt-oss", (_SPLIT,), weights_node=_SOFTMAX_NODE),
        Recipe("gemma4", (_FUSED, _SPLIT)),
        Recipe("lfm2moe", (_SPLIT,), gating_in_file=True),
        Recipe("olmoe", (_SPLIT,)),
        Recipe("glm4moe", (_SPLIT,), gating_in_file=True),
        Recipe("deepseek2", (_SPLIT, _FUSED), gating_in_file=True),
    )
}


def architectures() -> tuple[str, ...]:
    """Return the names of the architectures that can be streamed, sorted."""
    return tuple(sorted(_RECIPES))


def recipe_for(arch: str) -> Recipe:
    """Return the recipe of an architecture.

    Raises:
        UnsupportedModelError: if there is none; the message names those there are.
    """
    try:
        return _RECIPES[arch]
    except KeyError:
        name = arch if len(arch) <= 40 else f"{arch[:40]}..."
        raise UnsupportedModelError(
            f"models of architecture {name!r} cannot be streamed; supported are "
            f"{', '.join(architectures())}. Run it without expert streaming, if it fits into memory"
        ) from None
