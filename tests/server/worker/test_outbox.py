"""Messages in order; tokens that come together leave together, one that comes alone leaves."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from moestream.server.worker.outbox import Outbox


class Tokens:
    """A source that hands out whatever was added."""

    def __init__(self) -> None:
        self.pending: deque[int] = deque()

    def take(self) -> Mapping[str, Any] | None:
        found = []
        while self.pending:
            found.append(self.pending.popleft())
        return {"tokens": found} if found else None


def test_tokens_share_messages_and_nothing_overtakes() -> None:
    reading, writing = os.pipe()
    outbox = Outbox(writing, lost=lambda: None)
    first, second = Tokens(), Tokens()
    outbox.send({"begin": 1})
    outbox.attach(first)
    for token in range(1000):
        first.pending.append(token)
        outbox.ring()
    outbox.send({"end": 1})
    outbox.attach(second)
    second.pending.append(1000)
    outbox.ring()
    outbox.attach(None)
    outbox.send({"end": 2})
    outbox.close(60.0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        messages = [json.loads(line) for line in stream]
    assert messages[0] == {"begin": 1}
    assert messages[-1] == {"end": 2}
    assert messages[-2] == {"tokens": [1000]}
    assert messages.index({"end": 1}) == len(messages) - 3
    tokens = [token for message in messages for token in message.get("tokens", ())]
    assert tokens == list(range(1001))
    assert len(messages) < 500


def test_a_token_that_comes_alone_is_not_kept_back() -> None:
    reading, writing = os.pipe()
    outbox = Outbox(writing, lost=lambda: None)
    source = Tokens()
    outbox.attach(source)
    with os.fdopen(reading) as stream:
        for token in range(5):
            source.pending.append(token)
            outbox.ring()
            # Nothing else is sent, and yet it arrives.
            assert json.loads(stream.readline()) == {"tokens": [token]}
        outbox.close(60.0)
        os.close(writing)


def test_nobody_reads_any_more() -> None:
    reading, writing = os.pipe()
    lost = threading.Event()
    outbox = Outbox(writing, lost=lost.set)
    os.close(reading)
    outbox.send({"x": 1})
    assert lost.wait(60.0)
    outbox.close(60.0)
    os.close(writing)
