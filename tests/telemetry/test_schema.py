"""The schema is the one place: header, records, documentation and glossary follow it."""

from __future__ import annotations

import json
import math
import runpy
from dataclasses import fields
from pathlib import Path

import pytest

from moestream.telemetry.column import Column
from moestream.telemetry.preamble import preamble_values
from moestream.telemetry.record import TokenRecord
from moestream.telemetry.schema import (
    DONE_KEYS,
    PREAMBLE_KEYS,
    TOKEN_COLUMNS,
    csv_header,
    glossary,
    plain_values,
)
from moestream.telemetry.totals import Totals
from tests.telemetry.helpers import SUMMARY, drafting, report, session_info

DOCS = Path(__file__).parents[2] / "docs"

TABLES = (TOKEN_COLUMNS, PREAMBLE_KEYS, DONE_KEYS)

FIRST = "step,steps,wall_ms,io_ms,compute_ms,read_bytes,cache_hit_pct"
MORE = (
    "stall_ms, mgmt_ms, majflt, cpu_ms, dense_resident_frac, turn, majflt_mib, cache_budget_mib, "
    "rss_mib, rss_anon_mib, rss_file_mib, swap_mib, mem_available_mib, mem_free_mib, "
    "swap_free_mib, loop_overhead_ms, mtp_batch, mtp_draft_ms"
)
PREAMBLE = (
    "model, arch, n_layer, n_expert, n_expert_used, threads, n_ctx, n_ubatch, moe_stream, "
    "cache_mb, cache_auto, cache_ceil_mb, io_threads, o_direct, overlap, prefetch, dense_weights, "
    "drop_cold_frac, temp, top_k, top_p, seed, spec, spec_draft_max, mtp_p_min, ngram_min_match"
)
DONE = "mtp_drafted, mtp_accepted, mtp_decodes, drafted_steps, mtp_draft_s/tok, loop_overhead_s/tok"


def names(table: tuple[Column, ...]) -> list[str]:
    return [column.name for column in table]


def test_the_columns_that_others_rely_on() -> None:
    assert csv_header().startswith(FIRST + ",")
    assert names(TOKEN_COLUMNS)[7:25] == MORE.split(", ")
    assert set(PREAMBLE.split(", ")) <= set(names(PREAMBLE_KEYS))
    assert set(DONE.split(", ")) <= set(names(DONE_KEYS))
    in_json = plain_values(DONE_KEYS, {})
    assert {"mtp_draft_s_tok", "loop_overhead_s_tok"} <= set(in_json)
    assert not any("/" in name for name in in_json)


def test_a_record_has_every_column_in_order() -> None:
    assert [field.name for field in fields(TokenRecord)] == names(TOKEN_COLUMNS)


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_explained(table: tuple[Column, ...]) -> None:
    assert len(set(names(table))) == len(table)
    for column in table:
        assert column.meaning.endswith("."), column.name
        assert column.name.replace("/", "_").isidentifier()
        assert (column.form == "float") == (column.digits > 0), column.name


def test_no_value_goes_by_a_name_that_the_schema_lacks() -> None:
    assert set(preamble_values(session_info())) <= set(names(PREAMBLE_KEYS))
    totals = Totals()
    totals.add(SUMMARY, mgmt_s=0.0)
    assert set(totals.values(report())) <= set(names(DONE_KEYS))


def test_every_key_gets_a_value_somewhere() -> None:
    totals = Totals()
    totals.add(SUMMARY, mgmt_s=0.0)
    speculated = Totals()
    speculated.speculation.add(drafting())
    speculated.decodes = 1
    by_turn = {"turn", "temp", "top_k", "top_p", "seed"}  # the recorder adds them
    given = set(totals.values(report())) | set(speculated.values(report())) | by_turn
    assert given == set(names(DONE_KEYS))


def test_the_page_is_up_to_date() -> None:
    page = runpy.run_path(str(DOCS / "generate_telemetry.py"))["render"]()
    assert (DOCS / "telemetry.md").read_text(encoding="utf-8") == page, (
        "run docs/generate_telemetry.py"
    )


def test_the_glossary_knows_every_name_and_one_unit_for_it() -> None:
    entries = glossary()
    assert set(entries) == {column.name for table in TABLES for column in table}
    for entry in entries.values():
        assert {column.unit for column in entry.where.values()} == {entry.unit}
        assert entry.meaning
    assert entries["mtp_draft_s/tok"].json_name == "mtp_draft_s_tok"
    assert set(entries["turn"].where) == {"token", "done"}


@pytest.mark.parametrize(
    ("form", "value", "text", "plain"),
    [
        ("int", 3, "3", 3),
        ("int", None, "", None),
        ("float", 1.23456, "1.235", 1.235),
        ("float", 2, "2.000", 2.0),
        ("float", math.nan, "", None),
        ("float", math.inf, "", None),
        ("flag", True, "1", True),
        ("flag", False, "0", False),
        ("counts", (3, 2, 0), "3:2:0", [3, 2, 0]),
        ("text", "a\nb\x1b spec=mtp", "a b spec mtp", "a\nb\x1b spec=mtp"),
    ],
)
def test_values(form: str, value: object, text: str, plain: object) -> None:
    column = Column("x", "", "X.", "", form, 3)  # type: ignore[arg-type]
    assert column.text(value) == text  # type: ignore[arg-type]
    assert column.plain(value) == plain  # type: ignore[arg-type]
    json.dumps(column.plain(value), allow_nan=False)  # type: ignore[arg-type]
