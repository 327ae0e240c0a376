from __future__ import annotations

from collections.abc import Iterator

import pytest

from moestream.llama.model import Model, ModelOptions
from moestream.llama.vocab import Vocab
from tests.conftest import ModelMaker


@pytest.fixture(scope="module")
def vocab(tiny: ModelMaker) -> Iterator[Vocab]:
    with Model.load(tiny("qwen3moe"), ModelOptions()) as model:
        yield model.vocab


@pytest.mark.parametrize("text", ["", "hello world", "Grüße, 世界 🎉", "a\0b", "line\nline"])
def test_text_survives_the_way_there_and_back(vocab: Vocab, text: str) -> None:
    tokens = vocab.tokenize(text, add_special=False)
    assert b"".join(map(vocab.piece, tokens)).decode() == text


def test_lone_surrogates_do_not_raise(vocab: Vocab) -> None:
    assert vocab.tokenize("\ud800", add_special=False)


def test_special_tokens_are_read_only_when_asked_to(vocab: Vocab) -> None:
    (token,) = vocab.tokenize("<|im_end|>", add_special=False)
    assert vocab.is_eog(token)
    assert vocab.piece(token) == b""
    assert vocab.piece(token, special=True) == b"<|im_end|>"
    assert len(vocab.tokenize("<|im_end|>", add_special=False, parse_special=False)) > 1


def test_ordinary_tokens_do_not_end_a_generation(vocab: Vocab) -> None:
    assert not any(vocab.is_eog(token) for token in vocab.tokenize("hello", add_special=False))


def test_the_name_of_no_token_is_empty(vocab: Vocab) -> None:
    assert vocab.text(None) == ""
