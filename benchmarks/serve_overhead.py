"""What the server costs: tokens over HTTP against the same generation in this process.

    python -m benchmarks.serve_overhead [--model M] [--tokens 512] [--rounds 12] [--save NAME]

Every round generates one text three times: in this process, streamed from a `moestream serve` with
the same settings, and in this process again; the two in between themselves are the noise floor.
What a token costs is the time from the first to the last as the reader sees them; the first token
counts from the call, with a prompt that neither side holds in its context. Rounds take turns
between `/v1/chat/completions` and `/v1/completions`. A round in which other programs took more than
a tenth of a core is listed and does not count.

Beside it, the time that the decoding thread itself spent on the processor per token, prompt
included: what the server's work takes from it through shared caches and cores is in there, what the
scheduler gave to others is not, so it varies less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.served import served
from benchmarks.texts import PROSE
from moestream import EngineConfig, Session

LEAST_TOKENS = 100
#: Cores that other programs may take while a round counts.
MOST_FOREIGN = 0.1
RESAMPLES = 2000

SUBJECTS = ("the sea", "a boy", "the king", "the house", "the river", "the fire")


@dataclass(frozen=True)
class Run:
    """One generation as its reader saw it."""

    text: str
    tokens: int
    first_ms: float
    token_ms: float
    thread_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="moestream-nano")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", metavar="NAME")
    args = parser.parse_args()

    state = report.entry_state()
    rounds: list[dict[str, Any]] = []
    with (
        Server(args.model, args.threads) as server,
        Session(EngineConfig(model=args.model, threads=args.threads)) as session,
    ):
        for kind in ("chat", "text"):  # fills both caches
            in_process(session, kind, "warm up", args.tokens)
            server.run(kind, "warm up", args.tokens)
        for index in range(args.rounds):
            kind = ("chat", "text")[index % 2]
            prompt = prompt_of(kind, index // 2)
            foreign = Foreign(server.pids())
            before = in_process(session, kind, prompt, args.tokens)
            over_http = server.run(kind, prompt, args.tokens)
            session.reset()  # so that the prompt is evaluated again
            after = in_process(session, kind, prompt, args.tokens)
            if not before.text == over_http.text == after.text:
                raise SystemExit(f"the three runs of {prompt!r} do not say the same")
            rounds.append(
                {
                    "kind": kind,
                    "tokens": before.tokens,
                    "foreign_cores": foreign.cores(),
                    **{
                        name: {
                            "first_ms": run.first_ms,
                            "token_ms": run.token_ms,
                            "thread_ms": run.thread_ms,
                        }
                        for name, run in (
                            ("before", before),
                            ("http", over_http),
                            ("after", after),
                        )
                    },
                }
            )
    publish(rounds, state, args.save)


def prompt_of(kind: str, index: int) -> str:
    if kind == "text":
        return PROSE[index % len(PROSE)]
    return f"Tell me a long story about {SUBJECTS[index % len(SUBJECTS)]}."


def in_process(session: Session, kind: str, prompt: str, tokens: int) -> Run:
    busy = thread_seconds(os.getpid())
    started = time.perf_counter()
    if kind == "chat":
        generation = session.chat([{"role": "user", "content": prompt}], max_tokens=tokens)
    else:
        generation = session.generate(prompt, max_tokens=tokens)
    first = last = 0.0
    text: list[str] = []
    for event in generation:
        last = time.perf_counter()
        first = first or last
        text.append(event.text)
    busy = thread_seconds(os.getpid()) - busy
    return _run("".join(text), len(text), (started, first, last), busy)


def _run(text: str, tokens: int, times: tuple[float, float, float], busy: float) -> Run:
    started, first, last = times
    return Run(
        text,
        tokens,
        1e3 * (first - started),
        1e3 * (last - first) / max(tokens - 1, 1),
        1e3 * busy / max(tokens, 1),
    )


def thread_seconds(pid: int) -> float:
    """Processor time of the main thread of a process."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


class Foreign:
    """Cores that programs other than these took since then."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = [os.getpid(), *pids]
        self._began = time.perf_counter()
        self._all, self._own = self._read()

    def cores(self) -> float:
        everything, own = self._read()
        seconds = time.perf_counter() - self._began
        return max(everything - self._all - (own - self._own), 0.0) / seconds

    def _read(self) -> tuple[float, float]:
        """Busy seconds of the machine (what the hypervisor took included), and of these."""
        tick = os.sysconf("SC_CLK_TCK")
        columns = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        idle = columns[3] + columns[4]
        own = 0
        for pid in self._pids:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            own += int(words[11]) + int(words[12])
        return (sum(columns) - idle) / tick, own / tick


class Server:
    """A server of its own, and the plainest of clients: a socket."""

    def __init__(self, model: str, threads: int) -> None:
        self._stack = ExitStack()
        self._pid, port = self._stack.enter_context(served(model, "--threads", str(threads)))
        self._connection = self._stack.enter_context(socket.create_connection(("127.0.0.1", port)))

    def __enter__(self) -> Server:
        deadline = time.monotonic() + 60
        while b" 200 " not in self._answer(b"GET", "/health", b"")[0]:
            if time.monotonic() > deadline:
                raise SystemExit("the model is not ready")
            time.sleep(0.1)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def pids(self) -> list[int]:
        """The server and its engine."""
        children = Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text()
        return [self._pid, *(int(child) for child in children.split())]

    def run(self, kind: str, prompt: str, tokens: int) -> Run:
        body: dict[str, Any] = {
            "max_tokens": tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if kind == "chat":
            path = "/v1/chat/completions"
            body["messages"] = [{"role": "user", "content": prompt}]
        else:
            path = "/v1/completions"
            body["prompt"] = prompt
        data = json.dumps(body).encode()
        engine = self.pids()[1]
        busy = thread_seconds(engine)
        started = time.perf_counter()
        _, answer, arrivals = self._answer(b"POST", path, data)
        # The engine may still be putting its things in order, a matter of microseconds.
        return _read(answer, arrivals, started, thread_seconds(engine) - busy)

    def _answer(
        self, method: bytes, path: str, body: bytes
    ) -> tuple[bytes, bytes, list[tuple[int, float]]]:
        """Headers, body as it is on the wire, and when how much of it had come."""
        connection = self._connection
        connection.sendall(
            b"%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (method, path.encode(), len(body), body)
        )
        received = bytearray()
        arrivals: list[tuple[int, float]] = []
        end = b""
        while not end or not received.endswith(end):
            data = connection.recv(1 << 16)
            if not data:
                raise SystemExit("the server closed the connection")
            received += data
            arrivals.append((len(received), time.perf_counter()))
            if not end and b"\r\n\r\n" in received:
                chunked = b"transfer-encoding: chunked" in received.lower()
                end = b"0\r\n\r\n" if chunked else b"}"
        head, _, rest = bytes(received).partition(b"\r\n\r\n")
        shift = len(head) + 4
        return head, rest, [(size - shift, at) for size, at in arrivals]


def _read(body: bytes, arrivals: list[tuple[int, float]], started: float, busy: float) -> Run:
    """The text, the tokens, and when the first and the last piece of text had come."""
    text: list[str] = []
    first = last = 0.0
    tokens = 0
    at = 0
    while (begin := body.find(b"data: {", at)) >= 0:
        end = body.index(b"\n\n", begin)
        at = end + 2
        chunk = json.loads(body[begin + 6 : end])
        if chunk.get("usage"):
            tokens = chunk["usage"]["completion_tokens"]
        for choice in chunk["choices"]:
            piece = choice.get("text") or choice.get("delta", {}).get("content")
            if piece:
                last = next(when for size, when in arrivals if size >= end)
                first = first or last
                text.append(piece)
    return _run("".join(text), tokens, (started, first, last), busy)


def publish(rounds: list[dict[str, Any]], state: dict[str, Any], save: str | None) -> None:
    header = [
        "round", "API", "tokens", "in process ms/token", "HTTP ms/token", "HTTP / in process",
        "in process again (A/A)", "decoding thread, HTTP / in process", "A/A of it",
        "first token in process ms", "first token HTTP ms", "other programs, cores",
    ]  # fmt: skip
    rows: list[list[object]] = []
    counted: list[dict[str, float]] = []
    for index, each in enumerate(rounds):
        before, over_http, after = each["before"], each["http"], each["after"]
        own = {name: statistics.mean((before[name], after[name])) for name in before}
        found = {
            "ratio": over_http["token_ms"] / own["token_ms"],
            "floor": after["token_ms"] / before["token_ms"],
            "thread": over_http["thread_ms"] / own["thread_ms"],
            "thread floor": after["thread_ms"] / before["thread_ms"],
            "later": over_http["first_ms"] - own["first_ms"],
        }
        # A text that ends early says little about a token.
        if each["tokens"] >= LEAST_TOKENS and each["foreign_cores"] <= MOST_FOREIGN:
            counted.append(found)
        rows.append(
            [
                index + 1,
                each["kind"],
                each["tokens"],
                own["token_ms"],
                over_http["token_ms"],
                found["ratio"],
                found["floor"],
                found["thread"],
                found["thread floor"],
                own["first_ms"],
                over_http["first_ms"],
                each["foreign_cores"],
            ]
        )
    text = report.markdown(header, rows)
    text += f"\n\n{len(counted)} of {len(rounds)} rounds count.\n\n"
    if counted:
        text += "\n".join(
            f"- {words}: {spread([each[name] for each in counted])}"
            for name, words in (
                ("ratio", "time per token over HTTP / in process"),
                ("floor", "in process twice (A/A), the noise floor"),
                ("thread", "processor time of the decoding thread per token, HTTP / in process"),
                ("thread floor", "the same in process twice (A/A)"),
                ("later", "first token later by, in ms"),
            )
        )
    text += f"\n\n{state}"
    report.publish(
        save or "serve-overhead", text, {"state": state, "rounds": rounds}, save=bool(save)
    )


def spread(values: list[float]) -> str:
    """Median, with the interval that holds it 95 times in 100, by resampling."""
    rng = random.Random(0)
    medians = sorted(
        statistics.median(rng.choices(values, k=len(values))) for _ in range(RESAMPLES)
    )
    low, high = medians[RESAMPLES // 40], medians[-RESAMPLES // 40]
    return f"median {statistics.median(values):.4f} (95 % interval {low:.4f} to {high:.4f})"


if __name__ == "__main__":
    main()
