"""Labels of runs that are compared."""

from __future__ import annotations

from pathlib import Path

from moestream.telemetry.reading import read_run
from moestream.telemetry.run_labels import run_labels, settings_line
from moestream.telemetry.run_series import RunSeries
from tests.telemetry.recordings import free, token, write_run


def runs(tmp_path: Path, *preambles: dict[str, object]) -> list[RunSeries]:
    return [
        RunSeries(read_run(write_run(tmp_path / f"file{i}.csv", [token()], preamble)))
        for i, preamble in enumerate(preambles)
    ]


def test_the_draft_source_is_always_named(tmp_path: Path) -> None:
    labels = run_labels(
        runs(
            tmp_path,
            {"spec": "off", "threads": 4},
            {"spec": "mtp", "spec_draft_max": 3, "threads": 4},
            {"spec": "ngram", "spec_draft_max": 2, "ngram_min_match": 5, "threads": 4},
        )
    )
    assert labels == ["spec off", "mtp 3", "ngram 2"]


def test_what_differs_is_named_and_nothing_else(tmp_path: Path) -> None:
    common = {"model": "m", "spec": "off", "temp": "0.0000", "load_s": "1.0"}
    labels = run_labels(
        runs(
            tmp_path,
            {**common, "cache_mb": "512.000", "overlap": 1, "kv_mib": 1},
            {**common, "cache_mb": "1024.000", "cache_auto": 1, "overlap": 0, "kv_mib": 2},
            {**common, "cache_mb": "0.000", "overlap": 0, "load_s": "2.0"},
        )
    )
    assert labels == [
        "spec off, cache 512 MiB, overlap on",
        "spec off, cache auto 1024 MiB, overlap off",
        "spec off, no cache, overlap off",
    ]


def test_runs_of_one_configuration_are_told_apart_by_file(tmp_path: Path) -> None:
    same = runs(tmp_path, {"spec": "off"}, {"spec": "off"}, {"spec": "mtp"})
    assert run_labels(same) == ["spec off (file0)", "spec off (file1)", "mtp"]
    assert run_labels([same[0], same[0]]) == ["spec off (file0) #1", "spec off (file0) #2"]


def test_what_makes_a_run_incomparable_is_named(tmp_path: Path) -> None:
    mtp = {"spec": "mtp", "spec_draft_max": 3}
    labels = run_labels(
        runs(
            tmp_path,
            {"spec": "off", "traced": 0},
            {"spec": "off", "traced": 1},
            {**mtp, "synthetic_acceptance": "0.5000"},
        )
    )
    assert labels == ["spec off", "spec off (traced)", "mtp 3 (acceptance forced to 0.5)"]


def test_a_file_without_preamble(tmp_path: Path) -> None:
    plain = RunSeries(read_run(write_run(tmp_path / "a.csv", [token()])))
    rows = [token(mtp_batch=2, drafted=2, accepted=1), free()]
    drafted = RunSeries(read_run(write_run(tmp_path / "b.csv", rows)))
    assert run_labels([plain, drafted]) == ["spec off", "drafted"]


def test_settings_of_one_run(tmp_path: Path) -> None:
    (run,) = runs(
        tmp_path,
        {"spec": "mtp", "spec_draft_max": 2, "cache_mb": "64.000", "threads": 8, "prefetch": 0,
         "drop_cold_frac": "0.7500", "overlap": 1, "temp": "0.0000"},
    )  # fmt: skip
    assert settings_line(run) == "mtp 2 · cache 64 MiB · drop 0.75 · 8 threads · overlap on"
