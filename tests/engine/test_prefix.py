from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moestream.engine.prefix import History, Reuse, common_prefix, plan_reuse

tokens = st.lists(st.integers(0, 2), max_size=12)


def plan(
    held: list[int], prompt: list[int], *, can_trim: bool, checkpoint: int | None = None
) -> Reuse:
    return plan_reuse(
        np.array(held, np.int32),
        np.array(prompt, np.int32),
        can_trim=can_trim,
        checkpoint=checkpoint,
    )


@given(a=tokens, b=tokens)
def test_the_common_prefix_is_the_longest(a: list[int], b: list[int]) -> None:
    n = common_prefix(np.array(a, np.int32), np.array(b, np.int32))
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]


def test_an_extension_goes_on() -> None:
    for can_trim in (True, False):
        assert plan([1, 2], [1, 2, 3], can_trim=can_trim) == Reuse("extend", 2)


def test_attention_is_trimmed() -> None:
    assert plan([1, 2, 3, 4], [1, 2, 9], can_trim=True) == Reuse("trim", 2)


def test_the_last_token_is_evaluated_again() -> None:
    assert plan([1, 2, 3], [1, 2, 3], can_trim=True) == Reuse("trim", 2)
    assert plan([1, 2, 3], [1, 2], can_trim=True) == Reuse("trim", 1)
    assert plan([1, 2, 3], [1, 2, 3], can_trim=False) == Reuse("clear", 0)


def test_a_state_goes_back_to_its_checkpoint_or_to_the_start() -> None:
    assert plan([1, 2, 3, 4], [1, 2, 9], can_trim=False, checkpoint=2) == Reuse("restore", 2)
    assert plan([1, 2, 3, 4], [1, 9, 9], can_trim=False, checkpoint=2) == Reuse("clear", 0)
    assert plan([1, 2, 3], [1, 2, 3], can_trim=False, checkpoint=3) == Reuse("clear", 0)


@given(held=tokens, prompt=tokens.filter(bool), can_trim=st.booleans(), data=st.data())
def test_what_is_kept_is_a_true_prefix_with_something_left_to_evaluate(
    held: list[int], prompt: list[int], can_trim: bool, data: st.DataObject
) -> None:
    checkpoint = data.draw(st.none() | st.integers(1, max(len(held), 1)))
    reuse = plan(held, prompt, can_trim=can_trim, checkpoint=checkpoint)
    assert held[: reuse.keep] == prompt[: reuse.keep]
    assert reuse.keep < len(prompt)
    assert (reuse.action == "clear") == (reuse.keep == 0)
    if reuse.action == "extend":
        assert reuse.keep == len(held)
    if not can_trim:
        assert reuse.action != "trim"


def test_a_history_grows_and_shrinks() -> None:
    history = History(8)
    history.extend(np.array([1, 2, 3], np.int32))
    history.extend(np.array([4], np.int32))
    assert history.tokens.tolist() == [1, 2, 3, 4]
    history.truncate(9)
    assert len(history) == 4
    history.truncate(1)
    history.extend(np.array([7], np.int32))
    assert history.tokens.tolist() == [1, 7]
