"""Text to token ids and back."""

from __future__ import annotations

import ctypes
from typing import Any

from moestream.errors import ModelError
from moestream.llama.runtime import Runtime

__all__ = ["Vocab"]

_PIECE_BYTES = 256


class Vocab:
    """The tokenizer of a loaded model. Valid as long as the model is."""

    def __init__(self, runtime: Runtime, pointer: Any) -> None:
        """Wrap ``llama_vocab *``."""
        lib = runtime.lib
        self._lib = lib
        self._pointer = pointer
        self._pieces: dict[tuple[int, bool], bytes] = {}
        self.n_tokens = int(lib.llama_vocab_n_tokens(pointer))
        self.bos = _token_or_none(lib.llama_vocab_bos(pointer))
        self.eos = _token_or_none(lib.llama_vocab_eos(pointer))
        self.eot = _token_or_none(lib.llama_vocab_eot(pointer))
        self.adds_bos = bool(lib.llama_vocab_get_add_bos(pointer))
        self.suppressed = self._read_suppressed()

    def tokenize(
        self, text: str, *, add_special: bool = True, parse_special: bool = True
    ) -> list[int]:
        """Token ids of ``text``.

        Args:
            text: what to tokenize.
            add_special: add the begin token (and the end token) where the model wants them.
            parse_special: read ``<|im_end|>`` and the like as the tokens they name.
        """
        data = text.encode("utf-8", errors="replace")
        capacity = len(data) + 8
        for _ in range(2):
            buffer = (ctypes.c_int32 * capacity)()
            count = self._lib.llama_tokenize(
                self._pointer, data, len(data), buffer, capacity, add_special, parse_special
            )
            if count >= 0:
                return list(buffer[:count])
            capacity = -count
            if capacity >= 2**31 - 1:
                break
        raise ModelError(f"llama.cpp could not tokenize a text of {len(data)} bytes")

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Bytes of one token; control tokens are empty unless ``special``."""
        key = (token, special)
        cached = self._pieces.get(key)
        if cached is None:
            cached = self._pieces[key] = self._read_piece(token, special)
        return cached

    def is_eog(self, token: int) -> bool:
        """Whether ``token`` ends a generation."""
        return bool(self._lib.llama_vocab_is_eog(self._pointer, token))

    def text(self, token: int | None) -> str:
        """A token's name as templates spell it; empty for ``None``."""
        if token is None:
            return ""
        return self.piece(token, special=True).decode("utf-8", errors="replace")

    def _read_piece(self, token: int, special: bool) -> bytes:
        size = _PIECE_BYTES
        for _ in range(2):
            buffer = ctypes.create_string_buffer(size)
            count = self._lib.llama_token_to_piece(self._pointer, token, buffer, size, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            size = -count
        raise ModelError(f"llama.cpp has no text for token {token}")

    def _read_suppressed(self) -> frozenset[int]:
        count = ctypes.c_int32(0)
        tokens = self._lib.llama_vocab_get_suppress_tokens(self._pointer, ctypes.byref(count))
        if not tokens or count.value <= 0:
            return frozenset()
        return frozenset(int(token) for token in tokens[: count.value])


def _token_or_none(token: int) -> int | None:
    return int(token) if token >= 0 else None
