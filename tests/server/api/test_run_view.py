"""Recorded runs as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from moestream.errors import ConfigError
from moestream.server.api.run_view import compare, detail, summarize
from moestream.telemetry.reading import read_run
from moestream.telemetry.run_series import RunSeries
from moestream.telemetry.schema import glossary
from tests.telemetry.recordings import free, run_text, token

PLAIN = [token(phase="prefill", wall_ms=900.0)] + [token() for _ in range(20)]
GROUPS = [token(phase="prefill")] + [
    row
    for _ in range(10)
    for row in (token(mtp_batch=2, drafted=3, accepted=1, mtp_draft_ms=5.0), free())
]
SPECULATED = {"model": "tiny", "spec": "mtp", "spec_draft_max": 3, "cache_mb": 500}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.csv"
    path.write_text(run_text(PLAIN, {"model": "tiny", "spec": "off", "cache_mb": 500}))
    return path


@pytest.fixture
def speculated(tmp_path: Path) -> Path:
    path = tmp_path / "speculated.csv"
    path.write_text(run_text(GROUPS, SPECULATED))
    return path


def test_a_run_in_a_list(plain: Path, speculated: Path) -> None:
    facts = summarize(plain)
    series = RunSeries(read_run(plain))
    assert facts["tokens"] == 20
    assert facts["effective_tok_s"] == pytest.approx(series.tok_s, rel=1e-5)
    assert facts["tok_s"] == 10
    assert facts["hit_pct"] == 75
    assert (facts["model"], facts["spec"], facts["speculated"]) == ("tiny", "off", False)
    assert facts["label"].startswith("spec off")
    assert summarize(speculated)["speculated"] is True
    assert summarize(speculated)["label"].startswith("mtp 3")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no header row"),
        ("hello\n", "line 1 is 'hello'"),
        ("step,wall_ms\n0,x\n", "which is no number"),
        (run_text([token(phase="prefill")]), "no token was decoded"),
    ],
)
def test_a_file_that_is_no_run_is_listed_with_the_reason(
    tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    facts = summarize(path)
    assert why in facts["error"]
    assert str(tmp_path) not in facts["error"]
    assert facts["tokens"] == 0


def test_a_run_opened(plain: Path) -> None:
    view = detail(plain)
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    assert view["preamble"]["model"] == "tiny"
    assert view["n_rows"] == len(view["rows"]) == 21
    assert all(len(row) == len(view["columns"]) for row in view["rows"])
    wall = view["columns"].index("wall_ms")
    assert [row[wall] for row in view["rows"]] == [900, *[100] * 20]
    assert view["notices"] == []
    chart = view["series"]
    assert chart["x"] == list(range(20))
    assert chart["parts"] == {
        "compute": [60] * 20, "stall": [40] * 20, "draft": [0] * 20, "other": [10] * 20,
    }  # fmt: skip
    assert chart["mib_per_token"] == [1] * 20
    assert chart["hit_pct"] == [75] * 20
    assert view["summary"]["tok_s"] == pytest.approx(1000 / 110, rel=1e-5)
    assert view["summary"]["stall_s/tok"] == 0.04
    assert view["trailer"] is not None


def test_every_key_of_a_summary_is_in_the_glossary(plain: Path) -> None:
    assert detail(plain)["summary"].keys() <= glossary().keys()


def test_groups_are_spread_and_said(speculated: Path) -> None:
    view = detail(speculated)
    assert view["series"]["parts"]["compute"] == [30] * 20
    assert view["series"]["parts"]["draft"] == [2.5] * 20
    assert view["series"]["confirmed"] == [0, 0, 10]
    assert (view["series"]["offered_at"], view["series"]["accepted_at"]) == (
        [10, 10, 0],
        [10, 0, 0],
    )
    assert view["summary"]["mtp_tok/verify"] == 2
    assert view["summary"]["mtp_accept_pct"] == pytest.approx(100 / 3, rel=1e-5)
    assert any("accounted per group" in notice for notice in view["notices"])


def test_many_rows_are_thinned_out(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text(run_text([token(wall_ms=i % 7) for i in range(5000)]))
    view = detail(path)
    assert view["n_rows"] == 5000
    assert len(view["rows"]) == 2000
    step = view["columns"].index("step")
    assert (view["rows"][0][step], view["rows"][-1][step]) == (0, 4999)
    assert "2000 of 5000 rows" in view["notices"][0]
    chart = view["series"]
    assert len(chart["x"]) == len(chart["parts"]["stall"]) == len(chart["tok_s"]) == 400
    # Means of means keep the sums: nothing is lost but detail.
    series = RunSeries(read_run(path))
    assert np.mean(chart["parts"]["compute"]) == pytest.approx(series.part_ms("compute"), rel=1e-3)


def test_a_run_without_a_decode_is_opened_without_curves(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text(run_text([token(phase="prefill")], trailer=False))
    view = detail(path)
    assert view["series"] is None
    assert view["summary"] is None
    assert len(view["rows"]) == 1
    assert any("did not end by itself" in notice for notice in view["notices"])
    assert any("No token was decoded" in notice for notice in view["notices"])


def test_what_others_wrote_with_fewer_columns(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("wall_ms,extra,step\n".replace("wall_ms,extra,step", "step,extra,wall_ms"))
    path.write_text("step,extra,wall_ms\n0,what,50\n1,ever,-1\n2,,inf\n3,x,nan\n4,,70\n")
    with pytest.raises(ConfigError, match="no possible value"):
        detail(path)
    path.write_text("step,extra,wall_ms\n0,what,50\n1,ever,-1\n3,x,nan\n4,,70\n")
    view = detail(path)
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    assert view["series"]["hit_pct"] == []
    assert view["summary"]["cache_hit_pct"] is None
    assert view["summary"]["stall_s/tok"] is None


def test_a_comparison(plain: Path, speculated: Path) -> None:
    compared = compare([plain, speculated])
    assert json.loads(json.dumps(compared, allow_nan=False)) == compared
    assert compared["labels"] == ["spec off", "mtp 3"]
    rows = {row["key"]: row for row in compared["rows"]}
    assert rows["decoded_tokens"]["values"] == [20, 20]
    assert rows["spec"]["values"] == ["spec off", "mtp 3"]
    assert rows["spec"]["differs"]
    assert rows["cache_mb"] == {
        "key": "cache_mb", "kind": "setting", "values": ["500", "500"], "differs": False,
    }  # fmt: skip
    assert rows["mtp_accept_pct"]["values"][0] is None
    assert len(compared["series"]) == 2
    (notice,) = compared["notices"]
    assert "accounted per group" in notice
    assert "mtp 3" in notice


def test_a_comparison_of_different_models(plain: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(run_text(PLAIN, {"model": "large", "spec": "off"}))
    assert "The runs are of different models." in compare([plain, other])["notices"]


def test_the_same_run_twice_has_two_labels(plain: Path) -> None:
    assert len(set(compare([plain, plain])["labels"])) == 2
