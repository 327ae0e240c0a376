"""``moestream plan`` on tiny models."""

from __future__ import annotations

from pathlib import Path

import pytest

from moestream import EngineConfig
from moestream.models.plan import plan_model
from moestream.telemetry.system import MemoryState
from tests.cli.conftest import Cli
from tests.conftest import ModelMaker

#: One MiB more than is left alone.
SMALL = MemoryState(
    total=513 * 2**20, available=513 * 2**20, cgroup_limit=None, cgroup_available=None
)


def test_the_command(cli: Cli, tiny: ModelMaker) -> None:
    result = cli("plan", tiny("qwen35moe"), "--measure-s", "0.3", "--json")
    assert result.code == 0
    report = result.json
    assert report["verdict"] == "resident"
    assert [rate["lanes"] for rate in report["disk"]["rates"]] == [1, 2, 4]
    assert all(rate["bytes_per_s"] > 0 for rate in report["disk"]["rates"])
    assert set(report["compute"]) <= set(report["used_bytes"])
    assert report["estimate"]["tok_s"][0] <= report["estimate"]["tok_s"][1]
    text = cli("plan", tiny("qwen35moe"), "--measure-s", "0.3").out
    for words in ("left alone", "hit-rate cliff", "--cache-mb auto", "lanes", "Estimate"):
        assert words in text
    assert "\x1b" not in text


def test_without_measuring(cli: Cli, tiny: ModelMaker) -> None:
    report = cli("plan", tiny("qwen3moe", split=3), "--measure-s", "0", "--json").json
    assert report["disk"] is None
    assert report["compute"] == {}
    assert report["estimate"] is None
    assert len(report["files"]) == 3


def test_a_model_that_does_not_fit(
    cli: Cli, tiny: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny("qwen35moe")
    monkeypatch.setattr("moestream.models.plan.memory_state", lambda: SMALL)
    result = cli("plan", path, "--measure-s", "0.1")
    assert result.code == 0
    assert "does not run here" in result.out
    assert "tok/s" not in result.out
    memory = plan_model(path, EngineConfig(), seconds=0).memory
    assert memory.left_for_experts < 0
    assert memory.auto_cache == 0


def test_below_the_cliff(cli: Cli, tiny: ModelMaker) -> None:
    big = tiny("qwen3moe", n_ff=256, n_expert=64, n_used=32)
    result = cli("plan", big, "--cache-ceil-mb", "6", "--measure-s", "0.3")
    assert "below one token's demand" in result.out
    assert "nothing hits" in result.out


def test_a_unsupported(cli: Cli, unsupported: Path) -> None:
    result = cli("plan", unsupported, "--measure-s", "0", "--json")
    assert result.code == 0
    assert result.json["verdict"] == "resident"
    assert "cannot be streamed" in result.err
