"""A run's rows as series: costs of groups, rates, acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from moestream.errors import ConfigError
from moestream.telemetry.reading import read_run
from moestream.telemetry.run_series import RunSeries
from tests.telemetry.recordings import Row, free, token, write_run


def series_of(tmp_path: Path, rows: Sequence[Row], **preamble: object) -> RunSeries:
    return RunSeries(read_run(write_run(tmp_path / "run.csv", rows, preamble)))


def group(batch: int, **values: object) -> list[Row]:
    """A verify decode of three drafts that confirmed ``batch`` tokens."""
    first = token(mtp_batch=batch, drafted=3, accepted=batch - 1, mtp_draft_ms=8.0, **values)
    return [first, *(free() for _ in range(batch - 1))]


def test_plain_decodes(tmp_path: Path) -> None:
    rows = [token(phase="prefill", wall_ms=5000), token(), token(wall_ms=200, stall_ms=50)]
    series = series_of(tmp_path, rows)
    assert series.n_tokens == series.n_decodes == 2
    assert series.parts["compute"].tolist() == [60, 150]
    assert series.parts["stall"].tolist() == [40, 50]
    assert series.parts["draft"].tolist() == [0, 0]
    assert series.parts["other"].tolist() == [10, 10]
    assert series.tok_s == pytest.approx(2 / 0.320)
    assert series.decode_tok_s == pytest.approx(2 / 0.300)
    assert series.mib_per_token == 1.0
    assert series.hit_pct == 75.0
    assert series.per_token("majflt") == 2.0
    assert not series.speculated
    assert series.tokens_per_verify is None
    assert series.acceptance_at == []


def test_a_groups_cost_is_spread_over_its_tokens(tmp_path: Path) -> None:
    series = series_of(tmp_path, [token(), *group(4, read_bytes=8 * 2**20), token()])
    assert series.group.tolist() == [0, 1, 1, 1, 1, 2]
    assert series.parts["compute"].tolist() == [60, 15, 15, 15, 15, 60]
    assert series.parts["draft"].tolist() == [0, 2, 2, 2, 2, 0]
    assert series.parts["other"].tolist() == [10, 0.5, 0.5, 0.5, 0.5, 10]
    assert series.mib.tolist() == [1, 2, 2, 2, 2, 1]
    assert series.total_ms.sum() == pytest.approx(330)
    assert series.tok_s == pytest.approx(6 / 0.330)
    assert series.smooth_hit_pct(4).tolist() == [75.0] * 6


def test_what_a_cut_file_has_of_a_group_carries_its_cost(tmp_path: Path) -> None:
    series = series_of(tmp_path, [token(), *group(4)[:2]])
    assert series.parts["compute"].tolist() == [60, 30, 30]


def test_a_turn_begins_a_group(tmp_path: Path) -> None:
    rows = [*group(2), token(phase="prefill", turn=1), free(turn=1), token(turn=1)]
    series = series_of(tmp_path, rows)
    assert series.turn_starts.tolist() == [2]
    assert series.group.tolist() == [0, 0, 1, 2]


def test_smoothing_stays_within_a_turn(tmp_path: Path) -> None:
    rows = [token(wall_ms=90, loop_overhead_ms=10) for _ in range(10)]
    rows += [token(turn=1, wall_ms=990, loop_overhead_ms=10) for _ in range(10)]
    rate = series_of(tmp_path, rows).smooth_rate(6)
    assert rate.tolist() == pytest.approx([10.0] * 10 + [1.0] * 10)


def test_acceptance(tmp_path: Path) -> None:
    rows = [*group(1), *group(2), *group(4), *group(4), token()]
    series = series_of(tmp_path, rows)
    assert series.speculated
    assert series.n_decodes == 5
    assert series.drafted_steps == 4
    assert series.acceptance_pct == pytest.approx(100 * 7 / 12)
    assert series.tokens_per_verify == pytest.approx(11 / 4)
    assert series.confirmed_counts.tolist() == [0, 1, 1, 0, 2]
    assert series.acceptance_at == [(4, 3), (3, 2), (2, 2)]
    numbers = series.numbers()
    assert numbers["offered_at"] == [4, 3, 2]
    assert numbers["accepted_at"] == [3, 2, 2]
    assert numbers["ms_per_token"]["draft"] == pytest.approx(32 / 12)


def test_a_file_that_only_counts_batches(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,wall_ms,mtp_batch\n0,10,3\n1,0,0\n2,0,0\n3,10,1\n")
    series = RunSeries(read_run(path))
    assert series.speculated
    assert series.tokens_per_verify == 3.0
    assert series.acceptance_pct is None
    assert series.acceptance_at == []
    assert series.confirmed_counts.tolist() == [0, 0, 0, 1]


def test_what_was_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,wall_ms\n0,0\n1,0\n")
    series = RunSeries(read_run(path))
    assert series.tok_s is None
    assert series.mib_per_token is None
    assert series.hit_pct is None
    assert series.per_token("cpu_ms") is None
    assert np.isnan(series.smooth_rate(4)).all()
    assert np.isnan(series.smooth_hit_pct(4)).all()


def test_hit_rates_without_counts(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,wall_ms,cache_hit_pct,mtp_batch\n0,1,50,1\n1,1,90,2\n2,0,,0\n3,1,100,1\n")
    assert RunSeries(read_run(path)).hit_pct == pytest.approx(80.0)


@pytest.mark.parametrize("rows", [[], [token(phase="prefill")]])
def test_nothing_decoded(tmp_path: Path, rows: list[Row]) -> None:
    with pytest.raises(ConfigError, match="no token was decoded"):
        series_of(tmp_path, rows)
