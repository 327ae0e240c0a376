"""Cells as text, as changes of a configuration, and as JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moestream import EngineConfig, SpeculationConfig, StreamingConfig
from moestream.bench.cell_grammar import parse_cells
from moestream.bench.cells import Cell, command_cells
from moestream.errors import ConfigError


def names(text: str) -> list[str]:
    return [cell.name for cell in parse_cells(text)]


def one(text: str) -> Cell:
    (cell,) = parse_cells(text)
    return cell


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("off", ["off"]),
        ("off , same", ["off", "same"]),
        ("mtp:1-4", ["mtp:1", "mtp:2", "mtp:3", "mtp:4"]),
        ("mtp", ["mtp:3"]),
        ("ngram:3@min=3/5/8", ["ngram:3@min=3", "ngram:3@min=5", "ngram:3@min=8"]),
        ("cache=0/auto/2000", ["cache=0", "cache=auto", "cache=2000"]),
        ("drop=0.50/.75/1", ["drop=0.5", "drop=0.75", "drop=1"]),
        ("lanes=01", ["lanes=1"]),
        ("serial,plain", ["serial", "plain"]),
        ("serial@lanes=1", ["serial@lanes=1"]),
        ("synth:0.4/0.8@draft=3", ["synth:0.4@draft=3", "synth:0.8@draft=3"]),
        ("lanes=1/2@cache=5/6", ["lanes=1@cache=5", "lanes=1@cache=6",
                                 "lanes=2@cache=5", "lanes=2@cache=6"]),
        ("lanes=1-2/8", ["lanes=1", "lanes=2", "lanes=8"]),
        (" mtp : 2 @ cache = 9 ", ["mtp:2@cache=9"]),
    ],
)  # fmt: skip
def test_names(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_what_cells_change() -> None:
    base = EngineConfig(threads=2, streaming=StreamingConfig(io_threads=4))
    assert one("off").apply(base) == base
    assert one("same").apply(base) == base
    assert one("serial").apply(base).streaming.overlap is False
    assert one("cache=0").apply(base).streaming.cache_mb == 0
    assert one("cache=0").apply(base).streaming.io_threads == 4
    assert one("topk=4@threads=3").apply(base).n_expert_used == 4
    assert one("topk=4@threads=3").apply(base).threads == 3
    assert one("direct=off").apply(base).streaming.o_direct is False
    assert one("stream=off").apply(base).streaming.moe_stream is False
    assert one("mtp:2@p=0.5").apply(base).speculation == SpeculationConfig(
        source="mtp", draft=2, mtp_p_min=0.5
    )
    assert one("ngram:8@min=5@max=9").apply(base).speculation == SpeculationConfig(
        source="ngram", draft=8, ngram_min_match=5, ngram_max_match=9
    )
    assert one("synth:0.4@draft=3@source=mtp").apply(base).speculation == SpeculationConfig(
        source="mtp", draft=3, synthetic_acceptance=0.4
    )
    assert one("plain").kind == "plain"


def test_a_drafting_cell_forgets_how_the_base_drafts() -> None:
    base = EngineConfig(speculation=SpeculationConfig(source="mtp", mtp_p_min=0.5))
    assert one("ngram:2").apply(base).speculation == SpeculationConfig(source="ngram", draft=2)
    assert one("lanes=1").apply(base).speculation == base.speculation


def test_a_fixed_cache_forgets_the_bases_ceiling() -> None:
    base = EngineConfig(streaming=StreamingConfig(cache_ceil_mb=500))
    assert one("cache=100").apply(base).streaming.cache_ceil_mb is None
    assert one("lanes=1").apply(base).streaming.cache_ceil_mb == 500
    assert one("cache=auto@ceil=70").apply(base).streaming.cache_ceil_mb == 70


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", 1, "a cell is missing"),
        ("off,", 5, "a cell is missing"),
        ("off,mpt:1", 5, "did you mean 'mtp'"),
        ("off,mtp:9", 5, "1..8"),
        ("mtp:4-1", 5, "no range"),
        ("mtp:1-4-5", 5, "not a whole number"),
        ("off, lanes=1-999", 12, "no range"),
        ("cache", 1, "write cache=VALUE"),
        ("cache=", 1, "no value"),
        ("cache=x", 7, "a size in MiB or auto"),
        ("cache=1//2", 9, "'' is not"),
        ("cahce=1", 1, "did you mean 'cache'"),
        ("lanes=1@lanes=2", 9, "set twice"),
        ("off,off", 5, "stands there twice"),
        ("mtp:2/2", 1, "stands there twice"),
        ("off@threads=2", 5, "takes no settings"),
        ("off:3", 5, "takes no value"),
        ("plain@cache=1", 7, "no setting 'cache' here"),
        ("serial@overlap=on", 8, "no setting 'overlap' here"),
        ("min=3", 1, "a setting of ngram only"),
        ("mtp:2@min=3", 7, "a setting of ngram only"),
        ("synth", 1, "write synth:VALUE"),
        ("mtp:", 1, "write mtp:VALUE"),
        ("synth:1.5", 1, "0..1"),
        ("synth:nan", 7, "not a number"),
        ("drop=1e999", 6, "not a number"),
        ("prefetch=1@cache=0", 1, "needs a cache"),
        ("overlap=yes", 9, "on or off"),
        ("dense=disk", 7, "mmap or warm or anon"),
        ("threads=1-100@lanes=1-9", 1, "more than 256 cells"),
        ("lanes=" + "9" * 40, 7, "whole number"),
        ("lanes=²", 7, "whole number"),
        ("mtp:1@", 7, "no setting ''"),
    ],
)  # fmt: skip
def test_wrong_text_is_refused_where_it_is_wrong(text: str, at: int, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_cells(text)
    assert says in str(caught.value)
    assert f"at character {at} of {text!r}" in str(caught.value)


@given(st.text(alphabet="ofmtpngras ynhcel=:@/,-.0123456789auto²\t", max_size=30))
def test_any_text_makes_cells_or_a_config_error(text: str) -> None:
    try:
        cells = parse_cells(text)
    except ConfigError:
        return
    again = parse_cells(",".join(cell.name for cell in cells))
    assert again == cells


def test_a_cell_survives_json() -> None:
    cells = parse_cells("off,mtp:2@p=0.5,cache=auto,serial,plain")
    cells += command_cells(["other=run it"], [r"([0-9.]+) tok"])
    for cell in cells:
        assert Cell.from_json(cell.to_json()) == cell


@pytest.mark.parametrize(
    "change",
    [
        {"name": 3},
        {"name": ""},
        {"name": "two\nlines"},
        {"kind": "gpu"},
        {"kind": "command"},
        {"overrides": []},
        {"overrides": {"threads": [1]}},
        {"command": "run"},
        {"regex": 3},
    ],
)
def test_a_damaged_cell_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Cell.from_json(one("lanes=2").to_json() | change)
    with pytest.raises(ConfigError):
        Cell.from_json([])


@pytest.mark.parametrize("key", ["nothing", "streaming.nothing", "streaming", "a.b", "streaming."])
def test_an_unknown_setting_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="there is no setting"):
        Cell("x", {key: 1}).apply(EngineConfig())


def test_commands() -> None:
    (cell,) = command_cells(["llama=llama-cli -p 'a b=c'"], [r"(?P<tok_s>[0-9.]+) t/s"])
    assert (cell.name, cell.command, cell.kind) == ("llama", "llama-cli -p 'a b=c'", "command")
    assert [c.regex for c in command_cells(["a=x", "b=y"], ["(1)"])] == ["(1)", "(1)"]
    assert [c.regex for c in command_cells(["a=x", "b=y"], ["(1)", "(2)"])] == ["(1)", "(2)"]
    assert command_cells([], []) == ()


@pytest.mark.parametrize(
    ("commands", "regexes", "says"),
    [
        (["a=x"], [], "one --cell-cmd-regex"),
        (["a=x"], ["(1)", "(2)"], "got 2"),
        ([], ["(1)"], "no effect"),
        (["run"], ["(1)"], "NAME=COMMAND"),
        (["=run"], ["(1)"], "NAME=COMMAND"),
        (["a="], ["(1)"], "no command"),
        (["a='x"], ["(1)"], "quotation"),
        (["a=x"], ["("], "no regular expression"),
        (["a=x"], ["1"], "no group"),
    ],
)
def test_wrong_commands(commands: list[str], regexes: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        command_cells(commands, regexes)
