"""The registry of architectures."""

from __future__ import annotations

import pytest

from moestream.errors import UnsupportedModelError
from moestream.streaming.recipes import architectures, recipe_for
from tests.fixtures import FIXTURE_ARCHS

EXPECTED = {
    "deepseek2",
    "gemma4",
    "glm4moe",
    "gpt-oss",
    "lfm2moe",
    "olmoe",
    "qwen2moe",
    "qwen35moe",
    "qwen3moe",
    "qwen3next",
}


def test_registered() -> None:
    assert set(architectures()) == EXPECTED
    assert list(architectures()) == sorted(architectures())


def test_every_architecture_has_a_fixture() -> None:
    assert set(FIXTURE_ARCHS) == EXPECTED


def test_unknown_architecture_names_the_supported_ones() -> None:
    with pytest.raises(UnsupportedModelError, match="'llama' cannot be streamed") as caught:
        recipe_for("llama")
    assert all(arch in str(caught.value) for arch in EXPECTED)
    with pytest.raises(UnsupportedModelError):
        recipe_for("x" * 100_000)


@pytest.mark.parametrize("arch", sorted(EXPECTED))
def test_recipes(arch: str) -> None:
    recipe = recipe_for(arch)
    assert recipe.arch == arch
    assert recipe.tensors == recipe.layouts[0]
    for layout in recipe.layouts:
        assert layout[-1] == "ffn_down_exps"  # used last
        assert all(part.endswith("_exps") for part in layout)
    assert recipe.routing_node == "ffn_moe_topk"
    assert recipe.weights_node.startswith("ffn_moe_weights")
