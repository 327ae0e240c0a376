"""Plain speed by llama-bench's conventions."""

from __future__ import annotations

import csv
import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from moestream.bench.plain_speed import (
    Facts,
    Speed,
    counts,
    measure_speed,
    render,
    speeds,
)
from moestream.config import EngineConfig
from moestream.errors import ConfigError, GenerationError
from tests.conftest import ModelMaker

LOAD = {
    "threads": 2, "n_ubatch": 64, "moe_stream": True, "cache_bytes": 3 * 2**30, "io_threads": 4,
    "overlap": True,
}  # fmt: skip
FACTS = Facts(file="m.gguf", kind="a|b", size=5 * 2**30, parameters=7_500_000_000)


def speed(n_prompt: int, n_gen: int, *seconds: float, **load: Any) -> Speed:
    return Speed(
        backend="moestream", n_prompt=n_prompt, n_gen=n_gen, seconds=seconds, load={**LOAD, **load},
        time="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


TESTS = [speed(512, 0, 4.0, 8.0), speed(0, 128, 64.0), speed(0, 16, 1.0, moe_stream=False)]


def test_the_table() -> None:
    lines = render("md", TESTS, FACTS).splitlines()
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert cells[0] == ["model", "size", "params", "backend", "threads", "cache", "test", "t/s"]
    assert cells[2][1:] == [
        "5.00 GiB", "7.50 B", "moestream", "2", "3072 MiB", "pp512", "96.00 ± 45.25",
    ]  # fmt: skip
    assert cells[3][-2:] == ["tg128", "2.00 ± 0.00"]
    assert cells[4][5] == ""
    assert len({len(line) for line in lines}) == 1


def test_csv_and_json_have_llama_bench_names() -> None:
    rows = list(csv.DictReader(render("csv", TESTS, FACTS).splitlines()))
    objects = json.loads(render("json", TESTS, FACTS))
    assert [row["n_prompt"] for row in rows] == ["512", "0", "0"]
    assert [row["n_gen"] for row in rows] == ["0", "128", "16"]
    assert {"model_filename", "model_size", "n_threads", "avg_ns", "stddev_ns", "test_time"} <= set(
        rows[0]
    )
    first = objects[0]
    assert first["avg_ts"] == pytest.approx(96.0)
    assert first["stddev_ts"] == pytest.approx(statistics.stdev([128.0, 64.0]))
    assert first["samples_ns"] == [4_000_000_000, 8_000_000_000]
    assert float(rows[0]["avg_ts"]) == first["avg_ts"]
    assert rows[2]["cache_mib"] == ""
    assert objects[2]["cache_mib"] is None


def test_counts() -> None:
    assert counts("512", "-p") == (512,)
    assert counts("128, 512,128", "-p") == (128, 512)
    assert counts("0", "-p") == ()
    for text in ("", "a", "-5", "1.5", "1,,2"):
        with pytest.raises(ConfigError, match="--n-gen"):
            counts(text, "--n-gen")


@pytest.mark.parametrize("backend", ["moestream", "llama.cpp"])
def test_a_measurement(tiny: ModelMaker, backend: str) -> None:
    config = EngineConfig(model=tiny("qwen3moe"), threads=1)
    job = {"backend": backend, "n_prompt": [5], "n_gen": [3], "repetitions": 2}
    found = speeds(json.loads(json.dumps(measure_speed(config, job))), backend)
    assert [test.test for test in found] == ["pp5", "tg3"]
    for test in found:
        assert len(test.rates) == 2
        assert all(rate > 0 for rate in test.rates)
        assert test.load["moe_stream"] == (backend == "moestream")
    assert "tg3" in render("md", found, FACTS)


def test_a_model_that_only_ends_is_refused(
    tiny: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moestream.llama.vocab import Vocab

    monkeypatch.setattr(Vocab, "is_eog", lambda _self, _token: True)
    config = EngineConfig(model=Path(tiny("qwen3moe")), threads=1)
    job = {"backend": "llama.cpp", "n_prompt": [], "n_gen": [3], "repetitions": 1}
    with pytest.raises(GenerationError, match="at their first token"):
        measure_speed(config, job)
