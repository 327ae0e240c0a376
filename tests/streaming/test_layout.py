"""Where experts are, from the headers of tiny models and of models that contradict themselves."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from moestream.errors import GGUFError, UnsupportedModelError
from moestream.gguf import GGMLType, GGUFModel, MetaValue, TensorInfo, read_model
from moestream.streaming.layout import expert_layout, override_pattern
from tests.conftest import ModelMaker
from tests.fixtures import FIXTURE_ARCHS
from tests.fixtures.tiny import NEXTN_ARCHS

DENSE_FIRST = {"lfm2moe", "glm4moe", "deepseek2"}


def changed(
    model: GGUFModel,
    metadata: dict[str, MetaValue | None] | None = None,
    tensors: dict[str, TensorInfo | None] | None = None,
) -> GGUFModel:
    """Return the model with keys and tensors replaced, or removed where given as ``None``."""
    new_metadata = {**model.metadata, **(metadata or {})}
    new_tensors = {**model.tensors, **(tensors or {})}
    return replace(
        model,
        metadata=MappingProxyType({k: v for k, v in new_metadata.items() if v is not None}),
        tensors=MappingProxyType({k: v for k, v in new_tensors.items() if v is not None}),
    )


@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
@pytest.mark.parametrize("split", [1, 3])
def test_layout(tiny: ModelMaker, arch: str, split: int) -> None:
    model = read_model(tiny(arch, split=split))
    layout = expert_layout(model)

    assert layout.arch == arch
    assert (layout.n_layer, layout.n_expert, layout.n_expert_used) == (4, 16, 4)
    assert layout.moe_layers == ((1, 2, 3) if arch in DENSE_FIRST else (0, 1, 2, 3))
    per_layer = 2 if arch == "gemma4" else 3
    n_layers = len(layout.moe_layers) + len(layout.nextn_layers)
    assert len(layout.tensors) == n_layers * per_layer
    for tensor in layout.tensors:
        info = model.tensors[tensor.name]
        assert tensor.name.startswith(f"blk.{tensor.layer}.ffn_")
        assert tensor.name.endswith("_exps.weight")
        assert (tensor.shard, tensor.offset, tensor.nbytes) == (
            info.shard,
            info.offset,
            info.nbytes,
        )
        assert tensor.stride * tensor.n_expert == tensor.nbytes
        assert tensor.type is GGMLType.Q8_0
    orders = [tensor.order for tensor in layout.of_layer(2)]
    assert orders == list(range(per_layer))
    total = sum(tensor.nbytes for tensor in model.tensors.values())
    assert layout.expert_bytes + layout.dense_bytes + layout.nextn_dense_bytes == total


def test_order_of_use(tiny: ModelMaker) -> None:
    names = [t.name for t in expert_layout(read_model(tiny("qwen3moe"))).of_layer(1)]
    assert [name.split(".")[2] for name in names] == [
        "ffn_gate_exps",
        "ffn_up_exps",
        "ffn_down_exps",
    ]
    names = [t.name for t in expert_layout(read_model(tiny("gemma4"))).of_layer(1)]
    assert [name.split(".")[2] for name in names] == ["ffn_gate_up_exps", "ffn_down_exps"]


def test_biases_and_scales_are_dense(tiny: ModelMaker) -> None:
    for arch, dense in (("gpt-oss", "ffn_down_exps.bias"), ("gemma4", "ffn_down_exps.scale")):
        model = read_model(tiny(arch))
        assert f"blk.0.{dense}" in model.tensors
        names = {tensor.name for tensor in expert_layout(model).tensors}
        assert f"blk.0.{dense}" not in names


@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
def test_override_pattern_matches_exactly_the_experts(tiny: ModelMaker, arch: str) -> None:
    model = read_model(tiny(arch))
    layout = expert_layout(model)
    pattern = re.compile(override_pattern(layout))
    expected = {tensor.name for tensor in layout.tensors}
    assert {name for name in model.tensors if pattern.search(name)} == expected
    for name in expected:
        for other in (f"x{name}", f"{name}x", name.replace(".weight", ".bias")):
            assert not pattern.search(other)
        assert not pattern.search(name.replace("blk.", "blk.9"))


def test_weights_node_follows_the_gating_function(tiny: ModelMaker) -> None:
    for arch in ("glm4moe", "deepseek2", "lfm2moe"):
        model = read_model(tiny(arch))
        assert expert_layout(model).recipe.weights_node == "ffn_moe_weights"
        model = changed(model, {f"{arch}.expert_gating_func": 3})
        assert expert_layout(model).recipe.weights_node == "ffn_moe_weights_softmax"
    model = changed(read_model(tiny("qwen3moe")), {"qwen3moe.expert_gating_func": 3})
    assert expert_layout(model).recipe.weights_node == "ffn_moe_weights"  # it never looks


def test_demands(tiny: ModelMaker) -> None:
    layout = expert_layout(read_model(tiny("qwen35moe")))
    expert = layout.expert_bytes_of(0)
    assert expert == 3 * 128 * 96 // 32 * 34
    assert layout.token_demand() == 4 * 4 * expert
    assert layout.token_demand(n_used=1) == 4 * expert
    assert layout.layer_demand() == 4 * expert
    assert layout.layer_demand(2) == 8 * expert
    assert layout.layer_demand(2, n_used=1) == 2 * expert
    assert layout.layer_demand(1000) == 16 * expert
    assert layout.expert_bytes_of(99) == 0


@pytest.mark.parametrize("arch", NEXTN_ARCHS)
def test_nextn_blocks(tiny: ModelMaker, arch: str) -> None:
    model = read_model(tiny(arch, nextn=1))
    layout = expert_layout(model)
    assert (layout.n_layer, layout.n_layer_nextn, layout.n_block) == (4, 1, 5)
    assert layout.nextn_present
    assert layout.nextn_layers == (4,)
    assert 4 not in layout.moe_layers
    assert len(layout.of_layer(4)) == 3
    assert layout.nextn_dense_bytes > 0
    assert layout.token_demand() < 4 * sum(tensor.stride for tensor in layout.tensors)


@pytest.mark.parametrize(
    "lost",
    [
        ["nextn.eh_proj.weight"],
        ["nextn.enorm.weight"],
        ["ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"],
        ["nextn.hnorm.weight", "ffn_gate_exps.weight"],
    ],
)
def test_nextn_claimed_but_not_there(tiny: ModelMaker, lost: list[str]) -> None:
    model = read_model(tiny("qwen35moe"))
    layout = expert_layout(changed(model, tensors={f"blk.4.{name}": None for name in lost}))
    assert layout.n_layer_nextn == 1
    assert not layout.nextn_present
    assert layout.nextn_layers == ()
    assert {tensor.layer for tensor in layout.tensors} == {0, 1, 2, 3}


def test_without_nextn(tiny: ModelMaker) -> None:
    layout = expert_layout(read_model(tiny("qwen35moe", nextn=0)))
    assert (layout.n_layer, layout.n_layer_nextn, layout.nextn_present) == (4, 0, False)


@pytest.mark.parametrize("arch", ["qwen35moe", "qwen3next", "deepseek2"])
def test_either_way_of_storing_gate_and_up(tiny: ModelMaker, arch: str) -> None:
    model = read_model(tiny(arch, nextn=0))
    gate = model.tensors["blk.2.ffn_gate_exps.weight"]
    d, ff, n = gate.shape
    fused = replace(
        gate, name="blk.2.ffn_gate_up_exps.weight", shape=(d, 2 * ff, n), nbytes=2 * gate.nbytes
    )
    model = changed(
        model,
        tensors={
            fused.name: fused,
            gate.name: None,
            "blk.2.ffn_up_exps.weight": None,
        },
    )
    layout = expert_layout(model)
    assert [t.order for t in layout.of_layer(2)] == [0, 1]
    assert len(layout.of_layer(3)) == 3
    pattern = re.compile(override_pattern(layout))
    assert {n for n in model.tensors if pattern.search(n)} == {t.name for t in layout.tensors}


def _reshaped(info: TensorInfo, shape: tuple[int, ...]) -> TensorInfo:
    nbytes = math.prod(shape) // info.type.block_size * info.type.type_size
    return replace(info, shape=shape, nbytes=nbytes)


UP = "blk.1.ffn_up_exps.weight"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"qwen3moe.block_count": None}, "block_count"),
        ({"qwen3moe.block_count": 0}, "claims 0 blocks"),
        ({"qwen3moe.block_count": 513}, "claims 513 blocks"),
        ({"qwen3moe.block_count": 3}, "has 3 blocks, but a tensor"),
        ({"qwen3moe.block_count": "4"}, "must be an integer"),
        ({"qwen3moe.nextn_predict_layers": 4}, "4 of them nextn"),
        ({"qwen3moe.expert_used_count": 17}, "17 of 16 experts"),
        ({"qwen3moe.expert_used_count": 0}, "0 of 16 experts"),
        ({"qwen3moe.expert_used_count": None}, "expert_used_count"),
        ({"qwen3moe.expert_count": 8}, "for 8 experts it must have"),
        ({"qwen3moe.expert_count": -1}, "must be an integer of 0 or more"),
    ],
)
def test_contradicting_metadata(
    tiny: ModelMaker, metadata: dict[str, MetaValue | None], message: str
) -> None:
    with pytest.raises(GGUFError, match=message):
        expert_layout(changed(read_model(tiny("qwen3moe")), metadata))


def test_contradicting_tensors(tiny: ModelMaker) -> None:
    model = read_model(tiny("qwen3moe"))
    info = model.tensors[UP]
    d, ff, n = info.shape
    cases: list[tuple[TensorInfo | None, str]] = [
        (None, "only some of the expert tensors of layer 1"),
        (_reshaped(info, (d, ff)), "must have three dimensions"),
        (_reshaped(info, (d, ff, n - 1)), "must have three dimensions"),
        (_reshaped(info, (d, ff, n, 1)), "must have three dimensions"),
        (replace(info, type=GGMLType.F64), "not a type for weights"),
    ]
    for tensor, message in cases:
        with pytest.raises(GGUFError, match=message):
            expert_layout(changed(model, tensors={UP: tensor}))
    for name in ("blk.9.ffn_up_exps.weight", "blk.01.ffn_up_exps.weight"):
        with pytest.raises(GGUFError, match="has 4 blocks, but a tensor"):
            expert_layout(changed(model, tensors={name: replace(info, name=name)}))
    both = replace(info, name="blk.1.ffn_gate_up_exps.weight")
    expert_layout(changed(model, tensors={both.name: both}))  # no layout of this architecture


def test_models_that_cannot_be_streamed(tiny: ModelMaker) -> None:
    model = read_model(tiny("qwen3moe"))
    dense = changed(model, {"qwen3moe.expert_count": None})
    with pytest.raises(UnsupportedModelError, match="not a mixture-of-experts model"):
        expert_layout(dense)
    other = changed(model, {"general.architecture": "llama"})
    with pytest.raises(UnsupportedModelError, match="'llama' cannot be streamed"):
        expert_layout(other)
    experts: dict[str, TensorInfo | None] = {n: None for n in model.tensors if "_exps." in n}
    with pytest.raises(UnsupportedModelError, match="has no expert tensors"):
        expert_layout(changed(model, tensors=experts))


def test_different_numbers_of_experts_per_layer(tmp_path: Path, tiny: ModelMaker) -> None:
    from moestream.gguf.model import NumberArray

    counts = NumberArray[int](bytes([2, 4, 4, 4]), "B")
    with pytest.raises(UnsupportedModelError, match="2 experts in some layers and to 4"):
        expert_layout(changed(read_model(tiny("qwen3moe")), {"qwen3moe.expert_used_count": counts}))
