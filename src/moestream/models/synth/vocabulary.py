"""A byte-level BPE vocabulary of any size, made of pronounceable words.

    bytes, then syllables ("ba"), then words of one, two and three syllables (" ba", " bako",
    " bakodu"), each the merge of two earlier entries, then three special tokens.

So text of any kind can be tokenized, what such a model says reads as words, and loading has as
many merges to go through as with a real vocabulary of the size.
"""

from __future__ import annotations

from itertools import islice, product
from typing import Final

from moestream.errors import ConfigError
from moestream.gguf.types import MetaValue, ValueType
from moestream.gguf.writer import Typed

__all__ = ["CHAT_TEMPLATE", "N_BYTES", "SPECIAL_TOKENS", "vocabulary_metadata"]

N_BYTES: Final = 256
SPECIAL_TOKENS: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}"
    "{% if enable_thinking is defined and not enable_thinking %}"
    "{{ '<think>\\n\\n</think>\\n\\n' }}"
    "{% endif %}"
    "{% endif %}"
)

_CONSONANTS = "bcdfghjklmnprstvwxyz"
_VOWELS = "aeiou"
_SPACE = "\u0120"  # how byte-level BPE writes a leading space


def byte_symbols() -> list[str]:
    """Return the printable stand-ins of the 256 bytes."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    symbols: list[str] = []
    stand_in = 256
    for byte in range(N_BYTES):
        if byte in printable:
            symbols.append(chr(byte))
        else:
            symbols.append(chr(stand_in))
            stand_in += 1
    return symbols


def words_and_merges(count: int) -> tuple[list[str], list[str]]:
    """Return ``count`` merged entries and the merge that makes each, lowest rank first.

    Raises:
        ConfigError: if so many cannot be made.
    """
    syllables = [c + v for c, v in product(_CONSONANTS, _VOWELS)]
    pairs: list[tuple[str, str]] = list(product(_CONSONANTS, _VOWELS))
    pairs += [(_SPACE, s) for s in syllables]
    pairs += [(_SPACE + a, b) for a, b in product(syllables, repeat=2)]
    longer = ((_SPACE + a + b, c) for a, b, c in product(syllables, repeat=3))
    pairs += islice(longer, max(0, count - len(pairs)))
    if len(pairs) < count:
        raise ConfigError(f"cannot make a vocabulary of {count} words, at most {len(pairs)}")
    pairs = pairs[:count]
    return [left + right for left, right in pairs], [f"{left} {right}" for left, right in pairs]


def vocabulary_metadata(n_vocab: int) -> dict[str, MetaValue | Typed]:
    """Return the ``tokenizer.*`` keys of a vocabulary with ``n_vocab`` entries."""
    n_words = n_vocab - N_BYTES - len(SPECIAL_TOKENS)
    if n_words < 1:
        raise ConfigError(f"a vocabulary has at least {N_BYTES + len(SPECIAL_TOKENS) + 1} entries")
    words, merges = words_and_merges(n_words)
    types = [1] * (n_vocab - len(SPECIAL_TOKENS)) + [3] * len(SPECIAL_TOKENS)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen35",
        "tokenizer.ggml.tokens": [*byte_symbols(), *words, *SPECIAL_TOKENS],
        "tokenizer.ggml.token_type": Typed(ValueType.INT32, types),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": n_vocab - 3,
        "tokenizer.ggml.eos_token_id": n_vocab - 1,
        "tokenizer.ggml.padding_token_id": n_vocab - 3,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }
