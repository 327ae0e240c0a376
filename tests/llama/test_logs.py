from __future__ import annotations

import logging

import pytest

from moestream.llama.context import parse_buffer_sizes
from moestream.llama.logs import LogBuffer


def test_a_complaint_is_the_last_errors_after_the_mark() -> None:
    log = LogBuffer()
    log.append(4, "old error\n")
    mark = log.mark()
    log.append(2, "just talking\n")
    log.append(3, "a warning\n")
    log.append(4, "first\n")
    log.append(4, "second\n")
    log.append(4, "second\n")
    assert log.complaint(mark) == "first; second"


def test_warnings_are_quoted_where_there_is_no_error() -> None:
    log = LogBuffer()
    log.append(3, "a warning\n")
    assert log.complaint(0) == "a warning"
    assert LogBuffer().complaint(0) == ""


def test_the_buffer_is_bounded_and_drops_progress_dots() -> None:
    log = LogBuffer(capacity=10)
    for number in range(100):
        log.append(2, f"line {number}")
        log.append(5, ".")
    lines = log.since(0)
    assert [line.text for line in lines] == [f"line {number}" for number in range(90, 100)]


def test_long_lines_are_cut() -> None:
    log = LogBuffer()
    log.append(4, "x" * 10_000)
    assert len(log.since(0)[0].text) == 1000


def test_lines_go_to_logging_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="moestream.llama"):
        LogBuffer().append(2, "hello\n")
    assert caplog.messages == ["hello"]


def test_buffer_sizes_are_summed_by_kind() -> None:
    log = LogBuffer()
    log.append(2, "llama_kv_cache:        CPU KV buffer size =     8.00 MiB\n")
    log.append(2, "llama_kv_cache:        CPU KV buffer size =     1.50 MiB\n")
    log.append(2, "llama_memory_recurrent:        CPU RS buffer size =    62.81 MiB\n")
    log.append(2, "sched_reserve:        CPU compute buffer size =   301.75 MiB\n")
    log.append(2, "llama_context:        CPU  output buffer size =     0.95 MiB\n")
    sizes = parse_buffer_sizes(log.since(0))
    assert sizes.kv == int(9.5 * 2**20)
    assert sizes.recurrent == round(62.81 * 2**20)
    assert sizes.compute == round(301.75 * 2**20)
    assert sizes.output == round(0.95 * 2**20)
    assert sizes.known


def test_without_such_lines_the_sizes_are_unknown() -> None:
    assert not parse_buffer_sizes([]).known
