"""Three matchers of one definition: brute force, find_draft, NgramIndex."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moestream.errors import ConfigError
from moestream.speculation import ngram
from moestream.speculation.ngram import NgramIndex, NgramMatch, find_draft


def brute_force(
    corpus: list[int], *, width: int, min_match: int, max_match: int
) -> NgramMatch | None:
    """The definition, word for word."""
    best: tuple[int, int] = (0, 0)
    for end in range(len(corpus)):
        for length in range(1, min(end, max_match) + 1):
            if corpus[end - length : end] == corpus[len(corpus) - length :]:
                best = max(best, (length, end))
    length, end = best
    if length < min_match:
        return None
    return NgramMatch(end, length, tuple(corpus[end : end + width]))


def lookup(
    corpus: list[int], *, width: int = 4, min_match: int = 3, max_match: int = 32
) -> NgramMatch | None:
    """What find_draft says, having made sure that an index says it too."""
    lengths = {"min_match": min_match, "max_match": max_match}
    found = find_draft(np.array(corpus, np.int32), width=width, **lengths)
    index = NgramIndex(**lengths)
    index.extend(corpus)
    assert index.propose(width) == found
    return found


def periodic(period: list[int], breaks: list[int]) -> list[int]:
    """Pieces of ``period`` over and over, of the lengths ``breaks``, each ended by a 9."""
    return [t for n in breaks for t in [*(period[i % len(period)] for i in range(n)), 9]]


pieces = st.one_of(
    st.lists(st.integers(0, 1), max_size=40),
    st.lists(st.integers(0, 3), max_size=40),
    st.builds(lambda token, n: [token] * n, st.integers(0, 1), st.integers(0, 40)),
    st.builds(
        periodic,
        st.lists(st.integers(0, 1), min_size=1, max_size=5),
        st.lists(st.integers(0, 12), max_size=5),
    ),
)
corpora = st.lists(pieces, max_size=3).map(lambda parts: [t for part in parts for t in part])
match_settings = st.tuples(st.integers(1, 12), st.integers(1, 12)).map(sorted)


@given(corpus=corpora, width=st.integers(1, 6), lengths=match_settings)
def test_find_draft_is_the_definition(corpus: list[int], width: int, lengths: list[int]) -> None:
    min_match, max_match = lengths
    assert find_draft(
        np.array(corpus, np.int32), width=width, min_match=min_match, max_match=max_match
    ) == brute_force(corpus, width=width, min_match=min_match, max_match=max_match)


class InStep(RuleBasedStateMachine):
    """Whatever is done to an index, it says what find_draft says of a plain list."""

    @initialize(lengths=match_settings)
    def make(self, lengths: list[int]) -> None:
        self.min_match, self.max_match = lengths
        self.index = NgramIndex(self.min_match, self.max_match)
        self.corpus: list[int] = []

    @rule(tokens=corpora)
    def extend(self, tokens: list[int]) -> None:
        self.index.extend(tokens)
        self.corpus += tokens

    @rule(token=st.integers(0, 2))
    def append(self, token: int) -> None:
        self.index.append(token)
        self.corpus.append(token)

    @rule(dropped=st.integers(0, 4))
    def roll_back(self, dropped: int) -> None:
        self.truncate(max(len(self.corpus) - dropped, 0))

    @rule(data=st.data())
    def roll_back_far(self, data: st.DataObject) -> None:
        self.truncate(data.draw(st.integers(0, len(self.corpus) + 1)))

    def truncate(self, length: int) -> None:
        self.index.truncate(length)
        del self.corpus[length:]

    @rule(data=st.data(), rest=corpora)
    def sync(self, data: st.DataObject, rest: list[int]) -> None:
        keep = data.draw(st.integers(0, len(self.corpus)))
        self.corpus = self.corpus[:keep] + rest
        self.index.sync(np.array(self.corpus, np.int32))

    @rule()
    def draft_what_comes(self) -> None:
        match = self.index.propose(3)
        if match is not None:
            self.extend(list(match.draft))

    @invariant()
    def says_what_find_draft_says(self) -> None:
        assert len(self.index) == len(self.corpus)
        assert self.index.tokens.tolist() == self.corpus
        for width in (1, 5):
            assert self.index.propose(width) == find_draft(
                np.array(self.corpus, np.int32),
                width=width,
                min_match=self.min_match,
                max_match=self.max_match,
            )


TestInStep = InStep.TestCase
TestInStep.settings = settings(max_examples=50, stateful_step_count=30)


@given(corpus=corpora, lengths=match_settings)
def test_an_index_is_in_step_after_every_token_forth_and_back(
    corpus: list[int], lengths: list[int]
) -> None:
    min_match, max_match = lengths
    index = NgramIndex(min_match, max_match)
    said = [index.propose(4)]
    for i, token in enumerate(corpus):
        index.append(token)
        said.append(index.propose(4))
        assert said[-1] == find_draft(
            np.array(corpus[: i + 1], np.int32), width=4, min_match=min_match, max_match=max_match
        )
    for length in reversed(range(len(corpus))):
        index.truncate(length)
        assert index.propose(4) == said[length]


@given(corpus=corpora, other=corpora, lengths=match_settings)
def test_taking_back_leaves_no_trace(
    corpus: list[int], other: list[int], lengths: list[int]
) -> None:
    def inside(index: NgramIndex) -> dict[str, Any]:
        hidden = ("_array", "_tokens")  # room for tokens, which may be more
        return {k: v for k, v in vars(index).items() if k not in hidden}

    untouched = NgramIndex(*lengths)
    untouched.extend(corpus)
    index = NgramIndex(*lengths)
    index.extend(corpus)
    index.extend(other)
    index.truncate(len(corpus))
    assert inside(index) == inside(untouched)


def test_the_examples_in_the_docstrings_are_true() -> None:
    result = doctest.testmod(ngram)
    assert result.attempted > 0
    assert result.failed == 0


def test_nothing_is_drafted_of_nothing() -> None:
    assert lookup([]) is None
    assert lookup([1], min_match=1) is None


def test_a_short_match_is_none() -> None:
    assert lookup([1, 2, 5, 1, 2]) is None
    assert lookup([1, 2, 5, 1, 2], min_match=2) == NgramMatch(2, 2, (5, 1, 2))


def test_a_corpus_no_longer_than_the_least_match_has_none() -> None:
    assert lookup([1, 1, 1]) is None
    assert lookup([1, 1, 1, 1]) == NgramMatch(3, 3, (1,))


def test_the_pattern_does_not_match_itself() -> None:
    assert lookup([1, 2, 3, 4], min_match=1) is None


def test_the_longest_match_wins() -> None:
    assert lookup([9, 1, 2, 3, 7, 1, 2, 3, 8, 9, 1, 2, 3], width=1) == NgramMatch(4, 4, (7,))


def test_the_most_recent_wins_among_equals() -> None:
    assert lookup([1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3], width=1) == NgramMatch(7, 3, (8,))


def test_the_cap_makes_matches_equal() -> None:
    corpus = [9, 1, 2, 3, 7, 1, 2, 3, 8, 9, 1, 2, 3]
    assert lookup(corpus, width=1, max_match=3) == NgramMatch(8, 3, (8,))


def test_the_draft_is_as_wide_as_asked() -> None:
    corpus = [1, 2, 3, 4, 5, 6, 1, 2, 3]
    assert lookup(corpus, width=1) == NgramMatch(3, 3, (4,))
    assert lookup(corpus, width=2) == NgramMatch(3, 3, (4, 5))


def test_the_draft_is_clipped_at_the_end() -> None:
    assert lookup([1, 2, 3, 4, 1, 2, 3], width=16) == NgramMatch(3, 3, (4, 1, 2, 3))


def test_a_run_of_one_token_predicts_itself() -> None:
    assert lookup([6] * 5, width=8) == NgramMatch(4, 4, (6,))
    assert lookup([6] * 100, width=8) == NgramMatch(99, 32, (6,))


def test_a_period_predicts_itself() -> None:
    assert lookup([1, 2, 3] * 4, width=8) == NgramMatch(9, 9, (1, 2, 3))


def test_a_long_run_with_a_break_is_matched_beyond_the_recent_tokens() -> None:
    corpus = [6] * 3000 + [9] + [6] * 10
    assert lookup(corpus, width=2) == NgramMatch(3000, 10, (9, 6))


def test_token_ids_use_all_of_their_range() -> None:
    largest = 2**31 - 1
    assert lookup([0, largest, 0, 5, 0, largest, 0], width=1) == NgramMatch(3, 3, (5,))


def test_a_corpus_outgrows_its_room() -> None:
    index = NgramIndex(3, 32)
    for i in range(5000):
        index.append(i % 1500)
    assert index.tokens.tolist() == [i % 1500 for i in range(5000)]
    assert index.propose(2) == NgramMatch(3500, 32, (500, 501))


def test_the_view_of_the_corpus_cannot_be_written() -> None:
    index = NgramIndex(3, 32)
    index.extend([1, 2, 3])
    with pytest.raises(ValueError):
        index.tokens[0] = 7


def test_a_corpus_can_be_synced_to_a_view_of_itself() -> None:
    index = NgramIndex(1, 8)
    index.extend([1, 2, 3, 1, 2, 4])
    index.sync(index.tokens[3:])
    assert index.tokens.tolist() == [1, 2, 4]
    assert index.propose(1) is None


def test_tokens_may_be_numpy_numbers() -> None:
    index = NgramIndex(1, 8)
    for token in np.array([1, 2, 1], np.int32):
        index.append(token)
    match = index.propose(2)
    assert match == NgramMatch(1, 1, (2, 1))
    assert all(type(token) is int for token in match.draft)


def test_a_refused_token_changes_nothing() -> None:
    index = NgramIndex(1, 8)
    index.extend([1, 2, 1])
    with pytest.raises(ValueError, match="never negative"):
        index.append(-1)
    with pytest.raises(ValueError, match="never negative"):
        index.extend([5, -1])
    with pytest.raises(ValueError):
        index.append(2**31)
    with pytest.raises(ValueError, match="cannot be cut"):
        index.truncate(-1)
    assert index.tokens.tolist() == [1, 2, 1]
    assert index.propose(1) == NgramMatch(1, 1, (2,))


@pytest.mark.parametrize(("min_match", "max_match"), [(0, 4), (5, 4), (-1, -1)])
def test_lengths_out_of_range_are_refused(min_match: int, max_match: int) -> None:
    with pytest.raises(ConfigError, match="min_match"):
        NgramIndex(min_match, max_match)
    with pytest.raises(ConfigError, match="min_match"):
        find_draft(np.zeros(9, np.int32), width=1, min_match=min_match, max_match=max_match)


def test_a_width_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="wide"):
        NgramIndex(1, 4).propose(0)
    with pytest.raises(ConfigError, match="wide"):
        find_draft(np.zeros(9, np.int32), width=0, min_match=1, max_match=4)
