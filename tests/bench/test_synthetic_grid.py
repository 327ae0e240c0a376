"""The map of forced acceptance, and where it crosses break-even."""

from __future__ import annotations

import json

import pytest

from moestream.bench.result import CampaignResult, RunResult
from moestream.bench.speed_map import map_sections
from moestream.bench.synthetic_grid import (
    break_even,
    synthetic_cells,
    synthetic_grid,
)
from moestream.errors import ConfigError
from tests.bench.simulated import result, run


def measured(cells: str, rates: dict[str, float], hit: float = 80.0) -> CampaignResult:
    runs: list[RunResult] = []
    for name, rate in rates.items():
        for i, wobble in enumerate((1.0, 1.01, 0.99)):
            metrics = {"tok_s": rate * wobble, "hit_pct": hit, "tokens_per_verify": 2.0}
            runs += [run(name, i, 1.0, metrics=metrics)] * (2 if name == "off" else 1)
    return result(cells, runs)


def test_the_cells_of_a_map() -> None:
    assert [c.name for c in synthetic_cells([0.4, 0.8], [1, 3])] == [
        "off", "synth:0.4@draft=1", "synth:0.8@draft=1", "synth:0.4@draft=3", "synth:0.8@draft=3",
    ]  # fmt: skip
    assert [c.name for c in synthetic_cells([0.5], [2], ["auto", 100], "mtp")] == [
        "off",
        "cache=auto", "synth:0.5@draft=2@source=mtp@cache=auto",
        "cache=100", "synth:0.5@draft=2@source=mtp@cache=100",
    ]  # fmt: skip
    for wrong in (([], [1]), ([0.5], []), ([2.0], [1]), ([0.5], [9])):
        with pytest.raises(ConfigError):
            synthetic_cells(*wrong)


def test_points_stand_against_their_own_cache() -> None:
    cells = "off,cache=100,synth:0.5@draft=2,synth:0.5@draft=2@cache=100"
    rates = {"off": 10.0, "cache=100": 4.0, "synth:0.5@draft=2": 12.0,
             "synth:0.5@draft=2@cache=100": 3.0}  # fmt: skip
    points = synthetic_grid(measured(cells, rates))
    assert [(p.reference, p.width, p.acceptance) for p in points] == [
        ("off", 2, 0.5), ("cache=100", 2, 0.5),
    ]  # fmt: skip
    assert [round(p.speed.ratio, 3) for p in points if p.speed] == [1.2, 0.75]
    assert [p.tokens_per_verify for p in points] == [2.0, 2.0]
    assert all(json.dumps(p.to_json(), allow_nan=False) for p in points)


def test_sources_have_a_map_each() -> None:
    rates = {"off": 10.0}
    for source, speeds in (("mtp", (6.0, 9.0)), ("ngram", (8.0, 12.0))):
        for acceptance, rate in zip((0.4, 0.8), speeds, strict=True):
            rates[f"synth:{acceptance:g}@draft=3@source={source}"] = rate
    found = measured(",".join(rates), rates)
    assert [(p.source, p.acceptance) for p in synthetic_grid(found)] == [
        ("mtp", 0.4), ("mtp", 0.8), ("ngram", 0.4), ("ngram", 0.8),
    ]  # fmt: skip
    crossings = {c.source: c.words for c in break_even(synthetic_grid(found))}
    assert crossings["mtp"] == "does not pay up to 0.8"
    assert crossings["ngram"].startswith("pays from an acceptance of 0.6")
    text = "\n".join(map_sections(found))
    assert "mtp drafting against off" in text
    assert "ngram drafting against off" in text


def crossing(ratios: dict[float, float]) -> tuple[str, float]:
    rates = {"off": 10.0} | {f"synth:{a:g}@draft=3": 10.0 * r for a, r in ratios.items()}
    (found,) = break_even(synthetic_grid(measured(",".join(rates), rates)))
    assert found.width == 3
    assert json.dumps(found.to_json(), allow_nan=False)
    return found.words, found.acceptance


def test_break_even() -> None:
    words, acceptance = crossing({0.4: 0.8, 0.6: 1.0 / 1.1, 0.8: 1.1})
    assert words == "pays from an acceptance of 0.70 on"
    assert acceptance == pytest.approx(0.7)
    assert crossing({0.8: 0.9, 0.4: 0.8})[0] == "does not pay up to 0.8"
    assert crossing({0.4: 1.2, 0.8: 1.4})[0] == "pays at 0.4 already"
    assert crossing({0.4: 0.9, 0.6: 1.0})[1] == pytest.approx(0.6)


def test_noise_does_not_make_a_crossing_of_its_own() -> None:
    _, acceptance = crossing({0.2: 0.7, 0.4: 1.05, 0.6: 0.8, 0.8: 1.3})
    assert 0.6 < acceptance < 0.8


def test_a_cell_that_never_ran_well_is_no_point_of_the_line() -> None:
    rates = {"off": 10.0, "synth:0.4@draft=1": 12.0}
    campaign = measured("off,synth:0.4/0.8@draft=1", rates)
    failed = run("synth:0.8@draft=1", 0, None)
    points = synthetic_grid(
        CampaignResult.from_json(
            campaign.to_json() | {"runs": [r.to_json() for r in (*campaign.runs, failed)]}
        )
    )
    assert [p.speed is None for p in points] == [False, True]
    assert points[1].tok_s is None
    (line,) = break_even(points)
    assert line.words == "pays at 0.4 already"
    assert break_even([]) == ()


def test_a_campaign_without_a_map() -> None:
    with pytest.raises(ConfigError, match="synth:"):
        synthetic_grid(measured("off", {"off": 1.0}))
    cells = "off,synth:0.5@draft=2@lanes=4"
    with pytest.raises(ConfigError, match="nothing to be compared with"):
        synthetic_grid(measured(cells, {"off": 1.0, "synth:0.5@draft=2@lanes=4": 1.0}))
