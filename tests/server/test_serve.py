"""``moestream serve`` as a program: starting, ending, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.server.process import ServerProcess, command_of, events, eventually, serving

LONG = {"messages": [{"role": "user", "content": "Tell me a long story about the sea."}]}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line, which must end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "moestream", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


def gone(pid: int) -> None:
    eventually(lambda: "server.worker" not in command_of(pid), "the engine ends")


class Reading(threading.Thread):
    """Reads a stream to its end on a thread of its own."""

    def __init__(self, server: ServerProcess, **options: object) -> None:
        super().__init__(daemon=True)
        body = {**LONG, "stream": True, **options}
        self.response = server.open("POST", "/v1/chat/completions", body)
        self.found: list[str] = []
        self.start()

    def run(self) -> None:
        with closing(self.response):
            self.found += events(self.response)

    def begun(self) -> None:
        """Wait for the first token."""
        response = self.response
        eventually(lambda: response.status == 200 and len(self.found) > 2, "the answer begins")

    def end(self) -> list[dict[str, object]]:
        """All chunks."""
        self.join(120)
        assert self.found[-1] == "[DONE]", self.found[-3:]
        return [json.loads(data) for data in self.found[:-1]]


def finish_reason(chunks: list[dict[str, object]]) -> object:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]  # type: ignore[attr-defined]
    return choices[-1]["finish_reason"]


def test_a_running_answer_may_end_before_the_server_does(tmp_path: Path) -> None:
    with serving(tmp_path, "--shutdown-timeout", "60") as server:
        server.ready()
        worker = server.worker()
        reading = Reading(server, max_tokens=600)
        reading.begun()
        code = server.stop(signal.SIGTERM)
        assert finish_reason(reading.end()) == "length"
        assert code == -signal.SIGTERM  # ended by it, but in its own time
        gone(worker)
        assert "Traceback" not in server.log


def test_but_only_for_so_long(tmp_path: Path) -> None:
    with serving(tmp_path, "--shutdown-timeout", "0") as server:
        server.ready()
        worker = server.worker()
        reading = Reading(server)
        reading.begun()
        server.stop(signal.SIGINT)
        assert finish_reason(reading.end()) == "cancelled"
        gone(worker)
        assert "Traceback" not in server.log


def test_killed_outright_it_leaves_no_engine_behind(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        worker = server.ready().worker()
        server.stop(signal.SIGKILL)
        gone(worker)


def test_told_to_end_while_it_loads(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.port
        server.stop(signal.SIGTERM)
        assert "Traceback" not in server.log


def test_a_model_that_fails_leaves_a_server_that_says_so(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + bytes(100))
    with serving(tmp_path / "data", "--model", str(damaged)) as server:
        eventually(
            lambda: server.call("GET", "/health").data["status"] == "failed", "the load fails"
        )
        answer = server.chat()
        assert answer.status == 503
        assert "damaged" in answer.error["message"] or "GGUF" in answer.error["message"]
        assert server.call("GET", "/v1/models").data["data"][0]["id"] == "damaged"


def test_it_warns_where_everybody_may_ask(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "0.0.0.0") as server:
        assert server.port
        assert "warning: everybody who reaches 0.0.0.0" in server.log
    with serving(tmp_path, "--host", "0.0.0.0", MOESTREAM_API_KEY="one two") as server:
        server.ready()
        assert "warning" not in server.log
        assert server.call("GET", "/v1/models").status == 401
        assert server.call("GET", "/v1/models", Authorization="Bearer two").status == 200
    with serving(tmp_path) as server:
        assert server.port
        assert "warning" not in server.log


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--port", "99999"), "port"),
        (("--host", "256.1.1.1"), "cannot listen"),
        (("--queue-limit", "-1"), "queue limit"),
        (("--model", "/nowhere.gguf"), "no such model"),
        (("--mtp", "--temp", "0.5"), "temperature of 0"),
        (("--api-key", ""), "API key"),
    ],
)
def test_usage(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    found = run("--data-dir", str(tmp_path), *arguments)
    assert found.returncode in (1, 2)
    assert found.stdout == ""
    (line,) = found.stderr.splitlines()
    assert line.startswith("moestream: error: ")
    assert words in line


def test_a_port_and_a_directory_belong_to_one_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = run("--data-dir", str(tmp_path), "--port", str(port))
        assert found.returncode == 2
        assert f"cannot listen at 127.0.0.1 port {port}" in found.stderr
    with serving(tmp_path / "data") as server:
        assert server.port
        found = run("--data-dir", str(tmp_path / "data"), "--port", "0")
        assert found.returncode == 2
        assert "--data-dir" in found.stderr


def test_help_does_not_need_the_server() -> None:
    code = (
        "import sys; from moestream.cli import main; main(['serve', '--help']); "
        "bad = {'fastapi', 'uvicorn', 'llama_cpp'} & set(sys.modules); "
        "sys.exit(1 if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--api-key" in done.stdout


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from moestream.cli import main\n"
        f"sys.exit(main(['serve', '--data-dir', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'moestream[serve]'" in done.stderr
