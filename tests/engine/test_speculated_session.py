"""A session that speculates behaves as one that does not: ends, turns, cancelling, errors."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from moestream import ConfigError, SamplingConfig, Session, SpeculationConfig, StreamReadError
from moestream.config import StreamingConfig
from moestream.engine.evaluator import Evaluator
from moestream.speculation.mtp import MtpDraft
from tests.conftest import ModelMaker
from tests.engine.helpers import RESIDENT, open_session, tokens_of
from tests.engine.sources import Oracle, exact_greedy, open_speculating

PROMPT = [(37 * i) % 450 + 20 for i in range(37)]
MTP = SpeculationConfig(source="mtp", draft=3)
STREAMED = StreamingConfig(moe_stream=True, cache_mb=64)


@pytest.fixture(params=["qwen35moe", "glm4moe"])
def model(request: pytest.FixtureRequest, tiny: ModelMaker) -> Path:
    return tiny(request.param, nextn=1)


def held(session: Session) -> list[int]:
    loop = session._opened.loop
    assert len(loop.history) == loop.context.last_position() + 1
    return list(loop.history.tokens.tolist())


def assert_in_step(session: Session) -> None:
    """Draft and target agree on what is confirmed."""
    loop = session._opened.loop
    source = loop.source
    assert isinstance(source, MtpDraft)
    assert source._observed == len(loop.history)
    # The token a draft starts from may be there before the target has it.
    assert source._placed + source._pending <= source._observed + 1
    assert source._context.last_position() == source._placed - 1


@pytest.mark.parametrize("n", range(1, 14))
def test_the_cap_inside_a_group_cuts_at_the_right_token(tiny: ModelMaker, n: int) -> None:
    model = tiny("qwen35moe")
    exact = exact_greedy(model, PROMPT, 16)
    source = Oracle(len(PROMPT), exact)
    wide = SpeculationConfig(source="ngram", draft=6)
    with open_speculating(model, source=source, speculation=wide) as session:
        events = list(session.generate(PROMPT, max_tokens=n))
        assert tokens_of(events) == exact[:n]
        assert events[-1].finish_reason == "length"
        assert [event.position for event in events] == list(range(37, 37 + n))
        assert held(session) == PROMPT + exact[: n - 1]


def test_a_stop_string_inside_a_group_cuts_at_the_right_token(tiny: ModelMaker) -> None:
    model = tiny("qwen35moe")
    exact = exact_greedy(model, PROMPT, 16)
    wide = SpeculationConfig(source="ngram", draft=6)
    with open_speculating(model, speculation=wide) as session:
        pieces = [session.detokenize([token]) for token in exact]
        for at, piece in enumerate(pieces):
            if (
                not piece
                or "\ufffd" in piece
                or any(piece in "".join(pieces[: i + 1]) for i in range(at))
            ):
                continue
            session._opened.loop.source = Oracle(len(PROMPT), exact)
            session.reset()
            generation = session.generate(PROMPT, max_tokens=16, stop=piece)
            events = list(generation)
            assert tokens_of(events) == exact[: at + 1]
            assert events[-1].finish_reason == "stop"
            assert "".join(event.text for event in events) == "".join(pieces[:at])
            assert held(session) == PROMPT + exact[:at]
            summary = generation.summary.speculation
            assert summary is not None
            assert sum(event.metrics.batch for event in events[1:]) == at
            assert summary.accepted == sum(event.metrics.accepted for event in events)


def test_the_end_of_the_text_inside_a_group_is_the_end(tiny: ModelMaker) -> None:
    model = tiny("qwen35moe")
    exact = exact_greedy(model, PROMPT, 80)
    assert len(exact) < 80, "this fixture is used because it ends its text by itself"
    wide = SpeculationConfig(source="ngram", draft=6)
    for skipped in range(7):
        prompt = PROMPT + exact[: len(exact) - 8 + skipped]
        source = Oracle(len(prompt), [*exact[len(exact) - 8 + skipped :], 30, 31, 32, 33, 34, 35])
        with open_speculating(model, source=source, speculation=wide) as session:
            events = list(session.generate(prompt, max_tokens=40))
            assert tokens_of(events) == exact[len(exact) - 8 + skipped :]
            assert events[-1].finish_reason == "stop"
            assert held(session) == PROMPT + exact[:-1]


@pytest.mark.parametrize("n_ctx", range(40, 49))
def test_the_end_of_the_context_inside_a_group(tiny: ModelMaker, n_ctx: int) -> None:
    model = tiny("qwen35moe")
    exact = exact_greedy(model, PROMPT, 16)
    wide = SpeculationConfig(source="ngram", draft=6)
    source = Oracle(len(PROMPT), exact)
    with open_speculating(model, source=source, speculation=wide, n_ctx=n_ctx) as session:
        events = list(session.generate(PROMPT))
        # The last token needs no place: it is said, not decoded.
        assert tokens_of(events) == exact[: n_ctx - len(PROMPT) + 1]
        assert events[-1].finish_reason == "length"
        assert len(held(session)) == n_ctx


def test_turns_reuse_what_a_speculated_turn_left(model: Path) -> None:
    with open_speculating(model, STREAMED, speculation=MTP) as session:
        text = list(PROMPT)
        for turn in range(5):
            fresh = exact_greedy(model, text, 20)
            events = list(session.generate(text, max_tokens=20))
            assert tokens_of(events) == fresh, turn
            assert session.last_summary is not None
            assert (session.last_summary.reused_tokens > 0) == (turn > 0)
            assert_in_step(session)
            said = [token for token in fresh if token > 10]
            text = [*text, *said, 30 + turn, 31, 32]


def test_another_history_is_found_out(model: Path) -> None:
    other = [*PROMPT[:20], *[33 + i for i in range(20)]]
    with open_speculating(model, STREAMED, speculation=MTP) as session:
        for prompt in (PROMPT, other, PROMPT[:25], PROMPT):
            assert tokens_of(list(session.generate(prompt, max_tokens=20))) == exact_greedy(
                model, prompt, 20
            )
            assert_in_step(session)


def test_cancelling_anywhere_leaves_a_session_that_goes_on(model: Path) -> None:
    rng = random.Random(4)
    expected = exact_greedy(model, PROMPT, 20)
    with open_speculating(model, STREAMED, speculation=MTP) as session:
        for _ in range(20):
            start = rng.randrange(1, 60)
            prompt = [(start * i) % 450 + 20 for i in range(start)]
            generation = session.generate(prompt)
            timer = threading.Timer(rng.random() * 0.05, session.cancel)
            timer.start()
            events = list(generation)
            timer.join()
            assert events[-1].finish_reason is not None
            held(session)
            assert_in_step(session)
            assert tokens_of(list(session.generate(PROMPT, max_tokens=20))) == expected


def test_a_cancel_between_the_tokens_of_a_group_is_heard(tiny: ModelMaker) -> None:
    model = tiny("qwen35moe")
    exact = exact_greedy(model, PROMPT, 16)
    wide = SpeculationConfig(source="ngram", draft=6)
    source = Oracle(len(PROMPT), exact)
    with open_speculating(model, source=source, speculation=wide) as session:
        generation = session.generate(PROMPT, max_tokens=16)
        seen = [next(generation), next(generation), next(generation)]
        session.cancel()
        rest = list(generation)
        assert [event.finish_reason for event in rest] == ["cancelled"]
        assert tokens_of(seen) == exact[:3]
        assert generation.summary.generated_tokens == 3


def test_closing_in_the_middle_of_a_group_leaves_a_session_that_goes_on(model: Path) -> None:
    expected = exact_greedy(model, PROMPT, 20)
    with open_speculating(model, speculation=MTP) as session:
        for n in range(1, 8):
            generation = session.generate(PROMPT, max_tokens=20)
            for _ in range(n):
                next(generation)
            generation.close()
            assert_in_step(session)
        assert tokens_of(list(session.generate(PROMPT, max_tokens=20))) == expected


@pytest.mark.parametrize("after_reads", [0, 3, 10, 25, 60])
def test_a_read_error_ends_the_generation_and_nothing_else(model: Path, after_reads: int) -> None:
    tight = StreamingConfig(moe_stream=True, cache_mb=0)
    expected = exact_greedy(model, PROMPT, 20)
    with open_speculating(model, tight, speculation=MTP) as session:
        session._opened.source.store.inject_read_error(after_reads=after_reads)
        with pytest.raises(StreamReadError, match="could not be read"):
            list(session.generate(PROMPT, max_tokens=60))
        session._opened.source.store.inject_read_error(after_reads=-1)
        assert_in_step(session)
        assert tokens_of(list(session.generate(PROMPT, max_tokens=20))) == expected


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 6, 9])
def test_an_interrupt_at_any_decode_is_recovered_from(
    model: Path, number: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = [(37 * i) % 450 + 20 for i in range(60)]
    expected = exact_greedy(model, [*long, 33], 15)
    with open_speculating(model, STREAMED, speculation=MTP) as session:
        run, count = Evaluator.run, 0

        def interrupted(self: Evaluator, *args: Any, **options: Any) -> None:
            nonlocal count
            count += 1
            if count == number and not after:
                raise KeyboardInterrupt
            run(self, *args, **options)
            if count == number and after:
                raise KeyboardInterrupt

        monkeypatch.setattr(Evaluator, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(session.generate(long, max_tokens=40))
        monkeypatch.undo()
        assert tokens_of(list(session.generate([*long, 33], max_tokens=15))) == expected
        assert_in_step(session)


def test_thirty_turns_keep_memory_and_contexts_in_step(tiny: ModelMaker) -> None:
    model = tiny("qwen35moe")
    process = psutil.Process()
    rss = []
    with open_speculating(model, STREAMED, speculation=MTP) as session:
        for turn in range(30):
            text = [(37 * i + turn // 3) % 450 + 20 for i in range(30 + turn % 3)]
            list(session.generate(text, max_tokens=60))
            assert_in_step(session)
            rss.append(process.memory_info().rss)
        assert session.last_summary is not None
        assert session.last_summary.hit_pct == 100.0
    assert max(rss[10:]) - rss[10] < 4 * 2**20


def test_without_snapshots_a_session_stays_in_step(tiny: ModelMaker) -> None:
    rng = random.Random(5)
    with open_speculating(tiny("qwen3next", nextn=1), STREAMED, speculation=MTP) as session:
        assert any("keeps no snapshots" in note for note in session.load_report.notes)
        for turn in range(20):
            prompt = PROMPT if turn % 2 else PROMPT[: rng.randrange(5, 37)]
            timer = threading.Timer(rng.random() * 0.05, session.cancel)
            timer.start()
            list(session.generate(prompt, max_tokens=30))
            timer.join()
            held(session)
            assert_in_step(session)


def test_a_turn_that_samples_is_refused_and_the_session_goes_on(tiny: ModelMaker) -> None:
    with open_speculating(tiny("qwen35moe"), RESIDENT, speculation=MTP) as session:
        with pytest.raises(ConfigError, match="temperature of 0"):
            session.generate(PROMPT, sampling=SamplingConfig(temperature=0.7))
        assert len(list(session.generate(PROMPT, max_tokens=4))) == 4


def test_a_turn_without_drafts_draws_as_a_plain_session_does(model: Path) -> None:
    drawn = SamplingConfig(temperature=0.8, seed=5)
    with open_session(model, n_ctx=512) as plain:
        expected = tokens_of(plain.generate(PROMPT, max_tokens=24, sampling=drawn))
    with open_speculating(model, speculation=MTP) as session:
        with pytest.raises(ConfigError, match="temperature"):
            session.generate(PROMPT, max_tokens=24, sampling=drawn)
        generation = session.generate(PROMPT, max_tokens=24, sampling=drawn, draft=False)
        assert tokens_of(generation) == expected
        assert_in_step(session)
        speculated = generation.summary.speculation
        assert speculated is not None
        assert (speculated.width, speculated.drafted, speculated.offered_at) == (0, 0, ())
        greedy = session.generate([*PROMPT, *expected, 21], max_tokens=12)
        list(greedy)
        assert greedy.summary.speculation is not None
        assert greedy.summary.speculation.drafted > 0
        assert_in_step(session)


def test_reading_the_prompt_is_no_cost_of_the_first_draft(model: Path) -> None:
    with open_speculating(model, speculation=MTP) as session:
        events = list(session.generate(PROMPT, max_tokens=8))
        summary = session.last_summary
        assert summary is not None
        assert summary.speculation is not None
        assert events[0].metrics.draft_ms > 0.0
        for event in events:
            # Not a matter of speed: both are read off one clock, and one lies within the other.
            assert event.metrics.draft_ms <= event.metrics.loop_overhead_ms + 1e-6
        assert summary.speculation.draft_s <= summary.decode_s - summary.wall_s + 1e-6
