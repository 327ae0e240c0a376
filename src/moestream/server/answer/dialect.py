"""How a model marks its thinking and its tool calls, read off its chat template."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["DEEPSEEK_CALL", "Block", "Dialect", "ToolStyle", "dialect_of"]

ToolStyle = Literal["tagged", "python", "gemma", "deepseek"]


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of text between two markers."""

    begin: str
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a model's raw text is to be read.

    Attributes:
        thinking: what it thinks aloud stands in here.
        thinking_anywhere: it may do so in the middle of the answer, since no text could be
            mistaken for the marker.
        calls: a tool call, or several, stand in here.
        style: how a call is written in there.
        channels: it writes messages into channels, as gpt-oss does; then there are no blocks.
        accepts_tools: the template has a place for tools.
    """

    thinking: Block | None = None
    thinking_anywhere: bool = False
    calls: Block | None = None
    style: ToolStyle = "tagged"
    channels: bool = False
    accepts_tools: bool = False

    @property
    def markers(self) -> tuple[str, ...]:
        """Control tokens that have to stay in the text for it to be read."""
        if self.channels:
            return CHANNEL_MARKERS
        blocks = [block for block in (self.thinking, self.calls) if block is not None]
        texts = [marker for block in blocks for marker in (block.begin, block.end)]
        found = [name for text in texts for name in _NAME.findall(text)]
        return (*found, *_INNER_MARKERS.get(self.style, ())) if self.calls else tuple(found)


CHANNEL_MARKERS: Final = (
    "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>",
)  # fmt: skip


def _deepseek(name: str) -> str:
    return f"<{chr(0xFF5C)}tool▁{name}{chr(0xFF5C)}>"  # full-width bars


#: What stands around a call and between its parts.
DEEPSEEK_CALL: Final = (_deepseek("call▁begin"), _deepseek("sep"), _deepseek("call▁end"))

_NAME: Final = re.compile(r"<[^>]*>")

_INNER_MARKERS: Final[dict[ToolStyle, tuple[str, ...]]] = {
    "gemma": ('<|"|>',),
    "deepseek": DEEPSEEK_CALL,
}

#: In the order in which they are looked for in a template.
_THINKING: Final = (
    (Block("<|channel>thought", "<channel|>"), True),
    (Block("<think>", "</think>"), False),
)
_CALLS: Final[tuple[tuple[Block, ToolStyle], ...]] = (
    (Block(_deepseek("calls▁begin"), _deepseek("calls▁end")), "deepseek"),
    (Block("<|tool_call>", "<tool_call|>"), "gemma"),
    (Block("<|tool_call_start|>", "<|tool_call_end|>"), "python"),
    (Block("<tool_call>", "</tool_call>"), "tagged"),
)
#: LFM2's template lists tools but leaves the calls to the model.
_LISTS_TOOLS: Final = "<|tool_list_start|>"


def dialect_of(template: str, *, accepts_tools: bool) -> Dialect:
    """The dialect of a model with this chat template.

    Args:
        template: its source.
        accepts_tools: whether it reads a variable ``tools``.
    """
    if "<|channel|>" in template and "<|message|>" in template:
        return Dialect(channels=True, accepts_tools=accepts_tools)
    thinking, anywhere = next(
        (
            (block, wide)
            for block, wide in _THINKING
            if block.begin in template or block.end in template
        ),
        (None, False),
    )
    calls: Block | None = None
    style: ToolStyle = "tagged"
    for block, its_style in reversed(_CALLS):
        if block.begin in template:
            calls, style = block, its_style
    if calls is None and _LISTS_TOOLS in template:
        calls, style = _CALLS[2]
    if not accepts_tools:
        calls = None
    return Dialect(
        thinking=thinking,
        thinking_anywhere=anywhere,
        calls=calls,
        style=style,
        accepts_tools=accepts_tools,
    )
