"""A byte-level BPE whose pre-tokeniser is llama.cpp's ``qwen2``: both sides give the same ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from config import ModelConfig

QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer(texts: Iterable[str], special_tokens: Sequence[str]) -> Tokenizer:
    """Learn the merges on ``texts``; the special tokens get the last ids."""
    vocab_size = ModelConfig().vocab_size
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    plain = (_without(text, special_tokens) for text in texts)
    tokenizer.train_from_iterator(plain, trainer)
    tokenizer.add_special_tokens(list(special_tokens))
    assert tokenizer.get_vocab_size() == vocab_size
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """A saved tokeniser, so that changed texts do not change the ids."""
    tokenizer: Tokenizer = Tokenizer.from_file(str(path))
    assert tokenizer.get_vocab_size() == ModelConfig().vocab_size
    return tokenizer


def _without(text: str, special_tokens: Sequence[str]) -> str:
    for token in special_tokens:
        text = text.replace(token, "")
    return text


def encode_documents(tokenizer: Tokenizer, texts: list[str], end_of_text: str) -> NDArray[np.int64]:
    """One stream of ids, every document closed by ``end_of_text``."""
    end = tokenizer.token_to_id(end_of_text)
    assert end is not None
    ids: list[int] = []
    for encoding in tokenizer.encode_batch(texts):
        ids += encoding.ids
        ids.append(end)
    return np.array(ids, dtype=np.int64)
