from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

from moestream.errors import DecodeError
from moestream.llama.batch import Batch
from moestream.llama.context import Context, ContextOptions, Logits
from moestream.llama.model import Model, ModelOptions
from tests.conftest import ModelMaker

PROMPT = [11, 12, 13, 14, 15, 16, 17]


@pytest.fixture(scope="module", params=["qwen3moe", "qwen35moe", "gemma4"])
def model(request: pytest.FixtureRequest, tiny: ModelMaker) -> Iterator[Model]:
    with Model.load(tiny(request.param), ModelOptions()) as loaded:
        yield loaded


@pytest.fixture
def context(model: Model) -> Iterator[Context]:
    made = Context(model, ContextOptions(n_ctx=256, n_ubatch=16, threads=1))
    yield made
    made.close()


def run(context: Context, tokens: list[int], position: int = 0) -> Logits:
    batch = Batch(16)
    batch.fill(tokens, position)
    assert context.decode(batch)
    return context.logits().copy()


def test_logits_are_a_view_that_the_next_decode_overwrites(context: Context) -> None:
    batch = Batch(16)
    batch.fill(PROMPT, 0)
    context.decode(batch)
    view = context.logits()
    before = view.copy()
    assert np.isfinite(before).all()
    assert len(view) == 512
    batch.fill_one(3, len(PROMPT))
    context.decode(batch)
    assert not np.array_equal(view, before)


def test_a_row_without_logits_is_an_error(context: Context) -> None:
    batch = Batch(16)
    batch.fill(PROMPT, 0)
    context.decode(batch)
    with pytest.raises(DecodeError, match="no logits for row 0"):
        context.logits(0)


def test_the_same_tokens_give_the_same_bits_after_a_clear(context: Context) -> None:
    first = run(context, PROMPT)
    assert context.last_position() == len(PROMPT) - 1
    context.clear()
    assert context.last_position() == -1
    assert np.array_equal(run(context, PROMPT), first)


def test_only_models_without_a_state_can_be_trimmed(model: Model, context: Context) -> None:
    run(context, PROMPT)
    expected = run(context, [21, 22], len(PROMPT))
    assert context.trim(len(PROMPT)) is not model.keeps_state
    if not model.keeps_state:
        assert np.array_equal(run(context, [21, 22], len(PROMPT)), expected)


def test_a_saved_state_brings_back_the_same_bits(model: Model, context: Context) -> None:
    run(context, PROMPT)
    saved = context.save_state(partial=model.keeps_state)
    expected = run(context, [21, 22], len(PROMPT))
    run(context, [31, 32, 33], len(PROMPT) + 2)
    assert context.restore_state(saved, partial=model.keeps_state)
    assert context.trim(len(PROMPT))
    assert context.last_position() == len(PROMPT) - 1
    assert np.array_equal(run(context, [21, 22], len(PROMPT)), expected)


def test_a_scrub_changes_no_bit(context: Context) -> None:
    run(context, PROMPT)
    expected = run(context, [21, 22], len(PROMPT))
    context.clear()
    run(context, PROMPT)
    context.scrub()
    assert np.array_equal(run(context, [21, 22], len(PROMPT)), expected)


def test_a_scrub_of_nothing_is_fine(context: Context) -> None:
    context.scrub()
    assert context.last_position() == -1


def test_a_token_outside_the_vocabulary_is_refused_in_words(context: Context) -> None:
    batch = Batch(1)
    batch.fill_one(100_000, 0)
    with pytest.raises(DecodeError, match="failed to decode"):
        context.decode(batch)


def test_a_full_context_is_refused_in_words(context: Context) -> None:
    batch = Batch(16)
    for position in range(0, 256, 16):
        batch.fill(list(range(16)), position)
        assert context.decode(batch)
    batch.fill(list(range(16)), 256)
    with pytest.raises(DecodeError, match=r"no room for 16 more tokens in a context of 256"):
        context.decode(batch)


def test_an_abort_callback_ends_the_decode(model: Model) -> None:
    always = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(lambda _data: True)
    address = ctypes.cast(always, ctypes.c_void_p).value
    assert address is not None
    options = ContextOptions(n_ctx=256, n_ubatch=16, threads=1, abort_callback=(address, 0))
    context = Context(model, options)
    batch = Batch(16)
    batch.fill(PROMPT, 0)
    assert context.decode(batch) is False
    context.close()


def test_threads_change_no_bit(context: Context) -> None:
    first = run(context, PROMPT)
    context.set_threads(2)
    context.clear()
    assert np.array_equal(run(context, PROMPT), first)


def test_buffer_sizes_are_known(context: Context) -> None:
    assert context.buffers.known
    assert context.buffers.kv > 0
    assert context.buffers.compute > 0


def test_a_context_is_freed_once(model: Model) -> None:
    context = Context(model, ContextOptions(n_ctx=256, n_ubatch=16, threads=1))
    context.close()
    context.close()
    with pytest.raises(RuntimeError, match="freed"):
        _ = context.pointer


def test_batch_wider_than_the_context_is_refused_not_aborted(model: Model) -> None:
    narrow = Context(model, ContextOptions(n_ctx=64, n_ubatch=4, threads=1))
    try:
        batch = Batch(8)
        batch.fill(range(5), 0)
        with pytest.raises(DecodeError, match="batch of 5 rows"):
            narrow.decode(batch)
        batch.fill(range(3), 0, logits="all")
        with pytest.raises(DecodeError, match="with 3 outputs"):
            narrow.decode(batch)
    finally:
        narrow.close()
