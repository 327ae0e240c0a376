"""Records of runs and campaigns survive JSON; what is none is refused by name."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from moestream.bench.result import METRICS, CampaignResult, EntryState, RunResult
from moestream.errors import ConfigError
from tests.bench.simulated import entry, result, run


def through_json(value: dict[str, Any]) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


def whole_run() -> RunResult:
    return run(
        "mtp:3",
        2,
        4.25,
        metrics=dict.fromkeys(METRICS, 1.5) | {"hit_pct": None},
        accepted_at=(5, 3, 1),
        offered_at=(9, 5, 3),
        csv="0007-mtp-3.csv",
        peak_bytes=6 << 30,
    )


def test_a_campaign_survives_json() -> None:
    runs = [whole_run(), run("off", 0, None, entry=None)]
    campaign = result("off,mtp:3", runs, regime=6 << 30)
    assert CampaignResult.from_json(through_json(campaign.to_json())) == campaign


def test_what_is_no_number_was_not_measured() -> None:
    made = run("off", 0, math.nan, entry=entry(load_1m=math.inf))
    read = RunResult.from_json(through_json(made.to_json()))
    assert read.metric("tok_s") is None
    assert read.metric("never heard of") is None
    assert read.entry is not None
    assert read.entry.load_1m is None


WRONG: list[tuple[str, object]] = [
    ("cell", 3),
    ("round", -1),
    ("round", True),
    ("round", 1.5),
    ("order", "1"),
    ("failure", 7),
    ("metrics", [1]),
    ("metrics", {"tok_s": "fast"}),
    ("metrics", {"tok_s": True}),
    ("metrics", {"tok_s": 10**400}),
    ("accepted_at", [1, -1]),
    ("accepted_at", 3),
    ("offered_at", [True]),
    ("csv", 1),
    ("peak_bytes", 0.5),
    ("entry", "then"),
    ("entry", {"time": "now"}),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_a_damaged_run_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match="results file"):
        RunResult.from_json(whole_run().to_json() | {key: value})


@pytest.mark.parametrize("key", list(whole_run().to_json()))
def test_a_missing_field_is_named(key: str) -> None:
    values = whole_run().to_json()
    del values[key]
    with pytest.raises(ConfigError, match=f"no '{key}'"):
        RunResult.from_json(values)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("waited_s", None),
        ("waited_s", math.nan),
        ("gate_expired", 1),
        ("time", None),
        ("mem_available_mib", 3.5),
    ],
)
def test_a_damaged_entry_state_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key):
        EntryState.from_json(entry().to_json() | {key: value})


@pytest.mark.parametrize("value", [None, [], "text", 3, {1: 2}])
def test_something_else_is_no_campaign(value: object) -> None:
    with pytest.raises(ConfigError, match="moestream bench"):
        CampaignResult.from_json(value)


def test_another_schema_is_refused() -> None:
    values = result("off", []).to_json() | {"schema": 99}
    with pytest.raises(ConfigError, match="schema 99"):
        CampaignResult.from_json(values)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("command", ["a", 1]),
        ("command", "moestream"),
        ("cells", [1]),
        ("runs", {}),
        ("regime", "6GiB"),
        ("model", {}),
        ("machine", None),
        ("name", None),
    ],
)
def test_a_damaged_campaign_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError):
        CampaignResult.from_json(result("off", []).to_json() | {key: value})


def test_what_a_later_version_adds_is_skipped() -> None:
    campaign = result("off", [whole_run()])
    values = through_json(campaign.to_json())
    values["later"] = 1
    values["runs"][0]["later"] = 1
    assert CampaignResult.from_json(values) == campaign
