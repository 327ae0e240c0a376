from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moestream.engine.stops import TextStream
from moestream.errors import ConfigError


def feed(pieces: list[bytes], stops: tuple[str, ...] = ()) -> tuple[list[str], bool]:
    stream = TextStream(stops)
    out = [stream.push(piece) for piece in pieces]
    out.append(stream.finish())
    return out, stream.stopped


def test_characters_come_whole() -> None:
    euro = "€".encode()
    assert feed([b"a", euro[:1], euro[1:2], euro[2:], b"b"])[0] == ["a", "", "", "€", "b", ""]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert "".join(feed([b"a\xff", b"b"])[0]) == "a\ufffdb"
    assert feed(["€".encode()[:2]])[0] == ["", "\ufffd"]


def test_a_possible_stop_is_held_back_and_released() -> None:
    out, stopped = feed([b"x", b"EN", b"D", b"!"], ("END?",))
    assert out == ["x", "", "", "END!", ""]
    assert not stopped


def test_what_is_held_back_comes_at_the_end() -> None:
    assert feed([b"abcEN"], ("END",))[0] == ["abc", "EN"]


def test_a_stop_ends_the_text_before_it() -> None:
    out, stopped = feed([b"ab E", b"ND cd", b"ef"], ("END",))
    assert out == ["ab ", "", "", ""]
    assert stopped


def test_the_earliest_of_several_stops_counts() -> None:
    assert feed([b"one two three"], ("three", "two"))[0][0] == "one "


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ConfigError, match="must not be empty"):
        TextStream(("",))


@given(
    text=st.text(alphabet="abc€\n", max_size=40),
    stops=st.lists(st.text(alphabet="abc€", min_size=1, max_size=4), max_size=3),
    data=st.data(),
)
def test_pieces_of_any_cut_give_the_text_up_to_the_first_stop(
    text: str, stops: list[str], data: st.DataObject
) -> None:
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    edges = [0, *cuts, len(raw)]
    pieces = [raw[a:b] for a, b in pairwise(edges)]
    out, stopped = feed(pieces, tuple(stops))
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    assert stopped == bool(ends)
    result = "".join(out)
    assert text.startswith(result)
    if not ends:
        assert result == text
    assert not any(stop in result for stop in stops)
