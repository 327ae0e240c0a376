from __future__ import annotations

import doctest

from hypothesis import given
from hypothesis import strategies as st

from moestream.speculation import acceptance
from moestream.speculation.acceptance import AcceptanceTally, accepted_prefix, synthetic_acceptance

tokens = st.lists(st.integers(0, 2), max_size=8)


def test_examples() -> None:
    assert doctest.testmod(acceptance).failed == 0


@given(tokens, tokens, st.integers(0, 2))
def test_the_accepted_prefix_is_the_longest_that_agrees(
    drafts: list[int], own: list[int], free: int
) -> None:
    best = (own + [free] * len(drafts))[: len(drafts) + 1] or [free]
    accepted = accepted_prefix(drafts, best)
    assert drafts[:accepted] == best[:accepted]
    assert accepted == len(drafts) or drafts[accepted] != best[accepted]


def test_a_tally_judges_only_what_was_reached() -> None:
    tally = AcceptanceTally(3)
    tally.add(0, 0)
    tally.add(3, 1)
    tally.add(2, 2)
    assert (tally.steps, tally.drafted_steps, tally.drafted, tally.accepted) == (3, 2, 5, 3)
    assert tally.offered_at == [2, 2, 0]
    assert tally.accepted_at == [2, 1, 0]


def test_synthetic_acceptance_is_forced_and_repeatable() -> None:
    drafts, best = [1, 1, 1], [2, 2, 2, 2]
    assert synthetic_acceptance(1.0)(drafts, best) == 3
    assert synthetic_acceptance(0.0)(drafts, best) == 0
    first, second = synthetic_acceptance(0.6), synthetic_acceptance(0.6)
    draws = [first(drafts, best) for _ in range(2000)]
    assert draws == [second(drafts, best) for _ in range(2000)]
    offered = sum(min(draw + 1, 3) for draw in draws)
    assert abs(sum(draws) / offered - 0.6) < 0.03
