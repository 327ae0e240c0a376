"""The best of a row of logits, and how sure it is; one pass over the row each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from moestream.llama.runtime import runtime

__all__ = ["Logits", "best_probability", "best_tokens"]

#: ``[n_vocab]`` or ``[rows, n_vocab]``.
Logits = npt.NDArray[np.float32]


def best_tokens(logits: Logits) -> list[tuple[int, float]]:
    """The most likely token of each row ``[rows, n_vocab]``, the lowest of equals, and its logit.

    The logit is NaN where any of the row's is.
    """
    best = runtime().core.best_logit
    rows = np.ascontiguousarray(logits)
    n, stride, address = rows.shape[1], rows.strides[0], rows.ctypes.data
    return [best(address + row * stride, n) for row in range(len(rows))]


def best_probability(logits: Logits, best: float) -> float:
    """Probability of a row's most likely token, whose logit is ``best``, under a softmax."""
    probability: float = runtime().core.best_probability(logits.ctypes.data, len(logits), best)
    return probability
