"""Reads gpt-oss: messages with a header each, that names a channel and maybe a tool to call."""

from __future__ import annotations

import json
import re
from typing import Final

from moestream.server.answer.overlap import held_back
from moestream.server.answer.parts import NOTHING, Call, Parts

__all__ = ["ChannelReader"]

_MESSAGE: Final = "<|message|>"
_ENDS: Final = ("<|end|>", "<|call|>", "<|return|>", "<|start|>")
_BEGINS: Final = ("<|channel|>", "<|start|>", " to=", "to=")
_CHANNEL: Final = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT: Final = re.compile(r"to=functions\.([\w.-]+)")


class ChannelReader:
    """Thinking is what stands in the channel ``analysis``; a call names its function."""

    def __init__(self, *, prompt_end: str) -> None:
        """Begin inside a header if ``prompt_end`` does, as after ``<|start|>assistant``."""
        self._held = ""
        self._header = True
        self._reasons = False
        self._call: str | None = None
        self._body = ""
        start = prompt_end.rfind("<|start|>")
        opening = prompt_end[start:] if start >= 0 else ""
        if _MESSAGE in opening:
            self._open(opening[: opening.find(_MESSAGE)])
        elif opening:
            self._held = opening.removeprefix("<|start|>").removeprefix("assistant")

    @property
    def thinking(self) -> bool:
        """Whether the channel is the one for thinking."""
        return self._reasons

    def push(self, text: str) -> Parts:
        """What ``text`` makes certain."""
        self._held += text
        parts = NOTHING
        while True:
            header = self._header
            parts += self._read_header() if header else self._read_body()
            if self._header == header:
                return parts

    def finish(self) -> Parts:
        """Everything still held back."""
        rest, self._held = self._held, ""
        if not self._header:
            return self._take(rest) + self._end()
        said = rest.strip()
        return NOTHING if not said or said.startswith(_BEGINS) else Parts(text=rest)

    def _read_header(self) -> Parts:
        at = self._held.find(_MESSAGE)
        if at >= 0:
            header, self._held = self._held[:at], self._held[at + len(_MESSAGE) :]
            self._open(header)
            return NOTHING
        said = self._held.lstrip()
        possible = any(
            said.startswith(begin) or begin.startswith(said) for begin in (*_BEGINS, "assistant")
        )
        if said and not possible:
            # A model that forgets its header still answers.
            self._open("")
        return NOTHING

    def _open(self, header: str) -> None:
        channel = _CHANNEL.search(header)
        recipient = _RECIPIENT.search(header)
        self._header = False
        self._call = recipient[1] if recipient else None
        self._reasons = self._call is None and channel is not None and channel[1] == "analysis"
        self._body = ""

    def _read_body(self) -> Parts:
        at, end = min(
            ((self._held.find(end), end) for end in _ENDS if end in self._held),
            default=(-1, ""),
        )
        if at < 0:
            cut = len(self._held) - held_back(self._held, _ENDS)
            text, self._held = self._held[:cut], self._held[cut:]
            return self._take(text)
        text, self._held = self._held[:at], self._held[at + len(end) :]
        return self._take(text) + self._end()

    def _take(self, text: str) -> Parts:
        if self._call is not None:
            self._body += text
            return NOTHING
        return Parts(reasoning=text) if self._reasons else Parts(text=text)

    def _end(self) -> Parts:
        name, body = self._call, self._body
        self._header, self._reasons, self._call, self._body = True, False, None, ""
        if name is None:
            return NOTHING
        try:
            arguments = json.loads(body) if body.strip() else {}
            if not isinstance(arguments, dict):
                raise ValueError("arguments must be an object")
        except (ValueError, RecursionError):
            return Parts(text=body)
        return Parts(calls=(Call(name, arguments),))
