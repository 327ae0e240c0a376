"""Clients that others have written: openai's own, llm, LangChain."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moestream import Session
from tests.server.process import ServerProcess

QUESTION = "Tell me a long story about the sea."


class TestOpenAI:
    """The ``openai`` package."""

    @pytest.fixture
    def client(self, server: ServerProcess):  # type: ignore[no-untyped-def]
        openai = pytest.importorskip("openai")
        with openai.OpenAI(base_url=server.url, api_key="any", max_retries=0) as found:
            yield found

    def test_chat(self, client, session: Session) -> None:  # type: ignore[no-untyped-def]
        messages = [{"role": "user", "content": QUESTION}]
        expected = list(session.chat(messages, max_tokens=50))
        found = client.chat.completions.create(
            model="moestream-nano", messages=messages, max_tokens=50
        )
        assert found.choices[0].message.content == "".join(event.text for event in expected)
        assert found.usage.completion_tokens == len(expected) == 50
        assert found.timings["draft_n"] > 0

    def test_streaming_with_usage(self, client, session: Session) -> None:  # type: ignore[no-untyped-def]
        messages = [{"role": "user", "content": QUESTION}]
        text, usage = "", None
        for chunk in client.chat.completions.create(
            model="moestream-nano",
            messages=messages,
            max_tokens=50,
            stream=True,
            stream_options={"include_usage": True},
        ):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
        assert text == session.chat(messages, max_tokens=50).text()
        assert usage.completion_tokens == 50
        assert usage.prompt_tokens_details.cached_tokens > 0

    def test_stop(self, client) -> None:  # type: ignore[no-untyped-def]
        create = client.chat.completions.create
        messages = [{"role": "user", "content": QUESTION}]
        whole = create(model="moestream-nano", messages=messages, max_tokens=50)
        stop = whole.choices[0].message.content[10:13]
        found = create(model="moestream-nano", messages=messages, max_tokens=50, stop=[stop])
        assert found.choices[0].finish_reason == "stop"
        assert stop not in found.choices[0].message.content

    def test_completions_and_logprobs(self, client) -> None:  # type: ignore[no-untyped-def]
        found = client.completions.create(
            model="moestream-nano", prompt="Once upon", max_tokens=5, logprobs=2
        )
        assert "".join(found.choices[0].logprobs.tokens) == found.choices[0].text
        assert [model.id for model in client.models.list()] == ["moestream-nano"]

    def test_errors(self, client) -> None:  # type: ignore[no-untyped-def]
        openai = pytest.importorskip("openai")
        create = client.chat.completions.create
        messages = [{"role": "user", "content": "x"}]
        with pytest.raises(openai.NotFoundError) as missing:
            create(model="gpt-4", messages=messages)
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as refused:
            create(model="moestream-nano", messages=messages, n=3)
        assert refused.value.param == "n"
        with pytest.raises(openai.BadRequestError) as long:
            create(
                model="moestream-nano",
                messages=[{"role": "user", "content": "x " * 2000}],
                stream=True,
            )
        assert long.value.code == "context_length_exceeded"


class TestLangChain:
    """``langchain_openai.ChatOpenAI``."""

    def model(self, server: ServerProcess, **options: object):  # type: ignore[no-untyped-def]
        found = pytest.importorskip("langchain_openai")
        return found.ChatOpenAI(
            base_url=server.url,
            api_key="any",
            model="moestream-nano",
            max_retries=0,
            max_tokens=40,
            **options,
        )

    def test_chat_and_stop(self, server: ServerProcess, session: Session) -> None:
        messages = [{"role": "user", "content": QUESTION}]
        expected = session.chat(messages, max_tokens=40).text()
        found = self.model(server).invoke(QUESTION)
        assert found.content == expected
        assert found.usage_metadata["output_tokens"] == 40
        stop = expected[8:11]
        stopped = self.model(server).invoke(QUESTION, stop=[stop])
        assert stopped.content == expected[: expected.index(stop)]

    def test_streaming_with_usage(self, server: ServerProcess, session: Session) -> None:
        chunks = list(self.model(server, stream_usage=True).stream(QUESTION))
        text = "".join(str(chunk.content) for chunk in chunks)
        messages = [{"role": "user", "content": QUESTION}]
        assert text == session.chat(messages, max_tokens=40).text()
        used = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
        assert sum(usage["output_tokens"] for usage in used) == 40

    def test_errors(self, server: ServerProcess) -> None:
        openai = pytest.importorskip("openai")
        with pytest.raises(openai.BadRequestError):
            self.model(server, n=2).invoke("x")


class TestLlm:
    """``llm`` with an endpoint of its configuration file."""

    @pytest.fixture
    def llm(self, server: ServerProcess, tmp_path: Path):  # type: ignore[no-untyped-def]
        pytest.importorskip("llm")
        (tmp_path / "extra-openai-models.yaml").write_text(
            "- model_id: nano\n"
            "  model_name: moestream-nano\n"
            f'  api_base: "{server.url}"\n'
            "  api_key_name: none\n"
            "- model_id: wrong\n"
            "  model_name: gpt-4\n"
            f'  api_base: "{server.url}"\n'
        )

        def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "-m", "llm", *arguments],
                capture_output=True,
                text=True,
                timeout=120,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "any"},
                check=False,
            )

        return ask

    def test_chat_streaming_stop_and_errors(self, llm, session: Session) -> None:  # type: ignore[no-untyped-def]
        messages = [{"role": "user", "content": QUESTION}]
        expected = session.chat(messages, max_tokens=40).text()
        options = ("-m", "nano", "-o", "max_tokens", "40", QUESTION)
        streamed = llm("-u", *options)
        assert streamed.stdout.rstrip("\n") == expected.rstrip("\n"), streamed.stderr
        assert "40 output" in streamed.stderr
        whole = llm("--no-stream", "-u", *options)
        assert whole.stdout.rstrip("\n") == expected.rstrip("\n")
        assert "40 output" in whole.stderr
        stop = expected[8:11]
        stopped = llm("-o", "stop", stop, *options)
        assert stopped.stdout.rstrip("\n") == expected[: expected.index(stop)].rstrip("\n")
        wrong = llm("-m", "wrong", "x")
        assert wrong.returncode != 0
        assert "moestream-nano" in wrong.stderr
