"""The verify loop alone, over a target that says a fixed text."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from moestream.speculation.verify import Verifier

END = 99


class Text:
    """A target that goes on with ``text`` while it is followed, and with 7 where it is not."""

    def __init__(self, text: list[int], drafts: list[list[int]]) -> None:
        self.text, self.drafts = text, drafts
        self.held: list[int] = []
        self.open: list[int] = []
        self.batches: list[int] = []

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        return self.drafts.pop(0) if self.drafts else []

    def evaluate(self, tokens: Sequence[int]) -> Sequence[int]:
        self.open = list(tokens)
        self.batches.append(len(tokens))
        ends = range(len(self.held) + 1, len(self.held) + len(tokens) + 1)
        known = [(self.held + self.open)[:end] for end in ends]
        return [
            self.text[len(past)] if past == self.text[: len(past)] and len(past) < len(self.text)
            else 7
            for past in known
        ]  # fmt: skip

    def keep(self, rows: int) -> None:
        self.held += self.open[:rows]
        self.open = []


@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=30),
    st.lists(st.lists(st.integers(0, 3), max_size=10), max_size=30),
    st.integers(1, 8),
)
def test_whatever_is_drafted_the_text_comes_out(
    text: list[int], drafts: list[list[int]], width: int
) -> None:
    target = Text(text, [list(draft) for draft in drafts])
    verifier = Verifier(target, width=width, is_end=lambda token: token == END)
    said = [text[0]]
    while len(said) < len(text):
        group = verifier.advance(said[-1], len(text) - len(said))
        assert 1 <= len(group.tokens) <= len(text) - len(said)
        assert len(group.tokens) == group.accepted + 1
        verifier.settle(group, len(group.tokens))
        said += group.tokens
        assert target.held == said[:-1]
    assert said == text
    assert max(target.batches) <= width + 1
    assert verifier.tally.accepted + verifier.tally.steps == len(text) - 1


def test_nothing_is_confirmed_after_the_end() -> None:
    target = Text([1, 2, END, 3, 4], [[2, END, 3]])
    verifier = Verifier(target, width=3, is_end=lambda token: token == END)
    group = verifier.advance(1, 10)
    assert group.tokens == (2, END)
    verifier.settle(group, 2)
    assert target.held == [1, 2]


def test_a_group_may_be_said_in_part() -> None:
    target = Text([1, 2, 3, 4, 5], [[2, 3, 4]])
    verifier = Verifier(target, width=3, is_end=lambda token: token == END)
    group = verifier.advance(1, 10)
    assert group.tokens == (2, 3, 4, 5)
    verifier.settle(group, 2)
    assert target.held == [1, 2]
    assert verifier.tally.accepted == 2


def test_without_room_nothing_is_drafted() -> None:
    target = Text([1, 2, 3], [[2, 3]])
    verifier = Verifier(target, width=3, is_end=lambda token: token == END)
    assert verifier.advance(1, 1).tokens == (2,)
    assert target.batches == [1]
