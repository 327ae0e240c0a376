"""Two campaigns against each other."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from moestream.bench.compare import compare
from moestream.bench.result import CampaignResult
from moestream.errors import ConfigError
from tests.bench.simulated import MACHINE, MODEL, campaign, normal, result, rounds, simulate

CELLS = "off,lanes=4"


def measured(speed: float = 1.0, lanes: float = 1.0, seed: int = 1) -> CampaignResult:
    runs = simulate(campaign(CELLS), {"off": speed, "lanes=4": speed * lanes}, normal(seed, 0.01))
    return result(CELLS, runs)


def test_another_speed() -> None:
    compared = compare(measured(), measured(1.3, seed=2))
    off, lanes = compared.cells
    assert (off.cell, lanes.cell) == ("off", "lanes=4")
    assert off.speed is not None
    assert off.speed.ratio == pytest.approx(1.3, rel=0.02)
    assert off.words.startswith("faster by ")
    assert (off.against_off, off.words_against_off) == (None, "")
    assert lanes.words.startswith("faster by ")
    assert lanes.words_against_off.startswith("no difference above the ")
    assert compared.notes == ()


def test_another_effect() -> None:
    off, lanes = compare(measured(), measured(lanes=0.8, seed=2)).cells
    assert off.words.startswith("no difference")
    assert lanes.words.startswith("slower by ")
    assert lanes.words_against_off.startswith("slower by ")


def test_the_table() -> None:
    compared = compare(measured(), replace(measured(1.3, seed=2), name="a|b"))
    lines = compared.markdown().splitlines()
    assert lines[0].count("|") - lines[0].count("\\|") == lines[1].count("|")
    assert "a\\|b" in lines[0]
    assert len(lines) == 4
    assert compare(measured(), measured()).names == ("trial (first)", "trial (second)")
    assert json.dumps(compared.to_json(), allow_nan=False)


def test_different_models_are_refused_unless_forced() -> None:
    other = replace(measured(), model=replace(MODEL, size_bytes=7))
    with pytest.raises(ConfigError, match="--force"):
        compare(measured(), other)
    assert "different models" in compare(measured(), other, force=True).notes[0]
    moved = replace(measured(), model=replace(MODEL, path="elsewhere.gguf"))
    assert compare(measured(), moved).notes == ()


def test_what_else_differs_is_noted() -> None:
    other = replace(measured(), machine=replace(MACHINE, cores=8), version="0.2.0", regime=6 << 30)
    notes = compare(measured(), other).notes
    assert notes == (
        "different machines: cores 2 / 8",
        "different versions of moestream: 0.1.0 / 0.2.0",
        "different memory limits: none / 6.00 GiB",
    )


def test_cells_that_only_share_a_name_are_left_out() -> None:
    first = measured()
    changed = [dict(cell) for cell in first.cells]
    changed[1]["overrides"] = {"streaming.io_threads": 5}
    compared = compare(first, replace(first, cells=tuple(changed)))
    assert [row.cell for row in compared.cells] == ["off"]
    assert "configured differently" in compared.notes[0]


def test_failed_and_missing_cells() -> None:
    first = result("off,same", [*rounds("off", [10.0] * 3), *rounds("same", [None] * 3)])
    second = result("off,same,serial", [
        *rounds("off", [10.0, 10.1]), *rounds("same", [10.0] * 3), *rounds("serial", [1.0]),
    ])  # fmt: skip
    compared = compare(first, second)
    off, same = compared.cells
    assert off.words.startswith("not enough rounds")
    assert same.words == "failed: not measured in both"
    assert same.tok_s[0] is None
    assert compared.notes == ("failed runs, left out: 3 / 0", "only one of them has serial")
    assert "| - |" in compared.markdown()


def test_nothing_in_common() -> None:
    with pytest.raises(ConfigError, match="no cell was run"):
        compare(result("off", rounds("off", [1.0])), result("off", []))
