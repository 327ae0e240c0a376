from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from moestream.config import SamplingConfig
from moestream.engine.sampling import make_chooser
from moestream.errors import DecodeError
from moestream.llama.batch import Batch
from moestream.llama.context import Context, ContextOptions
from moestream.llama.logits import LogitRows
from moestream.llama.model import Model, ModelOptions
from moestream.llama.sampler import SamplerChain
from tests.conftest import ModelMaker

PROMPT = np.array([11, 12, 13], np.int32)


@pytest.fixture(scope="module")
def model(tiny: ModelMaker) -> Iterator[Model]:
    with Model.load(tiny("qwen3moe"), ModelOptions()) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def context(model: Model) -> Iterator[Context]:
    made = Context(model, ContextOptions(n_ctx=256, n_ubatch=16, threads=1))
    batch = Batch(16)
    batch.fill(PROMPT, 0)
    made.decode(batch)
    yield made
    made.close()


def draw(model: Model, context: Context, config: SamplingConfig, n: int = 20) -> list[int]:
    chooser = make_chooser(config, model.vocab, PROMPT)
    try:
        return [chooser.choose(context, context.logit_rows())[0] for _ in range(n)]
    finally:
        chooser.close()


def test_greedy_takes_the_most_likely(model: Model, context: Context) -> None:
    assert set(draw(model, context, SamplingConfig())) == {int(context.logits().argmax())}


def test_a_seed_repeats_its_draws(model: Model, context: Context) -> None:
    config = SamplingConfig(temperature=2.0, top_k=0, top_p=1.0, min_p=0.0, seed=7)
    draws = draw(model, context, config)
    assert draws == draw(model, context, config)
    assert len(set(draws)) > 1


def test_without_a_seed_draws_differ(model: Model, context: Context) -> None:
    config = SamplingConfig(temperature=3.0, top_k=0, top_p=1.0, min_p=0.0)
    assert draw(model, context, config, 40) != draw(model, context, config, 40)


def test_top_k_of_one_is_greedy(model: Model, context: Context) -> None:
    config = SamplingConfig(temperature=5.0, top_k=1, seed=1)
    assert set(draw(model, context, config)) == {int(context.logits().argmax())}


def test_top_k_bounds_the_draws(model: Model, context: Context) -> None:
    config = SamplingConfig(temperature=9.0, top_k=3, top_p=1.0, min_p=0.0, seed=3)
    allowed = set(np.argsort(context.logits())[-3:].tolist())
    assert set(draw(model, context, config, 60)) <= allowed


def test_the_repeat_penalty_looks_at_the_prompt(model: Model, context: Context) -> None:
    best = int(context.logits().argmax())
    config = SamplingConfig(temperature=0.01, repeat_penalty=10.0, seed=1)
    chooser = make_chooser(config, model.vocab, np.array([best], np.int32))
    try:
        assert chooser.choose(context, context.logit_rows()) != [best]
    finally:
        chooser.close()


def test_suppressed_tokens_are_never_drawn(model: Model, context: Context) -> None:
    best = int(context.logits().argmax())
    chain = SamplerChain(
        SamplingConfig(temperature=1.0, top_k=1),
        seed=1,
        n_vocab=model.vocab.n_tokens,
        suppressed=frozenset({best}),
    )
    assert chain.sample(context) != best
    chain.close()
    chain.close()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_numbers_end_the_generation(
    model: Model, context: Context, temperature: float
) -> None:
    broken = context.logits().copy()
    broken[5] = np.nan
    chooser = make_chooser(SamplingConfig(temperature=temperature), model.vocab, PROMPT)
    with pytest.raises(DecodeError, match="nan as its best logit"):
        list(chooser.choose(context, LogitRows.of(broken[None])))
    chooser.close()
