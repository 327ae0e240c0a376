"""The order of runs, what is left of it after an interruption, and campaign files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moestream import EngineConfig
from moestream.bench.campaign import OFF_EVERY, Campaign
from moestream.bench.campaign_file import CampaignFile, read_campaign_file
from moestream.bench.cells import OFF, Cell
from moestream.bench.result import RunResult
from moestream.bench.workloads import Workload
from moestream.errors import ConfigError
from tests.bench.simulated import campaign, run

TWO = (Workload("prose", "a"), Workload("copy", "b"))


def order_of(plan: Campaign, number: int, workload: str = "prose") -> list[str]:
    return [p.cell for p in plan.plan() if p.round == number and p.workload == workload]


def results(plan: Campaign, failure: str | None = None) -> list[RunResult]:
    return [
        run(p.cell, p.round, 1.0, order=p.order, workload=p.workload, failure=failure)
        for p in plan.plan()
    ]


def test_off_stands_at_both_ends_and_every_other_round_runs_backwards() -> None:
    plan = campaign("off,mtp:1-2,serial", rounds=3)
    forward = ["off", "mtp:1", "off", "mtp:2", "serial", "off"]
    assert order_of(plan, 0) == order_of(plan, 2) == forward
    assert order_of(plan, 1) == forward[::-1]


def test_one_cell_and_none() -> None:
    assert order_of(campaign("same"), 0) == ["off", "same", "off"]
    assert order_of(campaign("off"), 0) == ["off", "off"]


def test_workloads_turn_round_as_well() -> None:
    plan = campaign("serial", rounds=2, workloads=TWO).plan()
    assert [p.workload for p in plan] == ["prose"] * 3 + ["copy"] * 6 + ["prose"] * 3
    assert [p.order for p in plan] == list(range(12))


@given(n=st.integers(0, 40), rounds=st.integers(1, 4))
def test_every_cell_runs_once_a_round_with_off_near(n: int, rounds: int) -> None:
    cells = tuple(Cell(f"c{i}", {"threads": i + 1}) for i in range(n))
    plan = replace(campaign("off"), cells=cells, rounds=rounds)
    for number in range(rounds):
        order = order_of(plan, number)
        assert order[0] == order[-1] == OFF
        assert sorted(c for c in order if c != OFF) == sorted(cell.name for cell in cells)
        stretches = "".join("-" if c == OFF else "x" for c in order).split("-")
        assert max(map(len, stretches)) <= OFF_EVERY


def test_more_rounds_change_nothing_before_them() -> None:
    few, many = campaign("mtp:1-3", rounds=2), campaign("mtp:1-3", rounds=5)
    assert many.plan()[: len(few.plan())] == few.plan()


@given(st.sets(st.integers(0, 29)))
def test_what_was_made_is_not_made_again(made: set[int]) -> None:
    plan = campaign("serial,lanes=1-2", workloads=TWO, rounds=3)
    runs = [r for r in results(plan) if r.order in made]
    left = plan.missing(reversed(runs))
    assert sorted([p.order for p in left] + [r.order for r in runs]) == list(
        range(len(plan.plan()))
    )
    assert [p.order for p in left] == sorted(p.order for p in left)


def test_a_failed_run_was_made() -> None:
    plan = campaign("serial")
    assert plan.missing(results(plan, "out of memory")) == ()


def test_going_on_with_more_rounds() -> None:
    runs = results(campaign("serial", rounds=2))
    assert {p.round for p in campaign("serial", rounds=3).missing(runs)} == {2}


@pytest.mark.parametrize("other", ["lanes=1", "serial,lanes=1"])
def test_results_of_another_campaign_are_refused(other: str) -> None:
    with pytest.raises(ConfigError, match="new directory"):
        campaign(other).missing(results(campaign("serial")))


def test_results_of_more_rounds_are_refused() -> None:
    with pytest.raises(ConfigError, match="new directory"):
        campaign("serial", rounds=2).missing(results(campaign("serial", rounds=3)))


def test_impossible_campaigns() -> None:
    plan = campaign("serial")
    for change, says in (
        ({"rounds": 0}, "rounds"),
        ({"rounds": 10**6}, "rounds"),
        ({"tokens": 1}, "2 tokens"),
        ({"workloads": ()}, "workload"),
        ({"cells": (Cell("a", {}), Cell("a", {}))}, "there twice"),
        ({"cells": (Cell("off", {"threads": 1}),)}, "another name"),
    ):
        with pytest.raises(ConfigError, match=says):
            replace(plan, **change)


# ---- files ---------------------------------------------------------------------------------------

WHOLE = r"""
name = "streaming"
model = "giant.gguf"
base = "threads=2@ctx=512"
cells = ["off", "lanes=1/2", "cache=0/auto"]
workloads = ["prose", "own.txt"]
rounds = 5
tokens = 128
ram_ratio = 2

[[cell]]
name = "small but eager"
is = "cache=500@prefetch=2"

[[command]]
name = "other = one"
run = "other -m giant.gguf"
regex = "([0-9.]+) tok/s"
"""


def read(folder: Path, text: str) -> CampaignFile:
    path = folder / "campaign.toml"
    path.write_text(text)
    return read_campaign_file(path)


def test_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "giant.gguf").touch()
    file = read(tmp_path, WHOLE)
    assert (file.name, file.rounds, file.tokens, file.ram_ratio) == ("streaming", 5, 128, 2)
    assert file.memory_limit is None
    assert file.model == str(tmp_path / "giant.gguf")
    assert file.workloads == ("prose", str(tmp_path / "own.txt"))
    assert [cell.name for cell in file.cells] == [
        "off", "lanes=1", "lanes=2", "cache=0", "cache=auto", "small but eager", "other = one",
    ]  # fmt: skip
    assert file.cells[-2].apply(EngineConfig()).streaming.prefetch == 2
    assert file.base is not None
    assert file.base.apply(EngineConfig()).n_ctx == 512


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "") == CampaignFile()


def test_a_model_that_is_no_file_is_left_as_it_is(tmp_path: Path) -> None:
    assert read(tmp_path, 'model = "user/repo:Q4_K_M"').model == "user/repo:Q4_K_M"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = ", "cannot be read"),
        ("cells = 3", "cells must be a list"),
        ("cells = [3]", "list of texts"),
        ('cells = ["off,mpt"]', "at character 5"),
        ("rounds = true", "rounds must be a whole number"),
        ("rounds = 1.5", "rounds must be a whole number"),
        ('name = "two\\nlines"', "printable"),
        ("repeat = 3", "no 'repeat'"),
        ("cell = [1]", r"\[\[cell\]\]"),
        ('[[cell]]\nname = "a"', "'is' is missing"),
        ('[[cell]]\nname = "a"\nis = "lanes=1-2"', "makes 2"),
        ('[[cell]]\nname = 1\nis = "off"', "name must be text"),
        ('base = "lanes=1,lanes=2"', "makes 2"),
        ('base = "plain"', "cannot be"),
        ('[[command]]\nname = "a"\nrun = "x"\nregex = "1"', "no group"),
        ("a = " + "[" * 5000, "cannot be read"),
    ],
)
def test_wrong_files_are_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read(tmp_path, text)
    assert "campaign.toml" in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "long.toml").write_bytes(b"#" * (1 << 20) + b"#")
    for name in ("nothing.toml", ".", "bytes.toml", "long.toml"):
        with pytest.raises(ConfigError):
            read_campaign_file(tmp_path / name)
