"""The server as a process of its own, and what the tests ask it beside the browser."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

__all__ = ["App", "running_app", "wait_until"]

_STARTS_S = 60.0


def wait_until(what: Callable[[], Any], *, seconds: float = 30.0, why: str = "") -> Any:
    """The first true answer of ``what``, which is asked again and again."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {why}"
        time.sleep(0.05)
    return found


class App:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], url: str, log: list[str]) -> None:
        self.process = process
        self.url = url
        self.log = log

    def api(self, path: str, *, method: str = "GET", body: Any = None) -> Any:
        """What ``/api`` answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self.url}/api/{path}", data=data, method=method, headers=headers
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            text = response.read()
        return json.loads(text) if text else None

    def settings(self, **values: Any) -> None:
        """Change settings."""
        self.api("settings", method="PUT", body={"values": values})

    def reload(self, **settings: Any) -> None:
        """Change settings and load the model with them."""
        self.settings(**settings)
        if self.api("settings")["pending_reload"]:
            self.api("engine/load", method="POST", body={"cancel": True})
        wait_until(
            lambda: (
                (state := self.api("state"))["phase"] == "ready" and not state["pending_reload"]
            ),
            why="the model is loaded again",
        )

    def engine_pid(self) -> int:
        """The process in which the engine runs."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        found = [child.pid for child in children if "moestream.server.worker" in _command(child)]
        assert len(found) == 1, found
        return found[0]

    def wait_ready(self) -> None:
        """Until there is a model."""
        wait_until(lambda: self.api("state")["phase"] == "ready", why="a model is loaded")


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@contextmanager
def running_app(
    data_dir: Path, *options: str, environment: Mapping[str, str] | None = None, port: int = 0
) -> Iterator[App]:
    """A server for the time of the block, with the embedded model streamed from disk."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MOESTREAM_", "HF_")) and not name.lower().endswith("_proxy")
    }
    command = [
        sys.executable, "-m", "moestream", "serve", "--port", str(port),
        "--data-dir", str(data_dir), *options,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, env={**kept, "HF_HOME": str(data_dir / "hub"), **(environment or {})},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    log: list[str] = []
    reader = threading.Thread(target=lambda: log.extend(process.stderr or ()))
    reader.start()
    try:
        app = App(process, _address(process, log), log)
        if "--api-key" not in options:
            app.wait_ready()
        yield app
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        if process.stderr is not None:
            process.stderr.close()


def _address(process: subprocess.Popen[str], log: list[str]) -> str:
    def look() -> str | None:
        assert process.poll() is None, "".join(log)
        found = re.search(r"http://[\w.:]+", "".join(log))
        return found[0] if found else None

    return str(wait_until(look, seconds=_STARTS_S, why="the server says where it is"))
