"""Streaming under trouble: cancels, read errors, files that shrink, many turns, two sessions."""

from __future__ import annotations

import os
import random
import shutil
import threading
from pathlib import Path

import psutil
import pytest

from moestream import Session, StreamingConfig, StreamReadError
from moestream.config import DenseWeights
from tests.conftest import ModelMaker
from tests.engine.helpers import RESIDENT, assert_same_bits, open_session, record, tokens_of
from tests.identity.matrix import Cell, bound_the_cache, conversation

PROMPT = [20, 21, 22, 23, 24, 25]
LONG = [(5 * i) % 400 + 30 for i in range(90)]
OVERLAP = pytest.mark.parametrize("overlap", [False, True])


@pytest.fixture(scope="module", params=["qwen3moe", "qwen35moe"])
def path(request: pytest.FixtureRequest, tiny: ModelMaker) -> Path:
    return tiny(request.param)


def tight(monkeypatch: pytest.MonkeyPatch, *, overlap: bool) -> StreamingConfig:
    """A cache of one layer: whatever goes wrong meets reads and evictions."""
    cell = Cell("one layer", overlap, 0, 2, "anon", 1)
    bound_the_cache(monkeypatch, cell)
    return cell.streaming()


@OVERLAP
def test_cancels_at_random_moments_never_spoil_what_follows(
    path: Path, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(7)
    with open_session(path) as resident:
        expected = record(resident, PROMPT, 6)
    with open_session(path, tight(monkeypatch, overlap=overlap)) as session:
        cancelled = 0
        for _ in range(25):
            generation = session.generate(LONG[: rng.randrange(1, 90)])
            timer = threading.Timer(rng.random() * 0.05, session.cancel)
            timer.start()
            events = list(generation)
            timer.join()
            cancelled += events[-1].finish_reason == "cancelled"
            assert len(session._opened.loop.history) == session._opened.context.last_position() + 1
            assert_same_bits(record(session, PROMPT, 6), expected)
        assert cancelled > 0
        assert session._opened.source.store.counters()["guard_loads"] == 0


@OVERLAP
def test_a_read_error_ends_the_generation_and_not_the_session(
    path: Path, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(3)
    with open_session(path) as resident:
        expected = record(resident, PROMPT, 6)
        whole = [int(row.argmax()) for _, row in record(resident, LONG, 20)]
    with open_session(path, tight(monkeypatch, overlap=overlap)) as session:
        store = session._opened.source.store
        for _ in range(12):
            store.inject_read_error(after_reads=rng.randrange(0, 600))
            emitted: list[int] = []
            try:
                for event in session.generate(LONG, max_tokens=20):
                    assert event.token_id is not None
                    emitted.append(event.token_id)
            except StreamReadError as err:
                message = str(err)
                assert "could not be read" in message
                assert path.name in message
                assert session.last_summary is not None
                assert session.last_summary.finish_reason is None
                assert len(session._opened.loop.history) == 0
            # Whatever came out before the error was right.
            assert emitted == whole[: len(emitted)]
            store.inject_read_error(after_reads=-1)
            session.reset()
            assert_same_bits(record(session, PROMPT, 6), expected)


def test_every_read_can_be_the_one_that_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_session(path, tight(monkeypatch, overlap=True)) as session:
        store = session._opened.source.store
        for after in range(0, 40, 3):
            store.inject_read_error(after_reads=after)
            with pytest.raises(StreamReadError):
                session.generate(PROMPT, max_tokens=100).text()
        store.inject_read_error(after_reads=-1)
        assert list(session.generate(PROMPT, max_tokens=4))


@pytest.mark.parametrize("dense", ["mmap", "warm"])
def test_mapped_dense_weights_that_vanish_are_an_error_and_no_crash(
    path: Path, dense: DenseWeights, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.gguf"
    shutil.copy(path, copy)
    with open_session(copy, StreamingConfig(dense_weights=dense)) as session:
        generation = session.generate(PROMPT)
        next(generation)
        os.truncate(copy, 4096)
        with pytest.raises(StreamReadError, match=r"became shorter|was changed|truncated"):
            list(generation)


@OVERLAP
def test_a_file_truncated_in_the_middle_of_a_generation_is_an_error(
    path: Path, overlap: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    with open_session(path) as resident:
        right = [int(row.argmax()) for _, row in record(resident, PROMPT, 30)]
    with open_session(copy, tight(monkeypatch, overlap=overlap)) as session:
        emitted: list[int] = []

        def run() -> None:
            for event in session.generate(PROMPT, max_tokens=200):
                assert event.token_id is not None
                emitted.append(event.token_id)
                if len(emitted) == 3:
                    os.truncate(copy, 100_000)

        with pytest.raises(StreamReadError, match="could not be read"):
            run()
        assert emitted == right[: len(emitted)]
        with pytest.raises(StreamReadError, match="changed on disk"):
            session.generate(PROMPT)


def test_a_file_changed_between_two_turns_is_an_error(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    with open_session(copy, StreamingConfig()) as session:
        assert list(session.generate(PROMPT, max_tokens=2))
        os.utime(copy, ns=(1, 1))
        with pytest.raises(StreamReadError, match="changed on disk"):
            session.generate(PROMPT)


def test_a_file_deleted_under_a_session_streams_on(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    with open_session(path) as resident:
        expected = conversation(resident)
    with open_session(copy, tight(monkeypatch, overlap=True)) as session:
        copy.unlink()
        assert_same_bits(conversation(session), expected)


@OVERLAP
def test_thirty_turns_keep_their_memory_and_their_bits(
    path: Path, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = psutil.Process()
    rng = random.Random(1)
    turns = [[rng.randrange(20, 500) for _ in range(rng.randrange(1, 40))] for _ in range(30)]
    rss: list[int] = []
    with (
        open_session(path, tight(monkeypatch, overlap=overlap)) as session,
        open_session(path, RESIDENT) as resident,
    ):
        history: list[int] = []
        for turn in turns:
            if len(history) + len(turn) > 200:
                history = []
            history += turn
            rows = record(session, history, 5)
            assert_same_bits(rows, record(resident, history, 5))
            history += [int(row.argmax()) for _, row in rows][:-1]
            rss.append(process.memory_info().rss)
        counters = session._opened.source.store.counters()
        assert counters["pool_bytes"] <= session.info.cache_bytes
        assert counters["guard_loads"] == 0
    # Flat once the first turns have touched what there is to touch.
    assert rss[-1] - rss[9] < 4 * 2**20


def test_opening_again_and_again_keeps_its_memory(path: Path) -> None:
    process = psutil.Process()
    rss: list[int] = []
    for _ in range(20):
        with open_session(path, StreamingConfig()) as session:
            list(session.generate(PROMPT, max_tokens=3))
        rss.append(process.memory_info().rss)
    assert rss[-1] - rss[9] < 6 * 2**20


def test_two_streamed_sessions_in_one_process(
    tiny: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in a thread of its own, both with constant eviction."""
    streaming = tight(monkeypatch, overlap=True)
    paths = [tiny("qwen35moe"), tiny("gpt-oss")]
    expected = []
    for each in paths:
        with open_session(each) as resident:
            expected.append(conversation(resident))
    failures: list[BaseException] = []

    def work(session: Session, number: int) -> None:
        try:
            for _ in range(3):
                session.reset()
                assert_same_bits(conversation(session), expected[number])
        except BaseException as err:
            failures.append(err)

    with open_session(paths[0], streaming) as a, open_session(paths[1], streaming) as b:
        threads = [
            threading.Thread(target=work, args=(session, number))
            for number, session in enumerate((a, b))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures, failures


def test_two_sessions_on_the_same_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streaming = tight(monkeypatch, overlap=True)
    with open_session(path, streaming) as a, open_session(path, streaming) as b:
        assert_same_bits(conversation(a), conversation(b))
        a.close()
        assert list(b.generate(PROMPT, max_tokens=3))


@OVERLAP
def test_closing_with_reads_in_flight(
    path: Path, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(2)
    streaming = tight(monkeypatch, overlap=overlap)
    for _ in range(8):
        session = open_session(path, streaming)
        generation = session.generate(LONG)
        timer = threading.Timer(rng.random() * 0.03, session.close)
        timer.start()
        events = list(generation)
        timer.join()
        assert session.closed
        assert not events or events[-1].finish_reason in (None, "cancelled", "length", "stop")


def test_an_abandoned_streamed_generation_is_harmless(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_session(path) as resident:
        expected = record(resident, PROMPT, 6)
    with open_session(path, tight(monkeypatch, overlap=True)) as session:
        for event in session.generate(LONG, max_tokens=20):
            if event.index == 3:
                break
        assert_same_bits(record(session, PROMPT, 6), expected)


def test_a_chat_over_streamed_experts_equals_a_resident_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[list[list[int]]] = []
    for streaming in (RESIDENT, tight(monkeypatch, overlap=True)):
        with open_session(path, streaming, n_ctx=512) as session:
            messages = []
            said: list[list[int]] = []
            for question in ("hello", "and then?", "why?"):
                messages.append({"role": "user", "content": question})
                events = list(session.chat(messages, max_tokens=8))
                said.append(tokens_of(events))
                text = "".join(event.text for event in events)
                messages.append({"role": "assistant", "content": text})
            answers.append(said)
    assert answers[0] == answers[1]
