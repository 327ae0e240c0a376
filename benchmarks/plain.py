"""The baseline: a plain greedy loop over llama-cpp-python's low-level API, nothing else.

Nothing of moestream is in it on purpose: what it is to convict must not be its witness. The cell
`plain` of `moestream bench` measures the same through the package.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "100")  # as moestream does; see docs/seam.md

import llama_cpp.llama_cpp as llama
import numpy as np

_SILENT: Any = llama.llama_log_callback(lambda _level, _text, _data: None)


class PlainModel:
    """A model resident or mapped by llama.cpp's own loader, and one context."""

    def __init__(
        self, path: str, *, mmap: bool, repack: bool, threads: int, n_ctx: int, n_ubatch: int
    ) -> None:
        llama.llama_log_set(_SILENT, ctypes.c_void_p(0))
        llama.llama_backend_init()
        params = llama.llama_model_default_params()
        params.load_mode = 1 if mmap else 0
        params.use_extra_bufts = repack
        params.load_mtp = False
        started = time.perf_counter()
        self.model = llama.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        options = llama.llama_context_default_params()
        options.n_ctx = n_ctx
        options.n_batch = n_ubatch
        options.n_ubatch = n_ubatch
        options.n_threads = options.n_threads_batch = threads
        options.no_perf = True
        self.context = llama.llama_init_from_model(self.model, options)
        if not self.context:
            raise SystemExit("llama.cpp cannot make a context")
        self.load_s = time.perf_counter() - started
        vocab = llama.llama_model_get_vocab(self.model)
        self.n_vocab = llama.llama_vocab_n_tokens(vocab)
        self._batch = llama.llama_batch_init(n_ubatch, 0, 1)
        self._n_ubatch = n_ubatch

    def clear(self) -> None:
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)

    def prefill(self, tokens: list[int]) -> int:
        """Evaluate the prompt; the next token."""
        for begin in range(0, len(tokens), self._n_ubatch):
            chunk = tokens[begin : begin + self._n_ubatch]
            self.decode(chunk, begin, last=begin + len(chunk) == len(tokens))
        return self._argmax((len(tokens) - 1) % self._n_ubatch)

    def generate(self, token: int, position: int) -> Iterator[tuple[int, float]]:
        """Greedy tokens with the seconds each took, for ever."""
        while True:
            started = time.perf_counter()
            self.decode([token], position, last=True)
            token = self._argmax(0)
            position += 1
            yield token, time.perf_counter() - started

    def decode(self, tokens: list[int], position: int, *, last: bool) -> None:
        batch = self._batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = position + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = last and i == len(tokens) - 1
        if llama.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama_decode failed")

    def _argmax(self, row: int) -> int:
        logits = llama.llama_get_logits_ith(self.context, row)
        return int(np.ctypeslib.as_array(logits, shape=(self.n_vocab,)).argmax())
