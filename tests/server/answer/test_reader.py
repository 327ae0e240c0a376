"""Raw text taken apart, wherever it is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moestream.server.answer import Call, Dialect, Parts, dialect_of, make_reader

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
        },
    }
]

THINK = dialect_of("<think></think><tool_call>", accepts_tools=True)
GEMMA = dialect_of("<|channel>thought<channel|><|tool_call>", accepts_tools=True)
LFM2 = dialect_of("<|tool_list_start|>", accepts_tools=True)
DEEPSEEK = dialect_of("</think><｜tool▁calls▁begin｜>", accepts_tools=True)  # noqa: RUF001
CHANNELS = dialect_of("<|channel|><|message|>", accepts_tools=True)
PLAIN = dialect_of("nothing of the kind", accepts_tools=False)
ALL = [THINK, GEMMA, LFM2, DEEPSEEK, CHANNELS, PLAIN]


def read(dialect: Dialect, text: str, *, end: str = "", size: int = 1, tools: Any = TOOLS) -> Parts:
    """The parts of ``text``, which comes in pieces of ``size``."""
    reader = make_reader(dialect, prompt_end=end, tools=tools)
    parts = Parts()
    for at in range(0, len(text), size):
        parts += reader.push(text[at : at + size])
    return parts + reader.finish()


BAR = "\uff5c"
V3 = (
    f"<{BAR}tool▁calls▁begin{BAR}>"
    f"<{BAR}tool▁call▁begin{BAR}>function<{BAR}tool▁sep{BAR}>f\n"
    f'```json\n{{"a": "x"}}\n```<{BAR}tool▁call▁end{BAR}>'
    f'<{BAR}tool▁call▁begin{BAR}>f<{BAR}tool▁sep{BAR}>{{"b": 2}}<{BAR}tool▁call▁end{BAR}>'
    f"<{BAR}tool▁calls▁end{BAR}>"
)
HEADER = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize(
    ("dialect", "end", "text", "expected"),
    [
        (PLAIN, "", "a <think> b", Parts(text="a <think> b")),
        (THINK, "", "hello", Parts(text="hello")),
        (THINK, "", "<think>\nhm \n</think>\n\nhello", Parts(reasoning="hm", text="hello")),
        (THINK, "", "<think>\n\n</think>\n\nhello", Parts(text="hello")),
        (THINK, "", "<think>a\n\nb</think>c", Parts(reasoning="a\n\nb", text="c")),
        (THINK, "", "<think>never ends", Parts(reasoning="never ends")),
        (THINK, "<think>\n", "hm</think>\nhello", Parts(reasoning="hm", text="hello")),
        (THINK, "<think>\n\n</think>\n\n", "hello", Parts(text="hello")),
        (THINK, "", "I write <think> here", Parts(text="I write <think> here")),
        (THINK, "", "a < b <thin", Parts(text="a < b <thin")),
        (THINK, "", "  leading", Parts(text="  leading")),
        (
            THINK,
            "",
            'Look: <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>',
            Parts(text="Look: ", calls=(Call("f", {"a": 1}),)),
        ),
        (
            THINK,
            "",
            '<tool_call>{"name": "f"}</tool_call>\n<tool_call>{"name": "g", '
            '"arguments": "{\\"x\\": []}"}</tool_call>',
            Parts(calls=(Call("f", {}), Call("g", {"x": []}))),
        ),
        (
            THINK,
            "",
            "<tool_call>\n<function=f>\n<parameter=a>\n12\n</parameter>\n<parameter=b>\n3\n"
            "</parameter>\n<parameter=c>\ntext {\n</parameter>\n</function>\n</tool_call>",
            Parts(calls=(Call("f", {"a": "12", "b": 3, "c": "text {"}),)),
        ),
        (
            THINK,
            "",
            "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x y</arg_value>\n"
            "<arg_key>b</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
            Parts(calls=(Call("f", {"a": "x y", "b": 3}),)),
        ),
        (THINK, "", "<tool_call>f</tool_call>", Parts(calls=(Call("f", {}),))),
        (THINK, "", '<tool_call>{"name": "f"}', Parts(calls=(Call("f", {}),))),
        *(
            (THINK, "", f"<tool_call>{body}</tool_call>",
             Parts(text=f"<tool_call>{body}</tool_call>"))
            for body in (
                "", "{", "{}", '{"name": 1}', '{"name": "f", "arguments": [1]}', "no call at all",
                "[1, 2]", '{"name": "f", "arguments": {"x": NaN}}',
            )
        ),
        (
            GEMMA,
            "",
            '<|channel>thought\nhm\n<channel|>ok<|tool_call>call:f{a:<|"|>x, {y}<|"|>,b:3,'
            'c:[1,{d:true}],e:null}<tool_call|><|tool_call>call:g{}<tool_call|>',
            Parts(
                reasoning="hm",
                text="ok",
                calls=(
                    Call("f", {"a": "x, {y}", "b": 3, "c": [1, {"d": True}], "e": None}),
                    Call("g", {}),
                ),
            ),
        ),
        (GEMMA, "", "<|tool_call>call:f{a:<tool_call|>",
         Parts(text="<|tool_call>call:f{a:<tool_call|>")),
        (
            LFM2,
            "",
            '<|tool_call_start|>[f(a="x", b=[1, {"k": None}]), m.g()]<|tool_call_end|>done',
            Parts(text="done", calls=(Call("f", {"a": "x", "b": [1, {"k": None}]}),
                                      Call("m.g", {}))),
        ),
        (LFM2, "", '<|tool_call_start|>[{"name": "f", "arguments": {}}]<|tool_call_end|>',
         Parts(calls=(Call("f", {}),))),
        *(
            (LFM2, "", f"<|tool_call_start|>{body}<|tool_call_end|>",
             Parts(text=f"<|tool_call_start|>{body}<|tool_call_end|>"))
            for body in ("f(1)", "f(**x)", "f(a=g())", "1 + 1", "f(a=b'x')", "f(a={1})",
                         r"f(a='\d' + 1)")
        ),
        (DEEPSEEK, "", V3, Parts(calls=(Call("f", {"a": "x"}), Call("f", {"b": 2})))),
        (
            CHANNELS,
            "<|start|>assistant",
            f'<|channel|>analysis<|message|>hm<|end|><|start|>assistant{HEADER}{{"a": 1}}<|call|>',
            Parts(reasoning="hm", calls=(Call("f", {"a": 1}),)),
        ),
        (
            CHANNELS,
            "<|start|>assistant",
            f" to=functions.f{HEADER[: HEADER.index(' to')]}<|message|>{{}}",
            Parts(calls=(Call("f", {}),)),
        ),
        (
            CHANNELS,
            "<|start|>assistant",
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>hi",
            Parts(reasoning="hm", text="hi"),
        ),
        (CHANNELS, "<|start|>assistant<|channel|>final<|message|>", "hi", Parts(text="hi")),
        (CHANNELS, "<|start|>assistant", "no header", Parts(text="no header")),
        (CHANNELS, "<|start|>assistant", f"{HEADER}not JSON<|call|>", Parts(text="not JSON")),
    ],
)  # fmt: skip
def test_parts(dialect: Dialect, end: str, text: str, expected: Parts, size: int) -> None:
    assert read(dialect, text, end=end, size=size) == expected


def test_without_tools_nothing_is_a_call() -> None:
    text = '<tool_call>{"name": "f"}</tool_call>'
    assert read(THINK, text, tools=()) == Parts(text=text)


def test_what_a_dialect_needs_to_see() -> None:
    assert Dialect() == PLAIN
    assert not PLAIN.markers
    assert THINK.markers == ("<think>", "</think>", "<tool_call>", "</tool_call>")
    assert GEMMA.markers == ("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>')
    assert "<|channel|>" in CHANNELS.markers
    assert dialect_of("<tool_call>", accepts_tools=False) == Dialect()


PIECES = st.sampled_from(
    [
        "<think>", "</think>", "<tool_call>", "</tool_call>", "<|channel>thought", "<channel|>",
        "<|tool_call>", "<tool_call|>", "call:f{", '<|"|>', "}", "{", '{"name": "f"}', "f(a=1)",
        "<|tool_call_start|>", "<|tool_call_end|>", "<|channel|>", "<|message|>", "<|start|>",
        "<|end|>", "analysis", "to=functions.f", "<function=f>", "<parameter=a>", "\n", " ", "a",
        "<", "<|", f"<{BAR}tool▁calls▁begin{BAR}>", f"<{BAR}tool▁calls▁end{BAR}>", "[" * 200,
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join), st.sampled_from(ALL), st.integers(1, 9))
def test_any_text_can_be_read_and_cuts_do_not_matter(
    text: str, dialect: Dialect, size: int
) -> None:
    assert read(dialect, text, size=size) == read(dialect, text, size=len(text) or 1)
