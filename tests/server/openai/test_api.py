"""The API as it is on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from moestream import Session
from tests.server.process import ServerProcess

HELLO = [{"role": "user", "content": "Hello"}]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def test_models(server: ServerProcess) -> None:
    (found,) = server.call("GET", "/v1/models").data["data"]
    assert found["id"] == "moestream-nano"
    assert found["object"] == "model"
    assert found["meta"]["n_ctx"] == 512
    assert server.call("GET", "/v1/models/moestream-nano").data == found
    assert server.call("GET", "/v1/models/gpt-4").error["code"] == "model_not_found"


def test_a_whole_answer(server: ServerProcess, session: Session) -> None:
    answer = server.chat(max_tokens=25)
    assert answer.status == 200
    body = answer.data
    assert body["object"] == "chat.completion"
    assert body["model"] == "moestream-nano"
    (choice,) = body["choices"]
    expected = list(session.chat(HELLO, max_tokens=25))
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"] == "".join(event.text for event in expected)
    assert choice["finish_reason"] == expected[-1].finish_reason
    usage = body["usage"]
    assert usage["completion_tokens"] == len(expected)
    assert usage["prompt_tokens"] == len(session.tokenize(session.render(HELLO)))
    assert usage["total_tokens"] == usage["completion_tokens"] + usage["prompt_tokens"]
    timings = body["timings"]
    assert timings["predicted_n"] == len(expected)
    assert timings["draft_n"] >= timings["draft_n_accepted"] > 0
    again = server.chat(max_tokens=25).data["usage"]
    assert again["prompt_tokens_details"]["cached_tokens"] > 0


def test_a_stream_says_the_same_and_counts_tokens(server: ServerProcess) -> None:
    whole = server.chat(max_tokens=40).data
    options = {"include_usage": True}
    body = {"messages": HELLO, "max_tokens": 40, "stream_options": options}
    chunks = server.chunks(CHAT, body)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    *rest, last = chunks
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert all(chunk["usage"] is None for chunk in rest)
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in rest)
    assert text == whole["choices"][0]["message"]["content"]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in rest]
    assert reasons[-1] == whole["choices"][0]["finish_reason"]
    assert set(reasons[:-1]) == {None}
    assert rest[-1]["timings"]["predicted_n"] == whole["usage"]["completion_tokens"]
    plain = server.chunks(CHAT, {"messages": HELLO, "max_tokens": 3})
    assert not any("usage" in chunk for chunk in plain)


def test_completions_one_and_several(server: ServerProcess, session: Session) -> None:
    prompts = ["Once upon a time", "In the beginning"]
    expected = [session.generate(prompt, max_tokens=16).text() for prompt in prompts]
    one = server.call("POST", TEXT, {"prompt": prompts[0]}).data
    assert one["object"] == "text_completion"
    assert one["choices"][0]["text"] == expected[0]
    assert one["usage"]["completion_tokens"] == 16  # the default of this endpoint
    both = server.call("POST", TEXT, {"prompt": prompts}).data
    assert [choice["text"] for choice in both["choices"]] == expected
    assert both["usage"]["completion_tokens"] == 32
    tokens = [session.tokenize(prompt) for prompt in prompts]
    by_id = server.call("POST", TEXT, {"prompt": tokens}).data
    assert [choice["text"] for choice in by_id["choices"]] == expected
    assert (
        server.call("POST", TEXT, {"prompt": tokens[1]}).data["choices"][0]["text"] == expected[1]
    )
    body = {"prompt": prompts, "stream_options": {"include_usage": True}}
    *chunks, last = server.chunks(TEXT, body)
    for index, text in enumerate(expected):
        own = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == index]
        assert "".join(choice["text"] for choice in own) == text
        assert own[-1]["finish_reason"] == "length"
    assert last["usage"]["completion_tokens"] == 32


def test_log_probabilities(server: ServerProcess) -> None:
    body = server.chat(max_tokens=6, logprobs=True, top_logprobs=2).data
    choice = body["choices"][0]
    rows = choice["logprobs"]["content"]
    assert "".join(row["token"] for row in rows) == choice["message"]["content"]
    assert all(len(row["top_logprobs"]) == 2 for row in rows)
    assert all(row["logprob"] == row["top_logprobs"][0]["logprob"] for row in rows)
    chunks = server.chunks(
        CHAT, {"messages": HELLO, "max_tokens": 6, "logprobs": True, "top_logprobs": 2}
    )
    streamed = [
        row
        for chunk in chunks
        for row in (chunk["choices"][0]["logprobs"] or {"content": ()})["content"]
    ]
    assert streamed == rows
    text = server.call("POST", TEXT, {"prompt": "Once upon", "max_tokens": 4, "logprobs": 1}).data
    found = text["choices"][0]["logprobs"]
    assert "".join(found["tokens"]) == text["choices"][0]["text"]
    assert found["text_offset"] == [
        sum(len(token) for token in found["tokens"][:at]) for at in range(4)
    ]


def test_sampling_parameters_reach_the_engine(server: ServerProcess) -> None:
    def draw(**options: Any) -> dict[str, Any]:
        body = {"prompt": "Once upon a time", "max_tokens": 24, **options}
        found: dict[str, Any] = server.call("POST", TEXT, body).data
        return found

    greedy = draw()["choices"][0]["text"]
    warm = draw(temperature=1.5, seed=7)
    assert warm["choices"][0]["text"] != greedy
    assert warm["choices"][0]["text"] == draw(temperature=1.5, seed=7)["choices"][0]["text"]
    assert warm["timings"]["draft_n"] == 0
    # Only the likeliest token is left to draw from.
    for narrow in ({"top_p": 0}, {"top_k": 1}, {"min_p": 0.9999}):
        assert draw(temperature=1.0, **narrow)["choices"][0]["text"] == greedy
    assert draw(temperature=0)["choices"][0]["text"] == greedy
    assert draw(seed=-1, temperature=1.0)["choices"]
    assert draw(repeat_penalty=2.0, temperature=1.0, top_k=1)["choices"][0]["text"] != greedy


def test_limits_and_stops(server: ServerProcess) -> None:
    text = server.chat(max_tokens=30).data["choices"][0]["message"]["content"]
    stop = text[5:8]
    for given in (stop, [stop], ["never said, ever", stop]):
        choice = server.chat(max_tokens=30, stop=given).data["choices"][0]
        assert choice["message"]["content"] == text[: text.index(stop)]
        assert choice["finish_reason"] == "stop"
    body = server.chat(max_completion_tokens=5, max_tokens=9).data
    assert body["usage"]["completion_tokens"] == 5
    long = server.chat("word " * 600)
    assert (long.status, long.error["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n": 2}, "n"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"logit_bias": {"50": 5}}, "logit_bias"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"functions": [{}]}, "functions"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"audio": {}}, "audio"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"top_logprobs": 99, "logprobs": True}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": 5}, "stop"),
        ({"stop": ["x", 5]}, "stop"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages.0.content.0",
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "tool_calls": [{"function": {"name": "f", "arguments": "no"}}],
                    }
                ]
            },
            "messages.0.tool_calls.0.function.arguments",
        ),
        ({"chat_template_kwargs": {"enable_thinking": 1}}, "chat_template_kwargs.enable_thinking"),
        ({"model": "gpt-4"}, "model"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    server: ServerProcess, body: dict[str, Any], param: str
) -> None:
    answer = server.call("POST", CHAT, {"messages": HELLO, "max_tokens": 2, **body})
    assert answer.status == (404 if "model" in body else 400)
    assert answer.error["type"] == "invalid_request_error"
    assert answer.error["param"] == param


@pytest.mark.parametrize(
    ("body", "param"),
    [({"best_of": 3}, "best_of"), ({"echo": True}, "echo"), ({"suffix": "."}, "suffix")],
)
def test_the_same_of_completions(server: ServerProcess, body: dict[str, Any], param: str) -> None:
    answer = server.call("POST", TEXT, {"prompt": "x", "max_tokens": 2, **body})
    assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.parametrize(
    "body",
    [
        {"n": 1, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}},
        {"user": "x", "store": False, "metadata": {"a": "b"}, "service_tier": "auto"},
        {"response_format": {"type": "text"}, "modalities": ["text"], "tool_choice": "none"},
        {"tools": [], "parallel_tool_calls": True, "stop": None, "seed": 2**40},
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"},
        {"model": "default", "logprobs": None, "temperature": None, "stream": False},
        {"anything": {"nobody": "knows"}, "reasoning_effort": "low"},
    ],
)
def test_what_asks_for_nothing_is_no_reason_to_refuse(
    server: ServerProcess, body: dict[str, Any]
) -> None:
    answer = server.call("POST", CHAT, {"messages": HELLO, "max_tokens": 2, **body})
    assert answer.status == 200, answer.data


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        (b"", {}),
        (b"{", {}),
        (b"[]", {}),
        (b"null", {}),
        (b"\xff\xfe", {}),
        (b'{"messages": "' + b"x" * 100, {}),
        (b"[" * 50_000, {}),
        (b'{"messages":[{"role":"user","content":"x"}]}', {"Content_Type": "text/plain"}),
    ],
)
def test_bodies_that_are_no_request(
    server: ServerProcess, data: bytes, headers: dict[str, str]
) -> None:
    answer = server.call("POST", CHAT, data, **({"Content_Type": "application/json"} | headers))
    assert answer.status in (400, 415)
    assert answer.error["message"]


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "\U0001f600", "<|im_end|>", ""])
def test_text_of_any_kind(server: ServerProcess, text: str) -> None:
    answer = server.chat(text, max_tokens=3)
    assert answer.status == 200
    assert server.call("POST", TEXT, {"prompt": text, "max_tokens": 3}).status in (200, 400)


def test_content_in_parts_and_developers(server: ServerProcess, session: Session) -> None:
    parts = [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]
    messages = [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": parts}]
    answer = server.call("POST", CHAT, {"messages": messages, "max_tokens": 4})
    plain = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello\nthere"},
    ]
    assert answer.data["usage"]["prompt_tokens"] == len(session.tokenize(session.render(plain)))


def test_metrics_count(server: ServerProcess) -> None:
    def read() -> dict[str, float]:
        labels = '{model_name="moestream-nano",engine="0"}'
        names = {
            "drafts": f"vllm:spec_decode_num_drafts_total{labels}",
            "drafted": f"vllm:spec_decode_num_draft_tokens_total{labels}",
            "accepted": f"vllm:spec_decode_num_accepted_tokens_total{labels}",
            "tokens": "moestream_generation_tokens_total",
            "turns": 'moestream_turns_total{finish_reason="length"}',
            "first": "moestream_time_to_first_token_seconds_count",
        }
        return {name: server.metric(full) for name, full in names.items()}

    before = read()
    timings = server.call("POST", TEXT, {"prompt": "Once upon", "max_tokens": 50}).data["timings"]
    after = read()
    change = {name: after[name] - before[name] for name in before}
    assert change["tokens"] == 50
    assert change["turns"] == 1
    assert change["first"] == 1
    assert change["drafted"] == timings["draft_n"] > 0
    assert change["accepted"] == timings["draft_n_accepted"]
    assert 0 < change["drafts"] <= change["drafted"]
    text = server.call("GET", "/metrics")
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    positions = [
        float(line.rpartition(" ")[2])
        for line in text.data.splitlines()
        if line.startswith("vllm:spec_decode_num_accepted_tokens_per_pos_total{")
    ]
    assert len(positions) == 3
    assert sum(positions) == after["accepted"]
    assert positions == sorted(positions, reverse=True)
