"""A context: the state of one conversation and the way to advance it."""

from __future__ import annotations

import ctypes
import re
import threading
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from moestream.errors import DecodeError, MemoryBudgetError
from moestream.llama.batch import Batch, HiddenRows
from moestream.llama.logits import LogitRows, Logits, floats_at
from moestream.llama.logs import LogLine
from moestream.llama.model import Model
from moestream.llama.runtime import returning_address, runtime

__all__ = [
    "BufferSizes",
    "Context",
    "ContextOptions",
    "Logits",
    "StateBuffer",
    "parse_buffer_sizes",
]

StateBuffer = npt.NDArray[np.uint8]

_SEQUENCE: Final = 0
_OK: Final = 0
_NO_SLOT: Final = 1
_ABORTED: Final = 2
_BUFFER_LINE: Final = re.compile(r"(KV|RS|output|compute) buffer size =\s*([0-9.]+) MiB")
_STATE_LINE: Final = re.compile(r"state buffer size =\s*([0-9.]+) MiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """How to make a context.

    Attributes:
        n_ctx: positions (llama.cpp rounds up to a multiple of 256).
        n_ubatch: rows of the widest decode.
        threads: compute threads.
        n_outputs: rows of one decode that may ask for logits.
        n_snapshots: positions that a recurrent state shall be able to go back.
        hidden: which rows' hidden states can be read after a decode: those of the target for its
            multi-token-prediction block, or those that the block itself makes. Of the latter only
            a batch of one row with logits is good for: which rows a wider one keeps differs from
            architecture to architecture.
        mtp: run the model's multi-token-prediction block instead of its trunk; the rows of a
            batch then need a hidden row each.
        eval_callback: function and user data addresses for ``cb_eval``.
        abort_callback: function and user data addresses for ``abort_callback``.
    """

    n_ctx: int
    n_ubatch: int
    threads: int
    n_outputs: int = 1
    n_snapshots: int = 0
    hidden: Literal["none", "all", "outputs"] = "none"
    mtp: bool = False
    eval_callback: tuple[int, int] | None = None
    abort_callback: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class BufferSizes:
    """Memory of a context in bytes, as llama.cpp reported it.

    ``known`` is false where the log had no such lines; the sizes are zero then, and whoever
    sizes a cache has to leave a margin instead.
    """

    kv: int
    recurrent: int
    compute: int
    output: int
    known: bool


class Context:
    """One sequence, decoded step by step. Not thread-safe: one decode at a time."""

    def __init__(self, model: Model, options: ContextOptions) -> None:
        """Make the context.

        Raises:
            MemoryBudgetError: llama.cpp could not allocate it; the message carries its reason.
        """
        rt = runtime()
        lib = rt.lib
        params = lib.llama_context_default_params()
        params.n_ctx = options.n_ctx
        params.n_batch = options.n_ubatch
        params.n_ubatch = options.n_ubatch
        params.n_outputs_max = options.n_outputs
        params.n_rs_seq = options.n_snapshots
        if options.mtp:
            params.ctx_type = lib.LLAMA_CONTEXT_TYPE_MTP
        params.n_threads = options.threads
        params.n_threads_batch = options.threads
        params.no_perf = True
        # Old positions of a sliding window stay, so that a prefix can be reused.
        params.swa_full = True
        if options.eval_callback is not None:
            function, data = options.eval_callback
            params.cb_eval = ctypes.cast(function, lib.ggml_backend_sched_eval_callback)
            params.cb_eval_user_data = data
        if options.abort_callback is not None:
            function, data = options.abort_callback
            params.abort_callback = ctypes.cast(function, lib.ggml_abort_callback)
            params.abort_callback_data = data

        with rt.loading() as mark:
            pointer = lib.llama_init_from_model(model.pointer, params)
            lines = rt.log.since(mark)
            complaint = rt.log.complaint(mark)
            if pointer and rt.log.interrupt is not None:
                lib.llama_free(pointer)
        if not pointer:
            raise MemoryBudgetError(
                f"llama.cpp could not make a context of {options.n_ctx} tokens with a micro-batch "
                f"of {options.n_ubatch}: {complaint or 'no reason given'}; "
                "a smaller context or micro-batch needs less memory"
            )
        self._rt = rt
        self._lib = lib
        self._pointer = pointer
        self._memory = lib.llama_get_memory(pointer)
        self._free_lock = threading.Lock()
        self._n_vocab = model.vocab.n_tokens
        self.options = options
        self.threads = options.threads
        self.n_ctx = int(lib.llama_n_ctx(pointer))
        self.n_ubatch = int(lib.llama_n_ubatch(pointer))
        #: Positions that the state can go back, once per decode; 0 where llama.cpp keeps none.
        self.n_snapshots = int(lib.llama_n_rs_seq(pointer)) if model.keeps_state else 0
        self.n_embd = model.n_embd
        self.buffers = parse_buffer_sizes(lines)
        self._logits_at = returning_address(
            lib.llama_get_logits_ith, ctypes.c_void_p, ctypes.c_int32
        )
        if options.hidden != "none":
            self._hidden_at = returning_address(
                rt.nextn.llama_get_embeddings_nextn, ctypes.c_void_p
            )
            rt.nextn.llama_set_embeddings_nextn(pointer, True, options.hidden == "outputs")

    @property
    def late_bytes(self) -> int:
        """Memory that llama.cpp allocates at the first decode and does not report before.

        It reserves one row of logits; more of them, and hidden states, come when they are wanted.
        """
        options = self.options
        rows = {"none": 0, "all": self.n_ubatch, "outputs": options.n_outputs}[options.hidden]
        return 4 * ((options.n_outputs - 1) * self._n_vocab + rows * self.n_embd)

    @property
    def pointer(self) -> Any:
        """``llama_context *``."""
        if self._pointer is None:
            raise RuntimeError("the context has been freed")
        return self._pointer

    def set_threads(self, threads: int) -> None:
        """Use ``threads`` compute threads from the next decode on."""
        self._lib.llama_set_n_threads(self.pointer, threads, threads)
        self.threads = threads

    def decode(self, batch: Batch) -> bool:
        """Evaluate the batch; ``False`` if it was aborted. Releases the GIL.

        Raises:
            DecodeError: llama.cpp had no room for the rows, or failed.
        """
        # llama.cpp aborts the process on these two instead of refusing them.
        if not 1 <= len(batch) <= self.n_ubatch or batch.n_outputs > self.options.n_outputs:
            raise DecodeError(
                f"a batch of {len(batch)} rows with {batch.n_outputs} outputs does not fit a "
                f"context made for {self.n_ubatch} rows with {self.options.n_outputs}"
            )
        mark = self._rt.log.mark()
        code = self._lib.llama_decode(self.pointer, batch.raw)
        self._rt.raise_interrupt()
        if code == _OK:
            return True
        if code == _ABORTED:
            return False
        if code == _NO_SLOT:
            raise DecodeError(
                f"llama.cpp found no room for {len(batch)} more tokens in a context of "
                f"{self.n_ctx}; reset the session or give it a larger context"
            )
        complaint = self._rt.log.complaint(mark)
        raise DecodeError(f"llama.cpp failed to decode (code {code}): {complaint}")

    def logits(self, row: int = -1) -> Logits:
        """Logits of a row of the last decode, as a view that the next decode overwrites.

        Args:
            row: index into the batch; negative counts from the last row that has logits.

        Raises:
            DecodeError: the row has none.
        """
        view: Logits = floats_at(self._logits_address(row), 1, self._n_vocab)[0]
        return view

    def logit_rows(self, rows: int = 1) -> LogitRows:
        """Logits of a decode whose last row had them, or all of its ``rows`` rows.

        Raises:
            DecodeError: a row has none.
        """
        last = self._logits_address(-1)
        first = last if rows == 1 else self._logits_address(0)
        if last - first != (rows - 1) * self._n_vocab * 4:
            raise DecodeError("llama.cpp did not keep the rows' logits in order")
        return LogitRows(first, rows, self._n_vocab)

    def hidden_rows(self, rows: int) -> HiddenRows:
        """Hidden states ``[rows, n_embd]`` of the last decode, a view that the next overwrites.

        With ``hidden="all"`` a row for each row of the batch.

        Raises:
            DecodeError: llama.cpp kept none.
        """
        address = self._hidden_at(self.pointer)
        if not address:
            raise DecodeError("llama.cpp kept no hidden states of the last batch")
        return floats_at(address, rows, self.n_embd)

    def trim(self, position: int) -> bool:
        """Forget everything at ``position`` and after; ``False`` if this model cannot."""
        return bool(self._lib.llama_memory_seq_rm(self._memory, _SEQUENCE, position, -1))

    def clear(self, *, data: bool = False) -> None:
        """Forget everything; ``data`` also zeroes the buffers.

        Masked positions still take part in the arithmetic on some paths, so what a failed decode
        may have left there (infinities, say) must not stay.
        """
        self._lib.llama_memory_clear(self._memory, data)

    def last_position(self) -> int:
        """Highest position held, -1 if none."""
        return int(self._lib.llama_memory_seq_pos_max(self._memory, _SEQUENCE))

    def save_state(self, *, partial: bool) -> StateBuffer:
        """Copy of the sequence's state; ``partial`` takes only what cannot be trimmed.

        Raises:
            DecodeError: llama.cpp did not write the state.
        """
        flags = self._state_flags(partial)
        size = int(self._lib.llama_state_seq_get_size_ext(self.pointer, _SEQUENCE, flags))
        buffer: StateBuffer = np.empty(size, np.uint8)
        written = int(
            self._lib.llama_state_seq_get_data_ext(
                self.pointer, _bytes_pointer(buffer), size, _SEQUENCE, flags
            )
        )
        if written == 0 or written > size:
            raise DecodeError(f"llama.cpp wrote {written} of {size} bytes of state")
        return buffer[:written]

    def restore_state(self, state: StateBuffer, *, partial: bool) -> bool:
        """Put back what :meth:`save_state` returned; ``False`` if llama.cpp refuses it."""
        read = int(
            self._lib.llama_state_seq_set_data_ext(
                self.pointer,
                _bytes_pointer(state),
                state.nbytes,
                _SEQUENCE,
                self._state_flags(partial),
            )
        )
        return read == state.nbytes

    def scrub(self) -> None:
        """Zero the buffers, but for what is held: for leftovers of an aborted decode."""
        if self.last_position() < 0:
            self.clear(data=True)
            return
        state = self.save_state(partial=False)
        self.clear(data=True)
        if not self.restore_state(state, partial=False):
            self.clear(data=True)
            raise DecodeError("llama.cpp did not take back the state it had saved")

    def close(self) -> None:
        """Free the context, once."""
        with self._free_lock:
            pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self._memory = None
            self._lib.llama_free(pointer)

    def _logits_address(self, row: int) -> int:
        address: int | None = self._logits_at(self.pointer, row)
        if not address:
            raise DecodeError(f"llama.cpp has no logits for row {row} of the last batch")
        return address

    def _state_flags(self, partial: bool) -> int:
        return int(self._lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) if partial else 0


def parse_buffer_sizes(lines: list[LogLine]) -> BufferSizes:
    """Buffer sizes out of llama.cpp's log; there is no call that returns them."""
    totals = {"KV": 0, "RS": 0, "output": 0, "compute": 0}
    seen: set[str] = set()
    for line in lines:
        match = _BUFFER_LINE.search(line.text)
        if match is not None:
            totals[match[1]] += _mib(match[2])
            seen.add(match[1])
            continue
        match = _STATE_LINE.search(line.text)
        if match is not None:
            totals["RS"] += _mib(match[1])
    return BufferSizes(
        kv=totals["KV"],
        recurrent=totals["RS"],
        compute=totals["compute"],
        output=totals["output"],
        known="compute" in seen,
    )


def _mib(text: str) -> int:
    return round(float(text) * 2**20)


def _bytes_pointer(buffer: StateBuffer) -> Any:
    return buffer.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
