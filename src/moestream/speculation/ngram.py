"""Prompt lookup: what followed the last time the corpus ended the way it ends now.

The corpus is every token known so far, and its suffix is the pattern. A *match* is a position
strictly before the corpus end together with the number of tokens, up to ``max_match``, in which the
corpus up to there and the whole corpus agree, counted backwards. The longest match wins, among
equals the most recent. What followed it is the draft. Pure: token ids in, token ids out.

`find_draft` is the definition, `NgramIndex` the same answer for a corpus that grows by a token at a
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moestream.errors import ConfigError

__all__ = ["NgramIndex", "NgramMatch", "find_draft"]

TokenArray = NDArray[np.int32]

_START = -1  # stands before the first token; equals no token
_ROOT = 0
_STRIDE = 1 << 32  # more than there are token ids


@dataclass(frozen=True, slots=True)
class NgramMatch:
    """Where the end of the corpus stood before, and what came next.

    Attributes:
        end: index of the token after the match.
        length: tokens that match, at most ``max_match``.
        draft: tokens from ``end`` on; at least one.
    """

    end: int
    length: int
    draft: tuple[int, ...]


def find_draft(
    corpus: TokenArray, *, width: int, min_match: int, max_match: int
) -> NgramMatch | None:
    """Look the end of ``corpus`` up in all that comes before it, in time linear in its length.

    Args:
        corpus: every token known, oldest first.
        width: tokens to draft at most.
        min_match: shorter matches count for nothing.
        max_match: tokens compared at most.

    Raises:
        ConfigError: a setting is out of range.

    The corpus ends in 7 8, which stood there twice before. A 5 precedes the older one as well, so
    that is the longer match, and the three tokens after it are the draft:

    >>> corpus = np.array([5, 7, 8, 1, 2, 3, 7, 8, 4, 5, 7, 8], np.int32)
    >>> find_draft(corpus, width=3, min_match=2, max_match=32)
    NgramMatch(end=3, length=3, draft=(1, 2, 3))

    When no more than two tokens are compared the two are equally long, and the recent one wins:

    >>> find_draft(corpus, width=3, min_match=2, max_match=2)
    NgramMatch(end=8, length=2, draft=(4, 5, 7))

    A match may overlap the pattern, and the draft is cut where the corpus ends:

    >>> find_draft(np.array([6, 6, 6, 6], np.int32), width=3, min_match=2, max_match=32)
    NgramMatch(end=3, length=3, draft=(6,))
    """
    _check_lengths(min_match, max_match)
    _check_width(width)
    n = len(corpus)
    if n <= min_match:
        return None
    length = 1
    ends = np.flatnonzero(corpus[:-1] == corpus[-1]) + 1
    while length < max_match:
        longer = ends[ends > length]
        longer = longer[corpus[longer - length - 1] == corpus[n - length - 1]]
        if not longer.size:
            break
        ends = longer
        length += 1
    if length < min_match or not ends.size:
        return None
    end = int(ends[-1])
    return NgramMatch(end, length, tuple(corpus[end : end + width].tolist()))


class NgramIndex:
    """A corpus that knows the longest match of its end, kept up to date token by token.

    Every prefix of the corpus, read backwards and cut after ``max_match`` tokens, is a path in a
    compressed trie. Adding a token adds the path of the new prefix; where it leaves the paths that
    were there is the longest match. So a token costs at most ``max_match`` comparisons, whatever
    the corpus is like, and a proposal is a look at what was found when its last token came.

    A leaf is the most recent end of a prefix with that path. An inner node remembers the most
    recent end below it, and the values that this overwrote are logged, so that tokens can be taken
    back again, the last one first.
    """

    def __init__(self, min_match: int, max_match: int) -> None:
        """An empty corpus.

        Args:
            min_match: matches shorter than this propose nothing.
            max_match: tokens compared at most.

        Raises:
            ConfigError: a setting is out of range.
        """
        _check_lengths(min_match, max_match)
        self._min_match = min_match
        self._max_match = max_match
        self._length = 0
        self._reserve(1024)
        # Node and next token backwards -> the end of a leaf, or minus the number of an inner node.
        self._children: dict[int, int] = {}
        # Of every inner node, the root first.
        self._depth = [0]  # tokens from the root
        self._recent = [0]  # most recent end below; means nothing for the root
        self._born = [0]  # length of the corpus when the node was made
        # Of every length of the corpus, from 0.
        self._match_length = [0]
        self._match_end = [0]
        self._logged = [0]  # entries of the log once this length was reached
        self._log: list[int] = []

    def __len__(self) -> int:
        """Number of tokens in the corpus."""
        return self._length

    @property
    def tokens(self) -> TokenArray:
        """View of the corpus, valid until it changes."""
        view = self._array[1 : self._length + 1]
        view.flags.writeable = False
        return view

    def propose(self, width: int) -> NgramMatch | None:
        """Draft up to ``width`` tokens; ``None`` if no match is long enough.

        Raises:
            ConfigError: the width is not positive.
        """
        _check_width(width)
        length, end = self._match_length[-1], self._match_end[-1]
        if length < self._min_match:
            return None
        last = min(end + width, self._length)
        return NgramMatch(end, length, tuple(self._tokens[end + 1 : last + 1].tolist()))

    def append(self, token: int) -> None:
        """Add one token.

        Raises:
            ValueError: the token is negative, or no 32-bit number.
        """
        _check_token(token)
        if self._length + 2 > len(self._array):
            self._reserve(2 * len(self._array))
        self._add(token)

    def extend(self, tokens: TokenArray | Sequence[int]) -> None:
        """Add several tokens; none of them if one is refused.

        Raises:
            ValueError: a token is negative.
        """
        new = np.asarray(tokens, np.int32)
        if not new.size:
            return
        _check_token(int(new.min()))
        if self._length + new.size + 1 > len(self._array):
            self._reserve(max(self._length + new.size + 1, 2 * len(self._array)))
        for token in new.tolist():
            self._add(token)

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` tokens.

        Raises:
            ValueError: the length is negative.
        """
        if length < 0:
            raise ValueError(f"a corpus cannot be cut to {length} tokens; 0 empties it")
        while self._length > length:
            self._remove_last()

    def sync(self, tokens: TokenArray | Sequence[int]) -> None:
        """Make the corpus equal to ``tokens``; only what differs costs time.

        Raises:
            ValueError: a token is negative.
        """
        wanted = np.asarray(tokens, np.int32)
        shared = min(self._length, wanted.size)
        differs = np.flatnonzero(self.tokens[:shared] != wanted[:shared])
        keep = int(differs[0]) if differs.size else shared
        self.truncate(keep)
        self.extend(wanted[keep:])

    def _reserve(self, size: int) -> None:
        """Make room for ``size - 1`` tokens behind the start mark."""
        array = np.empty(size, np.int32)
        if self._length:
            array[: self._length + 1] = self._array[: self._length + 1]
        array[0] = _START
        self._array: TokenArray = array
        # Gives Python's own numbers, at a third of what converting those of the array costs.
        self._tokens = array.data

    def _add(self, token: int) -> None:
        """Add the path of the corpus with ``token``, for which there is room."""
        n = self._length + 1
        tokens, children, recent = self._tokens, self._children, self._recent
        tokens[n] = token
        # Backwards from an end, token number k of a prefix is tokens[end - k]. Two prefixes differ
        # at the start mark of the shorter one if not before, so no index falls below zero.
        node, k, end = _ROOT, 0, 0
        overwritten: list[int] = []
        while True:
            slot = node * _STRIDE + tokens[n - k]
            child = children.get(slot)
            if child is None:
                children[slot] = n
                break
            if child < 0:
                end, depth = recent[-child], self._depth[-child]
            else:
                end, depth = child, self._max_match
            k += 1
            while k < depth and tokens[end - k] == tokens[n - k]:
                k += 1
            if k < depth:
                self._split(slot, k, end, n)
                break
            if child > 0:
                children[slot] = n
                break
            node = -child
            overwritten.append(end)
            recent[node] = n
        # Along a path ends only get older. Those equal to the match's need no log, which keeps it
        # short where paths are long: in a corpus that repeats itself.
        while overwritten and overwritten[-1] == end:
            overwritten.pop()
        self._log += overwritten
        self._logged.append(len(self._log))
        self._match_length.append(k)
        self._match_end.append(end)
        self._length = n

    def _split(self, slot: int, depth: int, end: int, n: int) -> None:
        """Put a node into the edge at ``slot``, where prefix ``n`` leaves that of ``end``."""
        fork = len(self._depth)
        self._depth.append(depth)
        self._recent.append(n)
        self._born.append(n)
        self._children[fork * _STRIDE + self._tokens[end - depth]] = self._children[slot]
        self._children[fork * _STRIDE + self._tokens[n - depth]] = n
        self._children[slot] = -fork

    def _remove_last(self) -> None:
        """Undo `_add`: walk the same path, and put back what it overwrote."""
        n = self._length
        tokens, children = self._tokens, self._children
        length, end = self._match_length.pop(), self._match_end.pop()
        self._logged.pop()
        overwritten = self._log[self._logged[-1] :]
        del self._log[self._logged[-1] :]
        node, step = _ROOT, 0
        while True:
            slot = node * _STRIDE + tokens[n - self._depth[node]]
            child = children[slot]
            if child > 0:
                if length == self._max_match:
                    children[slot] = end
                else:
                    del children[slot]
                break
            node = -child
            if self._born[node] == n:
                del children[node * _STRIDE + tokens[n - length]]
                children[slot] = children.pop(node * _STRIDE + tokens[end - length])
                # What is made last goes first, so it is the last in the lists.
                del self._depth[node], self._recent[node], self._born[node]
                break
            self._recent[node] = overwritten[step] if step < len(overwritten) else end
            step += 1
        self._length = n - 1


def _check_lengths(min_match: int, max_match: int) -> None:
    if not 1 <= min_match <= max_match:
        raise ConfigError(
            "an n-gram match must be at least 1 token long and at most the longest looked for, got "
            f"min_match {min_match} and max_match {max_match}; raise the one or lower the other"
        )


def _check_width(width: int) -> None:
    if width < 1:
        raise ConfigError(f"a draft must be at least 1 token wide, got {width}; widen it")


def _check_token(token: int) -> None:
    if token < 0:
        raise ValueError(f"a token id is never negative, got {token}; pass ids of the vocabulary")
