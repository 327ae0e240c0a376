"""Reads a model's raw text as it comes, and takes it apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from moestream.server.answer.calls import read_calls
from moestream.server.answer.channels import ChannelReader
from moestream.server.answer.dialect import Block, Dialect
from moestream.server.answer.overlap import held_back
from moestream.server.answer.parts import NOTHING, Parts, Tools

__all__ = ["AnswerReader", "make_reader"]


class AnswerReader(Protocol):
    """Takes raw text, gives parts. Text that may turn out to be a marker is held back."""

    @property
    def thinking(self) -> bool:
        """Whether the model is thinking aloud."""
        ...

    def push(self, text: str) -> Parts:
        """What ``text`` makes certain."""
        ...

    def finish(self) -> Parts:
        """Everything still held back, at the end of the answer."""
        ...


def make_reader(dialect: Dialect, *, prompt_end: str, tools: Tools = ()) -> AnswerReader:
    """A reader for one answer.

    Args:
        dialect: of the model.
        prompt_end: how the rendered conversation ends: a template may have begun the thinking.
        tools: what the model was offered; without them nothing is taken for a call.
    """
    if dialect.channels:
        return ChannelReader(prompt_end=prompt_end)
    calls = dialect.calls if tools else None
    if dialect.thinking is None and calls is None:
        return _Plain()
    return _BlockReader(dialect, calls, prompt_end, tools)


class _Plain:
    """All of it is the answer."""

    thinking = False

    def push(self, text: str) -> Parts:
        return Parts(text=text)

    def finish(self) -> Parts:
        return NOTHING


_State = Literal["answer", "thinking", "call"]


class _BlockReader:
    def __init__(
        self, dialect: Dialect, calls: Block | None, prompt_end: str, tools: Tools
    ) -> None:
        self._dialect = dialect
        self._calls = calls
        self._tools = tools
        self._state: _State = "answer"
        self._held = ""
        #: Nothing but white space was said since the beginning, the thinking, or a call.
        self._blank = True
        self._said = False
        #: White space at the beginning belongs to the markers before it, if there were any.
        self._skip_blank = False
        self._pause = ""
        block = dialect.thinking
        if block is not None:
            opened = prompt_end.rfind(block.begin)
            if opened >= 0 and block.end not in prompt_end[opened:]:
                self._think()

    @property
    def thinking(self) -> bool:
        return self._state == "thinking"

    def push(self, text: str) -> Parts:
        self._held += text
        parts = NOTHING
        while True:
            state = self._state
            parts += self._step()
            if self._state == state:
                return parts

    def finish(self) -> Parts:
        rest, self._held = self._held, ""
        if self._state == "thinking":
            return self._thought(rest)
        if self._state == "call":
            return self._called(rest, closed=False)
        return self._answer(rest)

    def _step(self) -> Parts:
        """Read up to the next marker."""
        block = self._dialect.thinking
        if self._state == "thinking":
            assert block is not None
            before, found = self._until((block.end,))
            parts = self._thought(before)
            if found is not None:
                self._enter("answer")
            return parts
        if self._state == "call":
            assert self._calls is not None
            # A block is read as a whole, so it waits here until it is there.
            end = self._held.find(self._calls.end)
            if end < 0:
                return NOTHING
            body, self._held = self._held[:end], self._held[end + len(self._calls.end) :]
            self._enter("answer")
            return self._called(body, closed=True)
        begins = [] if self._calls is None else [self._calls.begin]
        if block is not None and (self._dialect.thinking_anywhere or not self._said):
            begins.append(block.begin)
        before, found = self._until(begins)
        parts = self._answer(before)
        if found is None:
            return parts
        if block is not None and found == block.begin:
            if self._said and not self._dialect.thinking_anywhere:
                return parts + self._answer(found)
            self._think()
        else:
            self._enter("call")
        return parts

    def _until(self, markers: Sequence[str]) -> tuple[str, str | None]:
        """Text up to the first of ``markers``, and which it was."""
        at, found = min(
            ((self._held.find(marker), marker) for marker in markers if marker in self._held),
            default=(-1, None),
        )
        if found is not None:
            before, self._held = self._held[:at], self._held[at + len(found) :]
            return before, found
        cut = len(self._held) - held_back(self._held, markers)
        before, self._held = self._held[:cut], self._held[cut:]
        return before, None

    def _think(self) -> None:
        self._enter("thinking")

    def _enter(self, state: _State) -> None:
        self._state = state
        self._skip_blank = self._blank = True
        self._pause = ""

    def _thought(self, text: str) -> Parts:
        """Text of the thinking, without the white space around it."""
        if self._blank:
            text = text.lstrip()
        if not text:
            return NOTHING
        self._blank = False
        text = self._pause + text
        kept = text.rstrip()
        self._pause = text[len(kept) :]
        return Parts(reasoning=kept)

    def _answer(self, text: str) -> Parts:
        if self._blank and self._skip_blank:
            text = text.lstrip()
        if not text:
            return NOTHING
        self._blank = self._blank and text.isspace()
        self._said = self._said or not text.isspace()
        return Parts(text=text)

    def _called(self, body: str, *, closed: bool) -> Parts:
        assert self._calls is not None
        try:
            return Parts(calls=read_calls(body, self._dialect.style, self._tools))
        except (ValueError, RecursionError):
            # Whoever asked sees what the model wrote rather than nothing.
            self._said = True
            return Parts(text=self._calls.begin + body + (self._calls.end if closed else ""))
