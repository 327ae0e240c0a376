"""Two replicas of the embedded model behind Ray Serve, on one node, for real."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import moestream
from moestream.deploy.replica_app import REPLICA_HEADER

pytest.importorskip("ray", reason="Ray is not installed: pip install 'moestream[ray]'")
psutil = pytest.importorskip("psutil")

ROOT = Path(__file__).parents[2]
KEY = "a-key"
_PATIENCE = 120.0
ASK = {"messages": [{"role": "user", "content": "Tell me."}], "max_tokens": 6, "temperature": 0}


@dataclass
class Cluster:
    """A running one."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    def wait_for(self, word: str) -> None:
        """Until it says so; Ray may say something in between."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"it never said {word!r}: {self.log.read_text()}")

    def say(self, word: str) -> None:
        """Tell it something."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=_PATIENCE)

    def ask(self, _index: int = 0) -> httpx.Response:
        with self.client() as client:
            return client.post("/v1/chat/completions", json=ASK)

    def ask_many(self, count: int) -> list[httpx.Response]:
        """At once."""
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(self.ask, range(count)))

    def processes(self) -> list[Any]:
        """Everything that belongs to it."""
        found: list[Any] = psutil.Process(self.process.pid).children(recursive=True)
        return found

    def engines(self) -> dict[int, int]:
        """Process ids of the replicas' engines, by the replica's own."""
        return {
            process.ppid(): process.pid
            for process in self.processes()
            if "moestream.server.worker" in _words(process)
        }


def _words(process: Any) -> list[str]:
    try:
        words: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return words


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Wait until ``condition`` holds; its value."""
    deadline = time.monotonic() + _PATIENCE
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen: {what}")
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two replicas, each with a core, and the memory divided between them."""
    # Paths of sockets may not be long, and pytest's are.
    folder = tempfile.mkdtemp(prefix="ray-")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MOESTREAM_", "RAY_"))}
    environment = {
        **clean,
        "HOME": folder,  # Ray keeps a token there
        "MOESTREAM_API_KEY": KEY,
        "PYTHONPATH": os.pathsep.join([str(Path(moestream.__file__).parents[1]), str(ROOT)]),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    log = Path(folder) / "driver.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.deploy.cluster", folder, str(port), "{}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT,
            env=environment,
        )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    running = Cluster(process, port, log)
    try:
        running.wait_for("ready")
        yield running
        everybody = running.processes()
        assert len(running.engines()) == 2
        process.stdin.close()
        running.wait_for("stopped")
        assert process.wait(_PATIENCE) == 0
        _gone, alive = psutil.wait_procs(everybody, timeout=_PATIENCE)
        assert not alive, "replicas, engines and Ray itself end with the cluster"
    finally:
        leftovers = running.processes() if process.poll() is None else []
        for left in leftovers:
            left.kill()
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_both_answer(cluster: Cluster) -> None:
    seen: set[str] = set()

    def both() -> bool:
        answers = cluster.ask_many(8)
        assert [answer.status_code for answer in answers] == [200] * 8
        texts = {answer.json()["choices"][0]["message"]["content"] for answer in answers}
        assert len(texts) == 1  # greedy, and the same model
        seen.update(answer.headers[REPLICA_HEADER] for answer in answers)
        return len(seen) == 2

    eventually(both, "requests reach both replicas")
    assert len(cluster.engines()) == 2


def test_who_has_no_key_is_refused(cluster: Cluster) -> None:
    answer = httpx.post(f"{cluster.url}/v1/chat/completions", json=ASK, timeout=_PATIENCE)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"


def test_answers_stream_with_usage(cluster: Cluster) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{cluster.url}/v1", api_key=KEY, max_retries=0) as client:
        (model,) = client.models.list().data
        chunks = list(
            client.chat.completions.create(
                model=model.id, stream=True, stream_options={"include_usage": True}, **ASK
            )
        )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == cluster.ask().json()["choices"][0]["message"]["content"]
    usage = chunks[-1].usage
    assert usage.completion_tokens == ASK["max_tokens"]
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_client_that_goes_away_ends_its_turn(cluster: Cluster) -> None:
    endless = {**ASK, "max_tokens": 400, "stream": True, "temperature": 1.5}
    with (
        cluster.client() as client,
        client.stream("POST", "/v1/chat/completions", json=endless) as answer,
    ):
        assert next(answer.iter_lines()).startswith("data: ")
        name = answer.headers[REPLICA_HEADER]

    def idle() -> bool:
        with cluster.client() as client:
            return (
                f'moestream_requests_running{{replica="{name}"}} 0' in client.get("/metrics").text
            )

    eventually(idle, "the replica has nothing to do any more")


def test_an_engine_that_dies_takes_nobody_with_it(cluster: Cluster) -> None:
    names = {answer.headers[REPLICA_HEADER] for answer in cluster.ask_many(8)}
    before = cluster.engines()
    killed = min(before)
    os.kill(before[killed], signal.SIGKILL)
    # The other replica answers. A request that the engine had taken, before anybody knew that it is
    # dead, is to be repeated; later ones wait for the new engine.
    answers = cluster.ask_many(6)
    lost = [answer for answer in answers if answer.status_code != 200]
    assert len(lost) < len(answers)
    for answer in lost:
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1
    assert [answer.status_code for answer in cluster.ask_many(6)] == [200] * 6

    def after() -> dict[int, int]:
        engines = cluster.engines()
        back = engines.keys() == before.keys() and engines[killed] != before[killed]
        return engines if back else {}

    engines = eventually(after, "the replica that lost its engine has another one")
    assert all(engines[pid] == before[pid] for pid in before if pid != killed)

    def seen() -> set[str]:
        return {answer.headers[REPLICA_HEADER] for answer in cluster.ask_many(8)}

    eventually(lambda: names <= seen(), "both replicas, the same ones, answer again")


def test_a_running_answer_may_end_before_its_replica_does(cluster: Cluster) -> None:
    before = cluster.engines()
    long = {**ASK, "prompt": "The old house", "max_tokens": 3000, "stream": True}
    del long["messages"]
    with cluster.client() as client, client.stream("POST", "/v1/completions", json=long) as answer:
        lines = answer.iter_lines()
        first = next(lines)
        cluster.say("replace")
        events = [line for line in (first, *lines) if line.startswith("data: ")]
    assert events[-1] == "data: [DONE]"
    assert json.loads(events[-2].removeprefix("data: "))["choices"][0]["finish_reason"] in (
        "length",
        "stop",
    )
    cluster.wait_for("replaced")
    assert not cluster.engines().items() & before.items()
    assert cluster.ask().status_code == 200
