"""``moestream inspect`` and ``moestream archs``."""

from __future__ import annotations

from pathlib import Path

import pytest

from moestream.streaming.recipes import architectures
from tests.cli.conftest import Cli
from tests.conftest import ModelMaker
from tests.fixtures import FIXTURE_ARCHS


def test_archs_lists_every_recipe(cli: Cli) -> None:
    result = cli("archs", "--json")
    assert [entry["name"] for entry in result.json["architectures"]] == list(architectures())
    plain = cli("archs")
    assert plain.code == 0
    assert all(name in plain.out for name in architectures())


@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
def test_every_architecture(cli: Cli, tiny: ModelMaker, arch: str) -> None:
    result = cli("inspect", tiny(arch), "--json")
    assert result.code == 0
    report = result.json
    assert report["architecture"] == arch
    assert report["streamable"] is True
    assert report["n_layer"] == 4
    experts = report["experts"]
    assert experts["n_expert"] == 16
    assert experts["n_expert_used"] == 4
    by_type = sum(entry["dense_bytes"] + entry["expert_bytes"] for entry in report["types"])
    assert by_type < report["file_bytes"]
    assert experts["total_bytes"] == sum(entry["expert_bytes"] for entry in report["types"])
    assert experts["layer_demand_bytes"] <= experts["token_demand_bytes"]


def test_the_table_is_plain_text_when_piped(cli: Cli, tiny: ModelMaker) -> None:
    result = cli("inspect", tiny("qwen35moe"))
    assert result.code == 0
    assert "\x1b" not in result.out
    assert "architecture" in result.out
    assert "yes, 1 layer" in result.out
    assert "16 in each of 4 layers, 4 used per token" in result.out


def test_shards_are_listed(cli: Cli, tiny: ModelMaker) -> None:
    first = tiny("qwen3moe", split=3)
    result = cli("inspect", first, "--json")
    assert len(result.json["files"]) == 3
    assert result.json["file_bytes"] == sum(
        path.stat().st_size for path in first.parent.glob(first.name.replace("00001-of", "*-of"))
    )


def test_second_shard_is_refused_with_the_first_ones_name(cli: Cli, tiny: ModelMaker) -> None:
    first = tiny("qwen3moe", split=3)
    second = first.with_name(first.name.replace("00001-of", "00002-of"))
    result = cli("inspect", second)
    assert result.code == 1
    assert first.name in result.error


def test_a_model_that_cannot_be_streamed_says_why(cli: Cli, unsupported: Path) -> None:
    result = cli("inspect", unsupported, "--json")
    assert result.code == 0
    assert result.json["streamable"] is False
    assert "supported are" in result.json["not_streamable"]
    assert result.json["experts"] is None
    assert "streams" in cli("inspect", unsupported).out


def test_a_claimed_head_without_tensors_is_told(cli: Cli, headless: Path) -> None:
    report = cli("inspect", headless, "--json").json
    assert report["nextn"]["claimed_layers"] == 1
    assert report["nextn"]["usable"] is False
    assert "blk.4.nextn.eh_proj.weight" in report["nextn"]["missing"]
    assert "tensors are missing" in cli("inspect", headless).out
