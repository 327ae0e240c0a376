"""A resident session: everything but streaming itself."""

from __future__ import annotations

import gc
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from moestream import (
    ConfigError,
    ContextOverflowError,
    EngineConfig,
    MemoryBudgetError,
    ModelError,
    SamplingConfig,
    Session,
    SessionStateError,
    StreamingConfig,
)
from tests.conftest import ModelMaker
from tests.engine.helpers import RESIDENT, assert_same_bits, open_session, record, tokens_of

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module", params=["qwen3moe", "qwen35moe"])
def path(request: pytest.FixtureRequest, tiny: ModelMaker) -> Path:
    return tiny(request.param)


@pytest.fixture
def session(path: Path) -> Iterator[Session]:
    with open_session(path) as opened:
        yield opened


def test_events_tell_the_whole_story(session: Session) -> None:
    events = list(session.generate([3, 4, 5], max_tokens=6))
    assert [event.index for event in events] == list(range(len(events)))
    assert [event.position for event in events] == list(range(3, 3 + len(events)))
    assert [event.finish_reason for event in events[:-1]] == [None] * (len(events) - 1)
    assert events[-1].finish_reason in ("length", "stop")
    assert events[0].metrics.phase == "prefill"
    assert events[0].metrics.rows == 3
    assert events[0].tok_s is None
    assert all(event.metrics.phase == "decode" for event in events[1:])
    assert all(event.metrics.rows == 1 for event in events[1:])
    for event in events:
        metrics = event.metrics
        assert metrics.wall_ms > 0
        assert math.isclose(metrics.wall_ms, metrics.stall_ms + metrics.compute_ms)
        assert metrics.read_bytes == metrics.hits == metrics.misses == 0
        assert metrics.hit_pct is None
    with pytest.raises(FrozenInstanceError):
        events[0].text = "x"  # type: ignore[misc]


def test_the_summary_adds_up(session: Session) -> None:
    assert session.last_summary is None
    events = list(session.generate([3, 4, 5], max_tokens=6))
    summary = session.last_summary
    assert summary is not None
    assert summary.prompt_tokens == 3
    assert summary.reused_tokens == 0
    assert summary.generated_tokens == len(events)
    assert summary.decoded_tokens == len(events) - 1
    assert summary.finish_reason == events[-1].finish_reason
    assert summary.tok_s is not None
    assert summary.prefill_tok_s is not None
    assert summary.hit_pct is None
    assert summary.guard_loads == 0


def test_text_is_what_the_tokens_say(session: Session) -> None:
    events = list(session.generate("hello", max_tokens=20))
    text = "".join(event.text for event in events)
    assert text == session.detokenize(tokens_of(events))


def test_a_generation_is_the_same_every_time(path: Path) -> None:
    with open_session(path) as one, open_session(path) as two:
        assert_same_bits(record(one, "hello world", 12), record(two, "hello world", 12))


def test_a_sampled_generation_follows_its_seed(session: Session) -> None:
    sampling = SamplingConfig(temperature=1.5, seed=11)
    runs = []
    for _ in range(2):
        session.reset()
        runs.append(tokens_of(list(session.generate([1], max_tokens=10, sampling=sampling))))
    assert runs[0] == runs[1]


def test_max_tokens_one_needs_no_decode(session: Session) -> None:
    (event,) = session.generate([5, 6], max_tokens=1)
    assert event.finish_reason in ("length", "stop")
    assert session.last_summary is not None
    assert session.last_summary.tok_s is None
    assert session.last_summary.mib_per_token is None


def test_generation_ends_when_the_context_is_full(session: Session) -> None:
    prompt = [7] * (session.info.n_ctx - 4)
    events = list(session.generate(prompt))
    assert events[-1].finish_reason in ("length", "stop")
    assert len(events) <= 5
    assert events[-1].position <= session.info.n_ctx
    # And the session is fine afterwards.
    assert list(session.generate([1, 2], max_tokens=2))


def test_an_overflowing_prompt_leaves_the_session_as_it_was(path: Path) -> None:
    with open_session(path) as session, open_session(path) as untouched:
        for each in (session, untouched):
            record(each, [3, 4, 5], 4)
        with pytest.raises(ContextOverflowError, match=r"has 256 tokens, and a context of 256"):
            session.generate([1] * 256)
        prompt = [3, 4, 5, 6, 7]
        assert_same_bits(record(session, prompt, 4), record(untouched, prompt, 4))


def test_an_empty_prompt_starts_from_the_begin_or_end_token(session: Session) -> None:
    assert list(session.generate("", max_tokens=2))
    with pytest.raises(ConfigError, match="no tokens"):
        session.generate([])


@pytest.mark.parametrize("tokens", [[-1], [512], [[1, 2]], ["a"], [2**70], [1.5]])
def test_token_ids_are_checked(session: Session, tokens: list[int]) -> None:
    with pytest.raises(ConfigError, match="token ids"):
        session.generate(tokens)


def test_arguments_are_checked(session: Session) -> None:
    with pytest.raises(ConfigError, match="1 or more"):
        session.generate("x", max_tokens=0)
    with pytest.raises(ConfigError, match="stop string"):
        session.generate("x", stop="")
    with pytest.raises(ConfigError, match="temperature"):
        session.generate("x", sampling=SamplingConfig(temperature=-1))
    assert list(session.generate("x", max_tokens=1))


def test_a_stop_string_ends_the_text_before_it(session: Session) -> None:
    text = session.generate("hello", max_tokens=24).text()
    assert len(text) > 4
    stop = text[3:5]
    session.reset()
    generation = session.generate("hello", max_tokens=24, stop=[stop, "never there"])
    assert generation.text() == text[: text.index(stop)]
    assert generation.summary.finish_reason == "stop"


def test_a_second_turn_reuses_what_the_context_holds(session: Session) -> None:
    events = list(session.generate([3, 4, 5], max_tokens=5))
    held = [3, 4, 5, *tokens_of(events)[:-1]]
    list(session.generate([*held, 9, 10], max_tokens=2))
    assert session.last_summary is not None
    assert session.last_summary.reused_tokens == len(held)


def test_a_changed_history_is_not_trusted(session: Session, path: Path) -> None:
    list(session.generate([3, 4, 5, 6], max_tokens=5))
    changed = [9, 4, 5, 6]
    with open_session(path) as fresh:
        assert_same_bits(record(session, changed, 5), record(fresh, changed, 5))


def test_the_turn_after_a_trim_or_restore_is_right(tiny: ModelMaker) -> None:
    """Keep four tokens of the prompt, throw the answer away; compare with never having had it."""
    for arch in ("qwen3moe", "qwen35moe", "lfm2moe", "gemma4"):
        with open_session(tiny(arch)) as session, open_session(tiny(arch)) as straight:
            list(session.generate([3, 4, 5, 6], max_tokens=8))
            list(straight.generate([3, 4, 5, 6], max_tokens=1))
            again = record(session, [3, 4, 5, 6, 21, 22], 6)
            assert session.last_summary is not None
            assert session.last_summary.reused_tokens == 4
            assert_same_bits(again, record(straight, [3, 4, 5, 6, 21, 22], 6))


def test_a_chat_reuses_its_stable_beginning(session: Session) -> None:
    answer = session.chat(HELLO, max_tokens=6).text()
    first = session.last_summary
    messages = [*HELLO, {"role": "assistant", "content": answer}, {"role": "user", "content": "?"}]
    session.chat(messages, max_tokens=2).text()
    second = session.last_summary
    assert first is not None
    assert second is not None
    assert second.reused_tokens >= len(session.tokenize("<|im_start|>user\nhello<|im_end|>\n"))
    assert second.prompt_tokens > first.prompt_tokens


def test_regenerating_an_answer_gives_it_again(session: Session) -> None:
    first = session.chat(HELLO, max_tokens=8).text()
    assert session.chat(HELLO, max_tokens=8).text() == first


def test_a_template_file_replaces_the_models_own(path: Path, tmp_path: Path) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    with open_session(path, chat_template=template) as session:
        assert session.render(HELLO) == "[hello]"
        assert session.chat(HELLO, max_tokens=2).text() is not None


def test_a_template_file_is_checked_at_the_start(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        open_session(path, chat_template=tmp_path / "none")
    broken = tmp_path / "broken.jinja"
    broken.write_text(" \n")
    with pytest.raises(ConfigError, match="is empty"):
        open_session(path, chat_template=broken)
    broken.write_text("{% if %}")
    with pytest.raises(ModelError, match="not valid Jinja"):
        open_session(path, chat_template=broken)


def test_a_cancelled_turn_says_so_and_leaves_the_session_usable(session: Session) -> None:
    generation = session.generate([3, 4, 5])
    events = []
    for event in generation:
        events.append(event)
        if len(events) == 3:
            session.cancel()
    assert events[-1].finish_reason == "cancelled"
    assert events[-1].token_id is None
    assert len(events) == 4
    assert generation.summary.finish_reason == "cancelled"
    assert list(session.generate([1, 2], max_tokens=2))[-1].finish_reason != "cancelled"


def test_cancelling_nothing_does_nothing(session: Session) -> None:
    session.cancel()
    assert list(session.generate([1, 2], max_tokens=2))[-1].finish_reason != "cancelled"
    session.cancel()


def test_a_turn_cancelled_before_it_starts_evaluates_nothing(session: Session) -> None:
    generation = session.generate([1, 2, 3], max_tokens=5)
    session.cancel()
    (event,) = list(generation)
    assert event.finish_reason == "cancelled"
    assert event.metrics.rows == 0


def test_the_turn_after_a_cancel_in_the_prefill_is_bitwise_a_first_turn(path: Path) -> None:
    prompt = list(range(10, 210))
    with open_session(path) as session, open_session(path) as fresh:
        expected = record(fresh, prompt[:50], 6)
        for delay in (0.0, 0.001, 0.003, 0.01):
            generation = session.generate(prompt, max_tokens=2)
            timer = threading.Timer(delay, session.cancel)
            timer.start()
            list(generation)
            timer.join()
            session.reset()
            assert_same_bits(record(session, prompt[:50], 6), expected)


def test_an_abandoned_generation_does_not_keep_the_session_busy(session: Session) -> None:
    for _ in session.generate([1, 2, 3], max_tokens=10):
        break
    assert list(session.generate([4, 5], max_tokens=2))
    session.generate([1], max_tokens=10)
    assert list(session.generate([4, 5], max_tokens=2))


def test_a_closed_generation_ends(session: Session) -> None:
    generation = session.generate([1, 2, 3], max_tokens=10)
    next(generation)
    generation.close()
    assert list(generation) == []
    assert generation.summary.finish_reason is None
    assert list(session.generate([4, 5], max_tokens=2))


def test_one_generation_at_a_time(session: Session) -> None:
    generation = session.generate([1, 2, 3], max_tokens=10)
    next(generation)
    with pytest.raises(SessionStateError, match="is running"):
        session.generate([4])
    with pytest.raises(SessionStateError, match="is running"):
        session.reset()
    assert list(generation)


def test_two_threads_cannot_generate_at_once(session: Session) -> None:
    outcomes: list[str] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        try:
            outcomes.append(session.generate([1, 2, 3], max_tokens=40).text())
        except SessionStateError:
            outcomes.append("refused")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 4
    assert len({outcome for outcome in outcomes if outcome != "refused"}) == 1


def test_a_closed_session_refuses_use(path: Path) -> None:
    session = open_session(path)
    session.close()
    session.close()
    assert session.closed
    session.cancel()
    for use in (
        lambda: session.generate("x"),
        lambda: session.chat(HELLO),
        lambda: session.tokenize("x"),
        session.reset,
    ):
        with pytest.raises(SessionStateError, match="closed"):
            use()
    assert session.info.arch


def test_closing_ends_a_running_generation(path: Path) -> None:
    session = open_session(path)
    generation = session.generate([1, 2, 3])
    next(generation)
    session.close()
    assert list(generation) == []


def test_closing_from_another_thread_waits_for_the_decode(path: Path) -> None:
    for _ in range(5):
        session = open_session(path)
        generation = session.generate([1, 2, 3])
        next(generation)
        closer = threading.Timer(0.003, session.close)
        closer.start()
        events = list(generation)
        closer.join()
        assert not events or events[-1].finish_reason in (None, "cancelled", "length", "stop")


def test_a_session_cannot_be_closed_from_within_its_decode(path: Path) -> None:
    session = open_session(path)
    session.logits_observer = lambda position, logits: session.close()
    with pytest.raises(SessionStateError, match="within its own decode"):
        session.generate([1, 2]).text()
    session.close()


def test_a_dropped_session_frees_itself(path: Path) -> None:
    session = open_session(path)
    finalizer = session._finalizer
    for _ in session.generate([1, 2, 3], max_tokens=5):
        break
    del session, _
    gc.collect()
    assert not finalizer.alive


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused(session: Session) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            session.generate("x")
            os.write(writer, b"no error")
        except SessionStateError as err:
            os.write(writer, str(err).encode())
        finally:
            session.close()
            os._exit(0)
    os.waitpid(child, 0)
    assert b"before a fork" in os.read(reader, 1000)
    os.close(reader)
    os.close(writer)
    assert list(session.generate([1, 2], max_tokens=2))


def test_the_report_is_complete(session: Session, path: Path) -> None:
    info = session.info
    assert info is session.load_report
    assert info.paths == (path,)
    assert not info.streamed
    assert info.n_expert == 16
    assert info.n_expert_used == 4
    assert info.n_ctx == 256
    assert info.n_ubatch == 16
    assert info.threads == 1
    assert info.thread_timings == ()
    assert info.kv_bytes > 0
    assert info.compute_bytes > 0
    assert info.dense_bytes > 0
    assert info.cache_bytes == 0
    assert info.load_read_bytes is None or info.load_read_bytes >= info.dense_bytes
    with pytest.raises(FrozenInstanceError):
        info.arch = "x"  # type: ignore[misc]


def test_threads_are_measured_when_not_given(path: Path) -> None:
    with open_session(path, threads=None) as session:
        info = session.info
        assert info.threads >= 1
        counted = {timing.threads for timing in info.thread_timings}
        assert not counted or info.threads in counted
        assert list(session.generate([1, 2], max_tokens=2))


def test_measuring_threads_changes_no_bit(path: Path) -> None:
    with open_session(path, threads=None) as measured:
        threads = measured.info.threads
        with open_session(path, threads=threads) as given:
            assert_same_bits(record(measured, "hello", 8), record(given, "hello", 8))


def test_experts_per_token_can_be_overridden(tiny: ModelMaker) -> None:
    path = tiny("qwen3moe")
    with open_session(path) as four, open_session(path, n_expert_used=2) as two:
        assert two.info.n_expert_used == 2
        a, b = record(four, [1, 2, 3], 1), record(two, [1, 2, 3], 1)
        assert (a[0][1] != b[0][1]).any()
    with pytest.raises(ConfigError, match="not be more than the model's 16, got 17"):
        open_session(path, n_expert_used=17)


def test_settings_that_do_nothing_are_named(path: Path) -> None:
    streaming = StreamingConfig(moe_stream=False, prefetch=1, cache_mb=8)
    with open_session(path, streaming) as session:
        (warning,) = session.info.warnings
        assert "prefetch, cache size" in warning


def test_a_context_beyond_the_training_is_warned_about(path: Path) -> None:
    with open_session(path) as session:
        trained = session.info.n_ctx_train
    with open_session(path, n_ctx=trained * 2) as session:
        assert any("trained for" in warning for warning in session.info.warnings)


def test_a_missing_model_says_what_to_give() -> None:
    with pytest.raises(ModelError, match=r"no model file .* give the path"):
        Session("/nonexistent/model.gguf")


def test_a_model_that_does_not_fit_is_refused_before_loading(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moestream.engine import memory
    from moestream.telemetry.system import MemoryState

    small = MemoryState(
        total=1 << 34, available=1 << 34, cgroup_limit=2**21, cgroup_available=2**20
    )
    monkeypatch.setattr(memory, "memory_state", lambda: small)
    with pytest.raises(MemoryBudgetError, match="but only 1 MiB are available; stream"):
        open_session(path)
    mapped = StreamingConfig(moe_stream=False, dense_weights="mmap")
    with open_session(path, mapped) as session:
        assert "again and again" in session.info.warnings[0]


@pytest.mark.parametrize("dense", ["mmap", "warm", "anon"])
def test_dense_modes_change_no_bit_of_a_resident_run(path: Path, dense: str) -> None:
    streaming = StreamingConfig(moe_stream=False, dense_weights=dense)  # type: ignore[arg-type]
    with open_session(path, streaming) as one, open_session(path, RESIDENT) as two:
        assert_same_bits(record(one, "hello", 6), record(two, "hello", 6))


def test_progress_is_passed_on(path: Path) -> None:
    seen: list[float] = []
    config = EngineConfig(model=path, threads=1, n_ctx=256, streaming=RESIDENT)
    Session(config, progress=seen.append).close()
    assert seen[-1] == 1.0


def test_two_sessions_take_turns_without_mixing(tiny: ModelMaker) -> None:
    with open_session(tiny("qwen3moe")) as a, open_session(tiny("qwen35moe")) as b:
        alone_a, alone_b = record(a, [1, 2], 6), record(b, [1, 2], 6)
        a.reset()
        b.reset()
        mixed_a, mixed_b = a.generate([1, 2], max_tokens=6), b.generate([1, 2], max_tokens=6)
        tokens_a: list[int | None] = []
        tokens_b: list[int | None] = []
        for x, y in zip(mixed_a, mixed_b, strict=False):
            tokens_a.append(x.token_id)
            tokens_b.append(y.token_id)
        n = len(tokens_a)
        assert tokens_a == [int(row.argmax()) for _, row in alone_a][:n]
        assert tokens_b == [int(row.argmax()) for _, row in alone_b][:n]
