"""``moestream serve`` as users start it: a process of its own on a free port."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Answer", "ServerProcess", "eventually", "serving"]

_PATIENCE = 120.0


def eventually(condition: Callable[[], Any], what: str, *, within: float = _PATIENCE) -> Any:
    """Wait until ``condition`` holds; its value. However slow the machine is, it must come."""
    deadline = time.monotonic() + within
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen: {what}")
        time.sleep(0.02)
    return found


@dataclass(frozen=True)
class Answer:
    """A response; ``data`` is JSON where it is, else text."""

    status: int
    headers: dict[str, str]
    data: Any

    @property
    def error(self) -> dict[str, Any]:
        """The error, whose shape is always the same."""
        assert set(self.data) == {"error"}, self.data
        error: dict[str, Any] = self.data["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


class ServerProcess:
    """A running server."""

    def __init__(self, data_dir: Path, arguments: Sequence[str], environment: dict[str, str]):
        command = [sys.executable, "-m", "moestream", "serve", "--port", "0"]
        command += ["--data-dir", str(data_dir), "--threads", "1", *arguments]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MOESTREAM_")}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, "HF_HUB_OFFLINE": "1", **environment},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def log(self) -> str:
        """What it has said on stderr so far."""
        return "\n".join(self.lines)

    @property
    def port(self) -> int:
        """Where it listens."""

        def found() -> re.Match[str] | None:
            assert self.process.poll() is None, self.log
            return re.search(r"serving at http://[^ ]+:(\d+)", self.log)

        return int(eventually(found, "the server listens")[1])

    @property
    def url(self) -> str:
        """Where the API is."""
        return f"http://127.0.0.1:{self.port}/v1"

    def worker(self) -> int:
        """Process id of its engine."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        (found,) = [pid for pid in map(int, children.split()) if "worker" in command_of(pid)]
        return found

    def ready(self) -> ServerProcess:
        """The server, once a model is open."""
        eventually(lambda: self.call("GET", "/health").status == 200, f"ready: {self.log}")
        return self

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request; ``body`` is bytes, or anything to be sent as JSON."""
        with closing(self.open(method, path, body, **headers)) as response:
            data: Any = response.read()
            if response.headers.get_content_type() == "application/json":
                data = json.loads(data)
            else:
                data = data.decode()
            found = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, found, data)

    def open(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> http.client.HTTPResponse:
        """A response whose body is not read yet; closing it closes the connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given["Connection"] = "close"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, given)
        return connection.getresponse()

    def chat(self, content: str = "Hello", **options: Any) -> Answer:
        """Ask one question."""
        messages = [{"role": "user", "content": content}]
        return self.call("POST", "/v1/chat/completions", {"messages": messages, **options})

    def chunks(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """All chunks of a stream, which ends as it should."""
        with closing(self.open("POST", path, {**body, "stream": True})) as response:
            assert response.status == 200, response.read()
            assert response.headers.get_content_type() == "text/event-stream"
            found = list(events(response))
        assert found[-1] == "[DONE]"
        return [json.loads(data) for data in found[:-1]]

    def metric(self, name: str) -> float:
        """A number of ``/metrics``; labels belong to the name."""
        text = self.call("GET", "/metrics").data
        for line in text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(_PATIENCE)
        self._reader.join(_PATIENCE)
        return code

    def kill(self) -> None:
        """End it, whatever it is doing."""
        self.process.kill()
        self.process.wait(_PATIENCE)
        self._reader.join(_PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))


def events(response: http.client.HTTPResponse) -> Iterator[str]:
    """The data of server-sent events as they come."""
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


def command_of(pid: int) -> str:
    """Command line of a process; empty if it has gone."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
    return text.replace("\0", " ")


@contextmanager
def serving(data_dir: Path, *arguments: str, **environment: str) -> Iterator[ServerProcess]:
    """A server for the time of the block; it may not be ready yet."""
    server = ServerProcess(data_dir, arguments, environment)
    try:
        yield server
    finally:
        server.kill()
