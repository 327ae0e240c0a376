"""The baseline: a model mapped by llama.cpp's own loader, and a greedy loop, nothing else.

What llama.cpp does by itself with a model that is bigger than memory: pages of the file come and
go as the kernel sees fit. Its rearranged weights are left out, for they are copies and would need
the memory that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from moestream.errors import DecodeError, ModelError
from moestream.llama.batch import Batch
from moestream.llama.context import Context, ContextOptions
from moestream.llama.model import Model
from moestream.llama.runtime import runtime

__all__ = ["PlainLoop"]


class PlainLoop:
    """A mapped model and one context. Close it."""

    def __init__(self, path: Path, *, n_ctx: int | None, n_ubatch: int, threads: int) -> None:
        """Map ``path`` (of a split model: its first shard).

        Args:
            path: a GGUF.
            n_ctx: context in tokens; ``None`` takes the smaller of the model's and 4096.
            n_ubatch: prompt tokens per decode.
            threads: compute threads.

        Raises:
            ModelError: llama.cpp refused the file.
            MemoryBudgetError: there is no room for the context.
        """
        self.model = _map(path)
        try:
            window = min(self.model.n_ctx_train, 4096) if n_ctx is None else n_ctx
            options = ContextOptions(n_ctx=window, n_ubatch=min(n_ubatch, window), threads=threads)
            self.context = Context(self.model, options)
        except BaseException:
            self.model.close()
            raise
        self._batch = Batch(self.context.n_ubatch)
        self._position = 0

    def prefill(self, tokens: Sequence[int]) -> int:
        """Forget the past and evaluate ``tokens``; the most likely next one.

        Raises:
            DecodeError: llama.cpp failed.
        """
        self.context.clear()
        width = self.context.n_ubatch
        for begin in range(0, len(tokens), width):
            part = tokens[begin : begin + width]
            last = begin + len(part) == len(tokens)
            self._batch.fill(part, begin, logits="last" if last else "none")
            self._decode()
        self._position = len(tokens)
        return self._best()

    def step(self, token: int) -> int:
        """Evaluate one token; the most likely next one.

        Raises:
            DecodeError: llama.cpp failed.
        """
        self._batch.fill_one(token, self._position)
        self._decode()
        self._position += 1
        return self._best()

    @property
    def position(self) -> int:
        """Tokens in the context."""
        return self._position

    def close(self) -> None:
        """Free everything."""
        self.context.close()
        self.model.close()

    def __enter__(self) -> PlainLoop:
        """The loop itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Free everything."""
        self.close()

    def _decode(self) -> None:
        if not self.context.decode(self._batch):
            raise DecodeError("llama.cpp broke off a decode that nobody had asked it to")

    def _best(self) -> int:
        return self.context.logit_rows().best(0)[0]


def _map(path: Path) -> Model:
    rt = runtime()
    lib = rt.lib
    params = lib.llama_model_default_params()
    params.load_mode = lib.LLAMA_LOAD_MODE_MMAP
    params.use_extra_bufts = False
    params.load_mtp = False
    params.n_gpu_layers = 0
    with rt.loading() as mark:
        pointer = lib.llama_model_load_from_file(str(path).encode(), params)
        complaint = rt.log.complaint(mark)
    if not pointer:
        raise ModelError(f"llama.cpp could not map {path}: {complaint or 'no reason given'}")
    return Model(rt, pointer, path)
