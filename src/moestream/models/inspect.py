"""What is in a model file, from its header alone: no weights are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path

from moestream.errors import UnsupportedModelError
from moestream.gguf import GGUFModel, TensorInfo, read_model
from moestream.gguf.nextn import missing_nextn_tensors, nextn_layers
from moestream.streaming.layout import ExpertLayout, expert_layout

__all__ = [
    "ExpertReport",
    "ModelReport",
    "NextnReport",
    "ShardReport",
    "TypeShare",
    "inspect_model",
    "report_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport:
    """One file of the model."""

    path: Path
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeShare:
    """How much of the model has one type, experts and everything else apart."""

    type: str
    tensors: int
    dense_bytes: int
    expert_bytes: int

    @property
    def bytes(self) -> int:
        """Both together."""
        return self.dense_bytes + self.expert_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NextnReport:
    """The multi-token-prediction head: what the metadata claims and what is really there.

    Attributes:
        claimed_layers: number of layers according to the metadata.
        missing: names of required tensors that the file does not hold.
    """

    claimed_layers: int
    missing: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """There is a head, and all of it."""
        return self.claimed_layers > 0 and not self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertReport:
    """The routed experts of a model that can be streamed.

    Attributes:
        expert_bytes_min, expert_bytes_max: one expert of one layer (layers may differ).
        layer_demand_bytes: what one token routes in the hungriest layer.
        token_demand_bytes: what one token routes in all layers of the trunk.
    """

    n_expert: int
    n_expert_used: int
    moe_layers: tuple[int, ...]
    total_bytes: int
    expert_bytes_min: int
    expert_bytes_max: int
    layer_demand_bytes: int
    token_demand_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """Everything ``moestream inspect`` says.

    Attributes:
        n_layer: layers of the trunk; the layers of a prediction head are not among them.
        experts: ``None`` if the model cannot be streamed, and then ``not_streamable`` says why.
    """

    name: str | None
    architecture: str
    shards: tuple[ShardReport, ...]
    n_parameters: int
    n_tensors: int
    n_layer: int
    context_length: int | None
    embedding_length: int | None
    vocabulary: int | None
    has_chat_template: bool
    nextn: NextnReport
    experts: ExpertReport | None
    not_streamable: str | None
    dense_bytes: int
    types: tuple[TypeShare, ...]

    @property
    def file_bytes(self) -> int:
        """Size of all shards."""
        return sum(shard.size for shard in self.shards)


def inspect_model(path: str | Path) -> ModelReport:
    """Read the header of the model at ``path`` and sum it up.

    Raises:
        GGUFError: the file is not a well-formed GGUF.
    """
    return report_of(read_model(path))


def report_of(model: GGUFModel) -> ModelReport:
    """Sum up a model whose header was read."""
    layout: ExpertLayout | None = None
    reason: str | None = None
    try:
        layout = expert_layout(model)
    except UnsupportedModelError as error:
        reason = str(error)
    expert_names = frozenset(tensor.name for tensor in layout.tensors) if layout else frozenset()
    nextn = _nextn(model)
    weights = sum(tensor.nbytes for tensor in model.tensors.values())
    expert_weights = sum(model.tensors[name].nbytes for name in expert_names)
    return ModelReport(
        name=_text(model, "general.name"),
        architecture=model.architecture,
        shards=tuple(
            ShardReport(path=file, size=size)
            for file, size in zip(model.paths, model.file_sizes, strict=True)
        ),
        n_parameters=sum(prod(tensor.shape) for tensor in model.tensors.values()),
        n_tensors=len(model.tensors),
        n_layer=max(model.get_int("block_count", 0) - nextn.claimed_layers, 0),
        context_length=model.get_int("context_length", 0) or None,
        embedding_length=model.get_int("embedding_length", 0) or None,
        vocabulary=_vocabulary(model),
        has_chat_template=bool(_text(model, "tokenizer.chat_template")),
        nextn=nextn,
        experts=_experts(layout) if layout else None,
        not_streamable=reason,
        dense_bytes=weights - expert_weights,
        types=_types(model.tensors.values(), expert_names),
    )


def _experts(layout: ExpertLayout) -> ExpertReport:
    sizes = [layout.expert_bytes_of(layer) for layer in layout.moe_layers]
    return ExpertReport(
        n_expert=layout.n_expert,
        n_expert_used=layout.n_expert_used,
        moe_layers=tuple(layout.moe_layers),
        total_bytes=layout.expert_bytes,
        expert_bytes_min=min(sizes),
        expert_bytes_max=max(sizes),
        layer_demand_bytes=layout.layer_demand(),
        token_demand_bytes=layout.token_demand(),
    )


def _nextn(model: GGUFModel) -> NextnReport:
    return NextnReport(
        claimed_layers=len(nextn_layers(model)), missing=missing_nextn_tensors(model)
    )


def _types(tensors: Iterable[TensorInfo], expert_names: frozenset[str]) -> tuple[TypeShare, ...]:
    counts: dict[str, list[int]] = {}
    for tensor in tensors:
        count = counts.setdefault(tensor.type.name, [0, 0, 0])
        count[0] += 1
        count[2 if tensor.name in expert_names else 1] += tensor.nbytes
    shares = [
        TypeShare(type=name, tensors=number, dense_bytes=dense, expert_bytes=expert)
        for name, (number, dense, expert) in counts.items()
    ]
    return tuple(sorted(shares, key=lambda share: -share.bytes))


def _text(model: GGUFModel, key: str) -> str | None:
    value = model.metadata.get(key)
    return value if isinstance(value, str) and value else None


def _vocabulary(model: GGUFModel) -> int | None:
    tokens = model.metadata.get("tokenizer.ggml.tokens")
    if tokens is not None and not isinstance(tokens, (bool, int, float, str)):
        return len(tokens)
    return model.get_int("vocab_size", 0) or None
