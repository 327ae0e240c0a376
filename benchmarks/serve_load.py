"""Many clients at once: does every request end, is the queue fair, does memory stay?

    python -m benchmarks.serve_load [--clients 200] [--seconds 120] [--greedy 50] [--save NAME]

Starts a `moestream serve` and asks it from as many loopback addresses as there are clients, for the
queue tells clients apart by their address. Each asks one question after the other; every fifth
answer is streamed and left in the middle. From one more address `--greedy` requests are made at
once, all the time. Within a minute a request must end in an answer, in a 429 (then the client waits
as long as it is told), or be left by the client itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.served import served

DEADLINE_S = 60.0
QUESTIONS = ("Hello", "Tell me a story.", "What is a list?", "Who was the king?")


@dataclass
class Tally:
    """What became of the requests."""

    outcomes: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    rss: list[tuple[float, float, float]] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="moestream-nano")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--greedy", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--queue-limit", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", metavar="NAME")
    args = parser.parse_args()
    if not 1 <= args.clients <= 250:
        parser.error("between 1 and 250 clients")
    state = report.entry_state()
    limits = ("--threads", str(args.threads), "--queue-limit", str(args.queue_limit))
    with served(args.model, *limits) as (pid, port):
        tally = asyncio.run(load(args, pid, port))
    publish(args, tally, state)
    bad = {name: n for name, n in tally.outcomes.items() if name not in ("answer", "429", "left")}
    if bad:
        raise SystemExit(f"some requests ended otherwise: {bad}")


async def load(args: argparse.Namespace, pid: int, port: int) -> Tally:
    tally = Tally()
    while True:
        if (await ask(port, "127.0.0.1", b"GET /health", b""))[0] == 200:
            break
        await asyncio.sleep(0.1)
    end = time.monotonic() + args.seconds
    modest = [client(port, f"127.0.1.{i + 1}", end, tally, seed=i) for i in range(args.clients)]
    greedy = [client(port, "127.0.2.1", end, tally, seed=-i - 1) for i in range(args.greedy)]
    watching = asyncio.create_task(watch(pid, tally))
    await asyncio.gather(*modest, *greedy)
    watching.cancel()
    return tally


async def client(port: int, address: str, end: float, tally: Tally, *, seed: int) -> None:
    """Ask until the time is over."""
    rng = random.Random(seed)
    while time.monotonic() < end:
        stream, leave = rng.random() < 0.6, rng.random() < 0.2
        body = {
            "messages": [{"role": "user", "content": rng.choice(QUESTIONS)}],
            "max_tokens": rng.randint(1, 32),
            "stream": stream or leave,
        }
        started = time.monotonic()
        try:
            status, wait = await asyncio.wait_for(
                ask(
                    port, address, b"POST /v1/chat/completions", json.dumps(body).encode(),
                    leave=leave,
                ),
                DEADLINE_S,
            )  # fmt: skip
        except asyncio.TimeoutError:
            tally.outcomes["hangs"] += 1
            continue
        except OSError as error:
            tally.outcomes[f"{type(error).__name__}"] += 1
            continue
        if status == 429:
            tally.outcomes["429"] += 1
            await asyncio.sleep(min(wait, max(end - time.monotonic(), 0.0)) * rng.uniform(0.5, 1.5))
        elif status == 200:
            tally.outcomes["left" if leave else "answer"] += 1
            tally.answers[address] += 1
            tally.seconds.append(time.monotonic() - started)
        else:
            tally.outcomes[f"status {status}"] += 1


async def ask(
    port: int, address: str, line: bytes, body: bytes, *, leave: bool = False
) -> tuple[int, float]:
    """Status and Retry-After; reads to the end, or leaves after the first bytes of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        writer.write(
            b"%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (line, len(body), body)
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head.split(" ", 2)[1])
        wait = head.partition("retry-after:")[2].split("\r\n")[0].strip()
        if leave and status == 200:
            await reader.read(200)
        else:
            data = await reader.read()
            if status == 200 and b"text/event-stream" in head.encode():
                assert b"data: [DONE]" in data
        return status, float(wait or 0)
    except (asyncio.IncompleteReadError, AssertionError) as error:
        raise ConnectionError("the answer was cut off") from error
    finally:
        writer.close()


async def watch(pid: int, tally: Tally) -> None:
    """Memory of the server and of its engine, once a second."""
    started = time.monotonic()
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while True:
        engine = sum(rss_mib(int(child)) for child in children.read_text().split())
        tally.rss.append((time.monotonic() - started, rss_mib(pid), engine))
        await asyncio.sleep(1.0)


def rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def publish(args: argparse.Namespace, tally: Tally, state: dict[str, Any]) -> None:
    modest = [tally.answers[f"127.0.1.{i + 1}"] for i in range(args.clients)]
    greedy = tally.answers["127.0.2.1"]
    seconds = sorted(tally.seconds)
    halves = tally.rss[len(tally.rss) // 4 : len(tally.rss) // 2], tally.rss[-len(tally.rss) // 4 :]
    memory = [
        [report.median([row[column] for row in half]) for half in halves] for column in (1, 2)
    ]
    rows: list[list[object]] = [
        ["requests", sum(tally.outcomes.values())],
        *([name, count] for name, count in sorted(tally.outcomes.items())),
        ["turns per client: median", report.median([float(n) for n in modest])],
        ["least, most", f"{min(modest)}, {max(modest)}"],
        [
            "fairness of clients (Jain)",
            sum(modest) ** 2 / (len(modest) * sum(n * n for n in modest)),
        ],
        [f"turns of the greedy one, {args.greedy} at once", greedy],
        ["seconds to the end of a turn: median", report.median(seconds)],
        ["95 %, most", f"{seconds[int(0.95 * len(seconds))]:.2f}, {seconds[-1]:.2f}"],
        ["server RSS MiB, second and last quarter", " ".join(f"{m:.1f}" for m in memory[0])],
        ["engine RSS MiB, second and last quarter", " ".join(f"{m:.1f}" for m in memory[1])],
    ]
    text = report.markdown(["", f"{args.clients} clients, {args.seconds:g} s"], rows)
    raw = {
        "state": state,
        "arguments": vars(args),
        "outcomes": tally.outcomes,
        "answers": tally.answers,
        "rss": tally.rss,
    }
    report.publish(args.save or "serve-load", f"{text}\n\n{state}", raw, save=bool(args.save))


if __name__ == "__main__":
    main()
