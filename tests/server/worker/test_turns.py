"""Turns in the engine's process: the same text, counted in tokens, with all that goes with it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from moestream import Session
from moestream.config import EngineConfig, SamplingConfig, SpeculationConfig
from moestream.errors import ConfigError, ContextOverflowError, ModelError
from moestream.server.worker import TurnStarted
from moestream.telemetry.reading import read_run
from tests.engine.helpers import record
from tests.server.worker.helpers import NANO, engine, failure, run, text_of, turn

PROMPT = "And the king said unto"
SPECULATING = EngineConfig(threads=1, n_ctx=512, speculation=SpeculationConfig(source="mtp"))


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(NANO) as found:
        yield found


def test_the_text_is_that_of_a_session(session: Session) -> None:
    async def main() -> None:
        async with engine() as client:
            deltas, done = await turn(client, prompt=PROMPT, max_tokens=60)
            expected = list(session.generate(PROMPT, max_tokens=60))
            assert text_of(deltas) == "".join(event.text for event in expected)
            tokens = [token for delta in deltas for token in delta.token_ids]
            assert tokens == [event.token_id for event in expected]
            assert done.finish_reason == "length"
            assert done.usage.completion_tokens == 60
            assert done.usage.prompt_tokens == len(session.tokenize(PROMPT))
            assert done.summary["generated_tokens"] == 60
            assert [delta.index for delta in deltas] == sorted({d.index for d in deltas})
            assert sum(len(delta.token_ids) for delta in deltas) == 60

    run(main())


def test_a_conversation_goes_on_where_it_was() -> None:
    async def main() -> None:
        async with engine() as client:
            first = {"role": "user", "content": "Hello"}
            deltas, done = await turn(client, messages=(first,), max_tokens=12)
            assert done.usage.cached_tokens == 0
            said = {"role": "assistant", "content": text_of(deltas)}
            again = {"role": "user", "content": "Why?"}
            _, done = await turn(client, messages=(first, said, again), max_tokens=4)
            assert 0 < done.usage.cached_tokens < done.usage.prompt_tokens
            assert done.timings["cache_n"] == done.usage.cached_tokens
            assert done.timings["prompt_n"] == done.usage.prompt_tokens - done.usage.cached_tokens
            assert done.timings["predicted_n"] == 4

    run(main())


def test_speculation_counts_tokens_and_stands_aside_for_a_temperature() -> None:
    async def main() -> None:
        async with engine(SPECULATING) as client:
            deltas, done = await turn(client, prompt=PROMPT, max_tokens=61)
            assert done.usage.completion_tokens == 61
            assert sum(len(delta.token_ids) for delta in deltas) == 61
            assert done.timings["draft_n"] > done.timings["draft_n_accepted"] > 0
            assert client.counters.drafted == done.timings["draft_n"]
            assert client.counters.accepted == done.timings["draft_n_accepted"]
            assert sum(client.counters.accepted_at.values()) == client.counters.accepted
            warm = SamplingConfig(temperature=0.8, seed=3)
            _, done = await turn(client, prompt=PROMPT, max_tokens=20, sampling=warm)
            assert (done.timings["draft_n"], done.usage.completion_tokens) == (0, 20)
            _, done = await turn(client, prompt=PROMPT, max_tokens=20, draft=False)
            assert done.timings["draft_n"] == 0

    run(main())


def test_the_same_seed_says_the_same() -> None:
    async def main() -> None:
        async with engine() as client:

            async def draw(seed: int) -> str:
                sampling = SamplingConfig(temperature=1.0, seed=seed)
                return text_of(
                    (await turn(client, prompt=PROMPT, max_tokens=30, sampling=sampling))[0]
                )

            assert await draw(5) == await draw(5)
            assert len({await draw(seed) for seed in range(4)}) > 1

    run(main())


def test_stop_strings_and_live_numbers() -> None:
    async def main() -> None:
        async with engine() as client:
            whole, _ = await turn(client, prompt=PROMPT, max_tokens=40)
            stop = text_of(whole)[20:24]
            deltas, done = await turn(client, prompt=PROMPT, max_tokens=40, stop=(stop,))
            text = text_of(whole)
            assert text_of(deltas) == text[: text.index(stop)]
            assert done.finish_reason == "stop"
            numbers = [delta.metrics for delta in whole if delta.metrics is not None]
            assert numbers
            last = numbers[-1]
            assert last["index"] == 39
            assert last["effective_tok_s"] <= last["tok_s"]
            assert last["acceptance_pct"] is None
            assert last["tokens_per_pass"] == 1.0
            assert last["rss_mib"] > 0

    run(main())


def test_log_probabilities_are_the_logits(session: Session) -> None:
    rows = record(session, PROMPT, 12)

    async def main() -> None:
        async with engine() as client:
            deltas, _ = await turn(client, prompt=PROMPT, max_tokens=12, logprobs=3)
            found = [row for delta in deltas for row in delta.logprobs]
            assert len(found) == 12
            assert b"".join(row.data for row in found).decode() == text_of(deltas)
            for row, (_, logits) in zip(found, rows, strict=True):
                wide = logits.astype(np.float64)
                expected = wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())
                assert math.isclose(row.logprob, expected.max(), abs_tol=1e-9)
                assert row.top[0].token == row.token  # greedy
                best = np.sort(expected)[::-1][:3]
                np.testing.assert_allclose([each.logprob for each in row.top], best, atol=1e-9)
            plain, _ = await turn(client, prompt=PROMPT, max_tokens=2, logprobs=0)
            assert [row.top for delta in plain for row in delta.logprobs] == [(), ()]
            none, _ = await turn(client, prompt=PROMPT, max_tokens=2)
            assert not any(delta.logprobs for delta in none)

    run(main())


def test_what_the_engine_refuses_arrives_as_it_is_and_ends_nothing() -> None:
    async def main() -> None:
        async with engine() as client:
            pid = client.worker_pid
            for expected, options in (
                (ContextOverflowError, {"prompt": "word " * 2000}),
                (ConfigError, {"prompt": (1, 2, 10**6)}),
                (ConfigError, {"prompt": PROMPT, "stop": ("",)}),
                (ConfigError, {"prompt": PROMPT, "max_tokens": 0}),
                (ConfigError, {"messages": ({"role": "user", "content": None},)}),
                (ConfigError, {"messages": ()}),
                (ConfigError, {"messages": ({"role": "user", "content": "x"},), "tools": ({},)}),
                (ConfigError, {}),
                (
                    ConfigError,
                    {"prompt": PROMPT, "sampling": SamplingConfig(temperature=-1.0)},
                ),
            ):
                error = await failure(turn(client, **options))  # type: ignore[arg-type]
                assert type(error) is expected, (options, error)
            assert client.queue.running == 0
            _, done = await turn(client, prompt=PROMPT, max_tokens=3)
            assert done.usage.completion_tokens == 3
            assert client.worker_pid == pid
            assert client.counters.finished == {"error": 9, "length": 1}

    run(main())


def test_a_turn_can_be_recorded(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine() as client:
            path = tmp_path / "run.csv"
            await turn(client, prompt=PROMPT, max_tokens=9, record_to=path)
            found = read_run(path)
            assert len(found.columns["step"]) == 9
            # A recording that cannot be written is no reason not to answer.
            _, done = await turn(
                client, prompt=PROMPT, max_tokens=9, record_to=tmp_path / "no" / "run.csv"
            )
            assert done.usage.completion_tokens == 9

    run(main())


def test_a_model_without_a_template_refuses_to_chat_only(tmp_path: Path, session: Session) -> None:
    broken = tmp_path / "broken.jinja"
    broken.write_text("{{ raise_exception('no') }}")
    config = EngineConfig(threads=1, n_ctx=512, chat_template=broken)

    async def main() -> None:
        async with engine(config) as client:
            error = await failure(turn(client, messages=({"role": "user", "content": "x"},)))
            assert type(error) is ModelError
            started = []
            from moestream.server.worker import TurnRequest

            async for event in client.generate(TurnRequest(prompt=PROMPT, max_tokens=2)):
                started.append(event)
            assert started[0] == TurnStarted(prompt_tokens=len(session.tokenize(PROMPT)))

    run(main())
