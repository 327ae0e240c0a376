"""Models that think aloud and call tools, each in its own way: real ones that say just that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.scripted import make_scripted
from tests.server.process import ServerProcess, serving

CHATML = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.tool_calls %}"
    "{{ m.tool_calls | tojson }}{% endif %}\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}{# MARKS #}"
    "{% if add_generation_prompt %}assistant\n{% endif %}"
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            },
        },
    }
]
WEATHER = ("weather", {"city": "Paris", "days": 2})
ASK = [{"role": "user", "content": "Weather?"}]
CHAT = "/v1/chat/completions"

#: Template marks, what the model says, and how that is to be read.
Case = tuple[str, Sequence[str], str, str, list[tuple[str, dict[str, Any]]]]
CASES: dict[str, Case] = {
    "qwen3": (
        "<think> </think> <tool_call>",
        [
            "<think>", "\nLet me", " look.\n", "</think>", "\n\n", "Here: ", "<tool_call>",
            '\n{"name": "weather", "arguments": ', '{"city": "Paris", "days": 2}}\n',
            "</tool_call>",
        ],
        "Let me look.",
        "Here: ",
        [WEATHER],
    ),
    "qwen35": (
        "<think> </think> <tool_call>",
        [
            "<tool_call>", "\n<function=weather>\n<parameter=city>\nPar", "is\n</parameter>\n",
            "<parameter=days>\n2\n</parameter>\n</function>\n", "</tool_call>",
        ],
        "",
        "",
        [WEATHER],
    ),
    "glm": (
        "</think> <tool_call>",
        [
            "<tool_call>", "weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n",
            "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n", "</tool_call>",
        ],
        "",
        "",
        [WEATHER],
    ),
    "gpt-oss": (
        "<|channel|> <|message|>",
        [
            "<|channel|>", "analysis", "<|message|>", "Let me", " look.", "<|end|>", "<|start|>",
            # A token of a scripted model cannot come twice, so this one holds several.
            "assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>",
            '{"city": "Paris", ', '"days": 2}', "<|call|>",
        ],
        "Let me look.",
        "",
        [WEATHER],
    ),
    "gemma": (
        "<|channel>thought <channel|> <|tool_call>",
        [
            "<|channel>", "thought\nLet me", " look.\n", "<channel|>", "Here: ", "<|tool_call>",
            "call:weather{city:", '<|"|>', "Par", 'is<|"|>,days:2}', "<tool_call|>",
        ],
        "Let me look.",
        "Here: ",
        [WEATHER],
    ),
    "lfm2": (
        "<|tool_list_start|>",
        ["<|tool_call_start|>", '[weather(city="Paris", days=', "2)]", "<|tool_call_end|>"],
        "",
        "",
        [WEATHER],
    ),
    "broken": (
        "<tool_call>",
        ["<tool_call>", '{"name": ', "</tool_call>"],
        "",
        '<tool_call>{"name": </tool_call>',
        [],
    ),
    "without an end": (
        "<think> </think> <tool_call>",
        ["<tool_call>", '{"name": "weather", ', '"arguments": {"city": "Paris", "days": 2}}'],
        "",
        "",
        [WEATHER],
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(scope="module")
def server(case: Case, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("scripted")
    template = CHATML.replace("MARKS", case[0])
    model = make_scripted(folder, "scripted", case[1], template=template)
    with serving(folder / "data", "--model", str(model)) as found:
        yield found.ready()


def test_a_whole_answer(server: ServerProcess, case: Case) -> None:
    _, pieces, reasoning, text, calls = case
    body = server.call("POST", CHAT, {"messages": ASK, "tools": TOOLS}).data
    (choice,) = body["choices"]
    message = choice["message"]
    assert message.get("reasoning_content", "") == reasoning
    assert (message["content"] or "") == text
    assert read_calls(message.get("tool_calls", [])) == calls
    assert choice["finish_reason"] == ("tool_calls" if calls else "stop")
    ends = pieces[-1] == "<|call|>"  # else there is one more, that ends it
    assert body["usage"]["completion_tokens"] == len(pieces) + (not ends)
    thought = body["usage"]["completion_tokens_details"]["reasoning_tokens"]
    assert (thought > 0) == bool(reasoning)
    assert thought < len(pieces)


def test_a_stream(server: ServerProcess, case: Case) -> None:
    _, _, reasoning, text, calls = case
    chunks = server.chunks(CHAT, {"messages": ASK, "tools": TOOLS})
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == reasoning
    assert "".join(delta.get("content", "") for delta in deltas) == text
    found = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert read_calls(found) == calls
    assert [call["index"] for call in found] == list(range(len(calls)))
    assert chunks[-1]["choices"][0]["finish_reason"] == ("tool_calls" if calls else "stop")


def test_without_tools_nothing_is_taken_for_a_call(server: ServerProcess, case: Case) -> None:
    marks, pieces, reasoning, _, _ = case
    message = server.call("POST", CHAT, {"messages": ASK}).data["choices"][0]["message"]
    assert "tool_calls" not in message or "<|channel|>" in marks
    assert message.get("reasoning_content", "") == reasoning
    text = server.call("POST", "/v1/completions", {"prompt": "assistant\n", "max_tokens": 40})
    said = text.data["choices"][0]["text"]  # raw, most control tokens left out
    assert next(piece for piece in pieces if not piece.startswith("<"))[:3] in said


def test_the_conversation_goes_on_with_what_the_tool_said(
    server: ServerProcess, case: Case
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    messages = [
        *ASK,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    answer = server.call("POST", CHAT, {"messages": messages, "tools": TOOLS})
    assert answer.status == 200, answer.data


def read_calls(calls: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    assert len({call["id"] for call in calls}) == len(calls)
    assert all(call["type"] == "function" for call in calls)
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


def test_thinking_that_the_template_begins(tmp_path: Path) -> None:
    template = CHATML.replace("assistant\n", "assistant\n<think>\n")
    pieces = ["Let me", " look.", "</think>", "\n\nSunny."]
    model = make_scripted(tmp_path, "thinking", pieces, template=template)
    with serving(tmp_path / "data", "--model", str(model)) as server:
        server.ready()
        body = server.call(
            "POST", CHAT, {"messages": ASK, "logprobs": True, "reasoning_effort": "high"}
        ).data
        choice = body["choices"][0]
        assert choice["message"]["reasoning_content"] == "Let me look."
        assert choice["message"]["content"] == "Sunny."
        assert [row["token"] for row in choice["logprobs"]["content"]] == ["\n\nSunny."]
        assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3
        cut = server.call("POST", CHAT, {"messages": ASK, "max_tokens": 2}).data["choices"][0]
        assert cut["message"] == {
            "role": "assistant",
            "content": "",
            "refusal": None,
            "reasoning_content": "Let me look.",
        }


def test_only_the_first_call_if_calls_are_not_to_be_parallel(tmp_path: Path) -> None:
    one = '<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>'
    two = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
    model = make_scripted(
        tmp_path, "two", [one, two, "Done."], template=CHATML.replace("MARKS", "<tool_call>"),
        marks="never",
    )  # fmt: skip
    with serving(tmp_path / "data", "--model", str(model)) as server:
        server.ready()
        body = {"messages": ASK, "tools": TOOLS}
        both = server.call("POST", CHAT, body).data["choices"][0]["message"]
        assert [city["city"] for _, city in read_calls(both["tool_calls"])] == ["Paris", "Rome"]
        assert both["content"] == "Done."
        first = server.call("POST", CHAT, {**body, "parallel_tool_calls": False}).data["choices"]
        assert read_calls(first[0]["message"]["tool_calls"]) == [("weather", {"city": "Paris"})]
        assert first[0]["finish_reason"] == "tool_calls"
        chunks = server.chunks(CHAT, {**body, "parallel_tool_calls": False})
        found = [c for k in chunks for c in k["choices"][0]["delta"].get("tool_calls", [])]
        assert len(found) == 1
