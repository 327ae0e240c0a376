"""Run a GGUF in llama.cpp on the windows of ``reference.py`` and report the differences.

    python compare.py moestream-nano.gguf ref.npz

Needs llama-cpp-python and NumPy only (not torch). Check an F32 export by the *maximum*
difference: a wrong rotary setting can leave the top choice right in 99 of 100 rows. Only where two
experts are all but tied may rounding choose another one: a few rows then differ visibly, all
others agree to about 1e-3.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "100")

import llama_cpp
import numpy as np
from llama_cpp import llama_cpp_ext
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@llama_cpp.llama_log_callback
def _silent(level: int, text: bytes, user_data: int) -> None:
    """Swallow llama.cpp's log."""


class Context:
    """One llama.cpp context (of the trunk or of the MTP head) that decodes a window at a time."""

    def __init__(self, model: Any, rows: int, mtp: bool) -> None:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = max(512, rows)
        params.n_threads = params.n_threads_batch = 2
        if mtp:
            params.ctx_type = llama_cpp.LLAMA_CONTEXT_TYPE_MTP
        self.handle = llama_cpp.llama_init_from_model(model, params)
        self.width = llama_cpp.llama_model_n_embd(model)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
        llama_cpp_ext.llama_set_embeddings_nextn(self.handle, True, mtp)
        self.batch = llama_cpp.llama_batch_init(rows, self.width if mtp else 0, 1)
        self._tokens = (llama_cpp.llama_token * rows)()
        if mtp:  # such a batch carries tokens and embeddings
            self.batch.token = self._tokens
            flat = np.ctypeslib.as_array(self.batch.embd, shape=(rows * self.width,))
            self.inputs = flat.reshape(rows, self.width)

    def decode(self, tokens: NDArray[np.int64], previous_hidden: Floats | None = None) -> Floats:
        """Logits of all rows of a fresh sequence."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.handle), True)
        self.batch.n_tokens = len(tokens)
        for row, token in enumerate(tokens):
            self.batch.token[row] = int(token)
            self.batch.pos[row] = row
            self.batch.n_seq_id[row] = 1
            self.batch.seq_id[row][0] = 0
            self.batch.logits[row] = 1
        if previous_hidden is not None:
            self.inputs[: len(tokens)] = previous_hidden
        if llama_cpp.llama_decode(self.handle, self.batch):
            raise RuntimeError("llama_decode failed")
        rows = [
            np.ctypeslib.as_array(
                llama_cpp.llama_get_logits_ith(self.handle, row), shape=(self.vocabulary,)
            ).copy()
            for row in range(len(tokens))
        ]
        return np.stack(rows)

    def hidden(self, rows: int) -> Floats:
        """Hidden rows of the last decode, as the MTP head wants them."""
        pointer = llama_cpp_ext.llama_get_embeddings_nextn(self.handle)
        return np.ctypeslib.as_array(pointer, shape=(rows, self.width)).copy()


def log_softmax(logits: Floats) -> Floats:
    """Over the last axis."""
    shifted = logits - logits.max(-1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def compare(model_path: str, reference_path: str) -> dict[str, float]:
    """All figures, averaged (or maximised) over the windows."""
    llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    params = llama_cpp.llama_model_default_params()
    params.load_mtp = True
    model = llama_cpp.llama_model_load_from_file(model_path.encode(), params)
    if not model:
        raise RuntimeError(f"llama.cpp does not load {model_path}")
    reference = np.load(reference_path)
    count = reference["tokens"].shape[1] - 1
    trunk, head = Context(model, count, mtp=False), Context(model, count, mtp=True)
    columns: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        columns.setdefault(name, []).append(float(value))

    for tokens, hidden, logits, mtp_logits in zip(
        reference["tokens"], reference["hidden"], reference["logits"], reference["mtp_logits"],
        strict=True,
    ):  # fmt: skip
        ours = trunk.decode(tokens[:-1])
        our_hidden = trunk.hidden(count)
        shifted = np.vstack([np.zeros_like(our_hidden[:1]), our_hidden[:-1]])
        drafted = head.decode(tokens[:-1], shifted)
        difference = np.abs(ours - logits).max(-1)
        note("trunk_max_difference", difference.max())
        note("trunk_rows_within_0.01", (difference < 0.01).mean())
        note("trunk_same_top_1", (ours.argmax(-1) == logits.argmax(-1)).mean())
        note("hidden_max_difference", np.abs(our_hidden - hidden).max())
        mtp_difference = np.abs(drafted - mtp_logits).max(-1)
        note("mtp_max_difference", mtp_difference.max())
        note("mtp_rows_within_0.01", (mtp_difference < 0.01).mean())
        note("mtp_same_top_1", (drafted.argmax(-1) == mtp_logits.argmax(-1)).mean())
        note("mtp_agrees_with_trunk", (drafted.argmax(-1) == ours.argmax(-1)).mean())
        rows = np.arange(count)
        note("loss", -log_softmax(ours)[rows, tokens[1:]].mean())
        note("loss_torch", -log_softmax(logits)[rows, tokens[1:]].mean())
    return {
        name: max(values) if "max" in name else sum(values) / len(values)
        for name, values in columns.items()
    }


if __name__ == "__main__":
    for label, figure in compare(sys.argv[1], sys.argv[2]).items():
        print(f"{label:24} {figure:.5f}")
