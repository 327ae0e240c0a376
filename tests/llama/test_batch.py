from __future__ import annotations

import pytest

from moestream.llama.batch import Batch


def rows(batch: Batch) -> list[tuple[int, int, int]]:
    raw = batch.raw
    return [(raw.token[i], raw.pos[i], raw.logits[i]) for i in range(raw.n_tokens)]


def test_fill_sets_tokens_positions_and_the_last_logits_flag() -> None:
    batch = Batch(8)
    batch.fill([5, 6, 7], 10)
    assert rows(batch) == [(5, 10, 0), (6, 11, 0), (7, 12, 1)]
    assert len(batch) == 3


def test_fill_leaves_nothing_of_an_earlier_fill() -> None:
    batch = Batch(4)
    batch.fill([1, 2, 3, 4], 0, logits="all")
    assert rows(batch) == [(1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 3, 1)]
    batch.fill([9, 8], 100, logits="none")
    assert rows(batch) == [(9, 100, 0), (8, 101, 0)]
    batch.fill_one(3, 7)
    assert rows(batch) == [(3, 7, 1)]


def test_every_row_belongs_to_sequence_zero() -> None:
    batch = Batch(3)
    batch.fill([1, 2, 3], 0)
    assert [batch.raw.n_seq_id[i] for i in range(3)] == [1, 1, 1]
    assert [batch.raw.seq_id[i][0] for i in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("tokens", [[], [1, 2, 3]])
def test_a_batch_refuses_what_it_cannot_hold(tokens: list[int]) -> None:
    with pytest.raises(ValueError, match="2 rows cannot hold"):
        Batch(2).fill(tokens, 0)
