"""A preallocated ``llama_batch`` over NumPy arrays: filling it costs no Python loop."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from moestream.llama.runtime import runtime

__all__ = ["Batch", "HiddenRows", "TokenArray"]

TokenArray = npt.NDArray[np.int32]
#: ``[rows, n_embd]``: what a model's trunk says of each row, before the output matrix.
HiddenRows = npt.NDArray[np.float32]

_FEW_ROWS = 16


class Batch:
    """Rows of one sequence at consecutive positions."""

    def __init__(self, capacity: int, *, n_embd: int = 0) -> None:
        """Allocate ``capacity`` rows; with ``n_embd`` each also has a hidden row as input."""
        lib = runtime().lib
        self.capacity = capacity
        #: Rows that ask for logits.
        self.n_outputs = 0
        self._token: TokenArray = np.zeros(capacity, np.int32)
        self._pos: TokenArray = np.zeros(capacity, np.int32)
        self._steps: TokenArray = np.arange(capacity, dtype=np.int32)
        self._n_seq_id: TokenArray = np.ones(capacity, np.int32)
        self._logits: npt.NDArray[np.int8] = np.zeros(capacity, np.int8)
        # The same arrays, for setting single elements: a tenth of what NumPy takes for that.
        self._items = self._token.data, self._pos.data, self._logits.data
        # One sequence only, so every row points at the same sequence id.
        self._seq_zero = (ctypes.c_int32 * 1)(0)
        address = ctypes.addressof(self._seq_zero)
        self._seq_id = (ctypes.c_void_p * (capacity + 1))(*([address] * capacity), None)

        int32_pointer = ctypes.POINTER(ctypes.c_int32)
        self.raw: Any = lib.llama_batch()
        self.raw.n_tokens = 0
        self.raw.token = self._token.ctypes.data_as(int32_pointer)
        self.raw.pos = self._pos.ctypes.data_as(int32_pointer)
        self.raw.n_seq_id = self._n_seq_id.ctypes.data_as(int32_pointer)
        self.raw.seq_id = ctypes.cast(self._seq_id, ctypes.POINTER(ctypes.POINTER(ctypes.c_int32)))
        self.raw.logits = self._logits.ctypes.data_as(ctypes.POINTER(ctypes.c_int8))
        #: Input of a context of the MTP type: the hidden row that belongs to each token.
        self.hidden: HiddenRows = np.zeros((capacity if n_embd else 0, n_embd), np.float32)
        if n_embd:
            self.raw.embd = self.hidden.ctypes.data_as(ctypes.POINTER(ctypes.c_float))

    def fill(
        self,
        tokens: TokenArray | Sequence[int],
        position: int,
        *,
        logits: Literal["last", "all", "none"] = "last",
    ) -> None:
        """Set the rows to ``tokens`` at ``position`` and the positions after it.

        Raises:
            ValueError: no tokens, or more than the batch has rows for.
        """
        n = len(tokens)
        if not 1 <= n <= self.capacity:
            raise ValueError(f"a batch of {self.capacity} rows cannot hold {n} tokens")
        if n <= _FEW_ROWS:
            token_at, pos_at, logits_at = self._items
            wanted = logits == "all"
            for row, token in enumerate(tokens):
                token_at[row] = int(token)
                pos_at[row] = position + row
                logits_at[row] = wanted
        else:
            self._token[:n] = tokens
            np.add(self._steps[:n], position, out=self._pos[:n])
            self._logits[:n] = logits == "all"
        if logits == "last":
            self._logits[n - 1] = 1
        self.n_outputs = {"last": 1, "all": n, "none": 0}[logits]
        self.raw.n_tokens = n

    def fill_one(self, token: int, position: int) -> None:
        """Set a single row with logits: the decode step."""
        token_at, pos_at, logits_at = self._items
        token_at[0] = token
        pos_at[0] = position
        logits_at[0] = 1
        self.n_outputs = 1
        self.raw.n_tokens = 1

    @property
    def first_position(self) -> int:
        """Position of the first row."""
        return int(self._items[1][0])

    def __len__(self) -> int:
        """Rows in use."""
        return int(self.raw.n_tokens)
