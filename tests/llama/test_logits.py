from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moestream.llama.logits import LogitRows, Logits

SIZES = (1, 3, 15, 16, 17, 63, 64, 65, 32_767, 32_768, 32_769, 50_000)


def best_tokens(logits: Logits) -> list[tuple[int, float]]:
    rows = LogitRows.of(logits)
    return [rows.best(row) for row in range(rows.n_rows)]


@given(st.integers(0, 2**32 - 1), st.sampled_from(SIZES), st.integers(1, 3), st.booleans())
def test_the_best_is_what_numpy_finds(seed: int, n: int, rows: int, coarse: bool) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=8, size=(rows, n)).astype(np.float32)
    if coarse:  # many equals: the lowest one counts
        logits = np.round(logits / 8)
    expected = logits.argmax(axis=1)
    assert best_tokens(logits) == [(int(i), float(logits[r, i])) for r, i in enumerate(expected)]


@pytest.mark.parametrize("n", SIZES)
def test_a_row_with_something_that_is_no_number_says_so(n: int) -> None:
    for at in {0, n // 2, n - 1}:
        logits = np.zeros((2, n), np.float32)
        logits[1, at] = np.nan
        (_, first), (_, second) = best_tokens(logits)
        assert first == 0.0
        assert np.isnan(second)


def test_infinities_are_values_like_others() -> None:
    logits = np.full((3, 20), -np.inf, np.float32)
    logits[1, 7] = 2.0
    logits[2, 9] = np.inf
    assert best_tokens(logits) == [(0, -np.inf), (7, 2.0), (9, np.inf)]
    assert LogitRows.of(logits).best_probability(1, 2.0) == pytest.approx(1.0, rel=1e-4)


@given(st.integers(0, 2**32 - 1), st.sampled_from(SIZES), st.floats(0.01, 30))
def test_the_probability_is_that_of_a_softmax(seed: int, n: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=scale, size=n).astype(np.float32)
    top = float(logits.max())
    exact = 1 / np.exp(logits.astype(np.float64) - top).sum()
    assert LogitRows.of(logits[None]).best_probability(0, top) == pytest.approx(exact, rel=2e-4)
