"""What a campaign leaves for its readers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from moestream.bench.markdown import table
from moestream.bench.measure import measure
from moestream.bench.plots import plot_campaign
from moestream.bench.report import markdown, read_results, write_report
from moestream.bench.result import CampaignResult, RunResult
from moestream.bench.table import PARTS, rows_of
from moestream.engine.events import GenerationSummary, SpeculationSummary
from moestream.errors import ConfigError
from tests.bench.simulated import entry, result, rounds, run
from tests.telemetry.helpers import SUMMARY, report

OFF = (10.0, 10.2, 9.9, 10.1)
#: Fields of the field, as it names them.
COLUMNS = (
    "tok/s", "MiB/token", "hit %", "majflt/token", "cpu-s/token", "accepted %", "tokens/verify",
    "drafted steps",
)  # fmt: skip


def full(tok_s: float, *, drafting: bool, cache: float = 100.0) -> dict[str, float | None]:
    """Every metric."""
    values: dict[str, float | None] = {
        "tok_s": tok_s,
        "decode_tok_s": tok_s * 1.1,
        "prefill_tok_s": 30.0,
        "load_s": 1.5,
        "mib_per_token": 12.5 * 100 / (cache + 1),
        "hit_pct": min(cache / 2, 100.0),
        "majflt_per_token": 0.5,
        "cpu_s_per_token": 0.25,
        "compute_ms": 600 / tok_s,
        "stall_ms": 300 / tok_s,
        "draft_ms": 60 / tok_s if drafting else 0.0,
        "other_ms": 40 / tok_s,
        "cache_mib": cache,
        "generated_tokens": 16.0,
    }
    if drafting:
        values |= {
            "acceptance_pct": 60.0, "tokens_per_verify": 2.2, "drafted_steps": 7.0,
            "coverage_pct": 90.0, "draft_read_pct": 4.0,
        }  # fmt: skip
    return values


def of(cell: str, rates: Sequence[float], *, cache: float = 100.0) -> list[RunResult]:
    """A run a round with everything measured."""
    drafting = cell.startswith(("mtp", "ngram", "synth"))
    at = ((9, 6, 3), (8, 4, 1)) if drafting else ((), ())
    return [
        replace(
            made,
            metrics=full(rate, drafting=drafting, cache=cache),
            offered_at=at[0],
            accepted_at=at[1],
            csv="raw/x.csv",
            peak_bytes=2**30,
        )
        for made, rate in zip(rounds(cell, rates), rates, strict=True)
    ]


def campaign() -> CampaignResult:
    runs = [
        *of("off", OFF),
        *of("off", [rate * 1.01 for rate in OFF]),
        *of("mtp:1", [rate * 1.5 for rate in OFF]),
        *of("mtp:2", [rate * 1.3 for rate in OFF]),
        *of("cache=0", [rate * 0.5 for rate in OFF], cache=0.0),
        *of("cache=50", [rate * 0.8 for rate in OFF], cache=50.0),
        *of("same", OFF),
        run("plain", 0, None, failure="killed by the kernel: it needed | more\nmemory"),
        run("plain", 1, None, failure="killed"),
    ]
    cells = "off,mtp:1-2,cache=0/50,same,plain"
    numbered = [replace(made, order=i) for i, made in enumerate(runs)]
    return result(cells, numbered, regime=4 * 2**30)


def test_the_report_has_the_fields_columns_and_the_floor() -> None:
    text = markdown(campaign(), ["speed.png"])
    lines = text.splitlines()
    header = next(line for line in lines if line.startswith("| cell"))
    assert all(f"| {column} " in header for column in COLUMNS)
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    assert "faster by" in next(line for line in lines if line.startswith("| mtp:1 | 15."))
    for line in lines:
        if "faster by" in line or "slower by" in line:
            assert "noise floor" in line
    same = next(line for line in lines if line.startswith("| same | 10."))
    assert re.search(r"no difference above the [0-9.]+ % floor", same)
    assert "failed: killed by the kernel: it needed \\| more memory" in text
    assert "plain: 2 of 2 runs failed" in text
    assert "Runs of `off`: 8, rounds: 4;" in text
    assert "4.00 GiB" in text
    assert "![speed](speed.png)" in text
    assert len(rows) > 6


def test_every_row_of_a_table_is_as_wide_as_its_header() -> None:
    for block in markdown(campaign()).split("\n\n"):
        if block.startswith("| "):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(widths) == 1, block


def test_parts_sum_to_a_tokens_time() -> None:
    for row in rows_of(campaign(), "prose"):
        parts = [row.mean(part) for part in PARTS]
        if None not in parts:
            assert sum(part or 0.0 for part in parts) > 0


def test_results_are_read_back(tmp_path: Path) -> None:
    made = campaign()
    text, notes = write_report(tmp_path, made)
    assert notes == ()
    assert (tmp_path / "report.md").read_text() == text
    assert read_results(tmp_path) == read_results(tmp_path / "results.json") == made
    for name in re.findall(r"!\[\w+\]\((\S+)\)", text):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".md", ".json"}


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"{}", b"[1]", b"[" * 5000])
def test_what_are_no_results(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "results.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"results\.json"):
        read_results(tmp_path)


def test_every_picture_is_drawn(tmp_path: Path) -> None:
    names = plot_campaign(campaign(), tmp_path)
    assert names == ("speed.png", "time.png", "acceptance.png", "width.png", "cache.png")
    assert all((tmp_path / name).stat().st_size > 12_000 for name in names)


def synthetic() -> CampaignResult:
    cells = "off,synth:0.2/0.8@draft=1,synth:0.2/0.8@draft=3"
    speeds = {"off": 1.0, "synth:0.2@draft=1": 0.9, "synth:0.8@draft=1": 1.2,
              "synth:0.2@draft=3": 0.6, "synth:0.8@draft=3": 0.9}  # fmt: skip
    runs = [made for name, speed in speeds.items() for made in of(name, [r * speed for r in OFF])]
    return result(cells, runs + of("off", OFF))


def test_the_map(tmp_path: Path) -> None:
    text = markdown(synthetic())
    assert "## Map" in text
    line = next(line for line in text.splitlines() if line.startswith("| break-even"))
    assert "pays from an acceptance of 0." in line
    assert "does not pay up to 0.8" in line
    assert "map.png" in plot_campaign(synthetic(), tmp_path)
    assert "## Map" not in markdown(campaign())


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [run("off", 0, None)],
        [run("off", 0, 10.0)],
        [run("off", 0, 1e-9), run("same", 0, 1e12)],
        rounds("off", OFF),
        [run("off", 0, 10.0, metrics={"tok_s": None})],
        [run("off", 0, 10.0, metrics={"tok_s": 0.0, "compute_ms": 0.0})],
        [run("off", 0, 10.0, entry=None)],
        [run("off", 0, 10.0, entry=entry(load_1m=None, gate_expired=True, cpu_temp_c=50.0))],
    ],
)
def test_little_or_nothing(tmp_path: Path, runs: list[RunResult]) -> None:
    made = result("off,same", runs)
    text, _ = write_report(tmp_path, made)
    assert text.startswith("# trial")
    assert "nan" not in text.split("## How to read")[0].lower()
    json.loads((tmp_path / "results.json").read_text())


def test_without_matplotlib_the_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text, notes = write_report(tmp_path, campaign())
    assert "pip install" in notes[0]
    assert "![" not in text
    assert (tmp_path / "results.json").exists()


def test_a_table_cannot_be_broken_by_what_stands_in_it() -> None:
    text = table(["a", "b"], [["x|y\nz", "1.5"], ["-", "2"]])
    assert text.splitlines() == ["| a | b |", "| --- | ---: |", "| x\\|y z | 1.5 |", "| - | 2 |"]


def drafted(**changes: object) -> SpeculationSummary:
    values: dict[str, object] = {
        "source": "mtp", "width": 2, "steps": 6, "drafted_steps": 4, "drafted": 8, "accepted": 4,
        "draft_s": 0.1, "draft_read_bytes": 10 * 2**20, "offered_at": (4, 3),
        "accepted_at": (3, 1), "synthetic": False, **changes,
    }  # fmt: skip
    return SpeculationSummary(**values)  # type: ignore[arg-type]


def generation(**changes: object) -> GenerationSummary:
    return replace(SUMMARY, **{"wall_s": 1.6, "decodes": 6, **changes})  # type: ignore[arg-type]


def test_metrics_are_of_sums() -> None:
    one = generation(speculation=drafted())
    two = replace(one, decode_s=6.0, wall_s=5.0)
    found = measure([one, two], report())
    metrics = found.metrics
    assert metrics["tok_s"] == pytest.approx(20 / 8.0)
    assert metrics["decode_tok_s"] == pytest.approx(20 / 6.6)
    assert metrics["mib_per_token"] == pytest.approx(10.0)
    assert metrics["hit_pct"] == pytest.approx(90.0)
    assert metrics["acceptance_pct"] == pytest.approx(50.0)
    assert metrics["tokens_per_verify"] == pytest.approx(2.0)
    assert metrics["coverage_pct"] == pytest.approx(100 * 8 / 12)
    assert metrics["draft_read_pct"] == pytest.approx(10.0)
    assert metrics["draft_ms"] == pytest.approx(1e3 * 0.2 / 20)
    assert found.offered_at == (8, 6)
    assert found.accepted_at == (6, 2)
    assert sum(metrics[part] or 0.0 for part in PARTS) == pytest.approx(1e3 * 8.0 / 20)


def test_parts_never_sum_to_more_than_a_token_took() -> None:
    """A head that reads the prompt drafts before the first token: that is not in decode_s."""
    early = generation(speculation=drafted(draft_s=50.0), stall_s=9.0)
    metrics = measure([early], report()).metrics
    assert sum(metrics[part] or 0.0 for part in PARTS) == pytest.approx(1e3 * 2.0 / 10)
    assert all((metrics[part] or 0.0) >= 0 for part in PARTS)


def test_what_was_not_measured_is_none() -> None:
    alone = generation(generated_tokens=1, decode_s=0.0, cpu_s=None)
    metrics = measure([replace(alone, wall_s=0.0)], report(streamed=False)).metrics
    assert metrics["tok_s"] is None
    assert metrics["compute_ms"] is None
    assert metrics["cpu_s_per_token"] is None
    assert "hit_pct" not in metrics
    assert "acceptance_pct" not in metrics
