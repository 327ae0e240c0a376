"""Cancelling at random moments: what follows is right to the last bit.

The reference is a session that went through the same completed decodes without the cancel.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from moestream import Session
from tests.conftest import ModelMaker
from tests.engine.helpers import assert_same_bits, open_session, record, tokens_of

PROMPT = [20, 21, 22, 23, 24]


@pytest.fixture(scope="module", params=["qwen3moe", "qwen35moe", "lfm2moe", "gpt-oss"])
def path(request: pytest.FixtureRequest, tiny: ModelMaker) -> Path:
    return tiny(request.param, layers=8)


def abort_the_next_decode(session: Session) -> None:
    """Cancel from inside: after the flag was looked at, before llama.cpp computes anything."""
    context = session._opened.context
    decode = context.decode

    def cancelled_decode(batch: object) -> bool:
        context.decode = decode  # type: ignore[method-assign]
        session.cancel()
        return decode(batch)  # type: ignore[arg-type]

    context.decode = cancelled_decode  # type: ignore[assignment, method-assign]


def test_an_aborted_decode_step_costs_only_itself(path: Path) -> None:
    """Attention goes back to the last good token, a state to the end of the prompt."""
    with open_session(path) as session, open_session(path) as reference:
        generation = session.generate(PROMPT, max_tokens=20)
        events = [next(generation) for _ in range(5)]
        abort_the_next_decode(session)
        last = list(generation)
        assert [event.finish_reason for event in last] == ["cancelled"]

        steps = 4 if session._opened.loop.can_trim else 0
        kept = len(session._opened.loop.history)
        assert kept == len(PROMPT) + steps
        list(reference.generate(PROMPT, max_tokens=steps + 1))
        follow_up = [*PROMPT, *tokens_of(events)[:4], 30, 31]
        after = record(session, follow_up, 6)
        assert session.last_summary is not None
        assert session.last_summary.reused_tokens == kept
        assert_same_bits(after, record(reference, follow_up, 6))


def test_an_aborted_prefill_trusts_only_its_finished_steps(path: Path) -> None:
    prompt = [(7 * i) % 400 + 10 for i in range(60)]
    with open_session(path) as session, open_session(path) as reference:
        loop = session._opened.loop
        prefill = loop.prefill

        def abort_in_the_third_step(tokens: object) -> None:
            loop.prefill = prefill  # type: ignore[method-assign]
            loop.prefill(prompt[:32])  # type: ignore[arg-type]
            abort_the_next_decode(session)
            loop.prefill(prompt[32:])  # type: ignore[arg-type]

        loop.prefill = abort_in_the_third_step  # type: ignore[assignment, method-assign]
        (event,) = session.generate(prompt, max_tokens=4)
        assert event.finish_reason == "cancelled"
        kept = len(loop.history)
        assert kept == (32 if loop.can_trim else 0)
        if kept:
            reference._opened.loop.prefill(session._opened.loop.history.tokens)
        after = record(session, prompt, 6)
        assert_same_bits(after, record(reference, prompt, 6))


def test_cancels_at_random_moments_never_spoil_what_follows(path: Path) -> None:
    rng = random.Random(5)
    prompt = [(5 * i) % 400 + 10 for i in range(100)]
    with open_session(path) as session, open_session(path) as fresh:
        expected = record(fresh, PROMPT, 6)
        for _ in range(25):
            generation = session.generate(prompt[: rng.randrange(1, 100)])
            timer = threading.Timer(rng.random() * 0.03, session.cancel)
            timer.start()
            events = list(generation)
            timer.join()
            assert events[-1].finish_reason is not None
            assert len(session._opened.loop.history) == session._opened.context.last_position() + 1
            # PROMPT shares no beginning with the prompts above, so this is a first turn again.
            assert_same_bits(record(session, PROMPT, 6), expected)


@pytest.mark.parametrize("where", ["prefill", "decode"])
def test_an_interrupt_between_decode_and_bookkeeping_is_recovered_from(
    path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_session(path) as session, open_session(path) as reference:
        history = session._opened.loop.history

        def interrupt(_: object) -> None:
            raise KeyboardInterrupt

        generation = session.generate(PROMPT, max_tokens=10)
        if where == "decode":
            next(generation)
        monkeypatch.setattr(history, "extend", interrupt)
        with pytest.raises(KeyboardInterrupt):
            list(generation)
        monkeypatch.undo()
        if where == "decode":
            list(reference.generate(PROMPT, max_tokens=1))
        follow_up = [*PROMPT, 30, 31]
        assert_same_bits(record(session, follow_up, 6), record(reference, follow_up, 6))
        assert session.last_summary is not None
        assert session.last_summary.reused_tokens == (len(PROMPT) if where == "decode" else 0)
