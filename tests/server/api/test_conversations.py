"""Conversations and replies over HTTP, answered by the real engine with moestream-nano."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moestream.server.store.conversations import Message
from tests.server.api.serving import Event, Served, data_of, served


@pytest.fixture(autouse=True)
def short_answers(server: Served) -> Iterator[None]:
    settings(server, max_tokens=8)
    yield
    settings(server, max_tokens=512, temperature=0.0, seed=None, system_prompt="")


@pytest.fixture
def conversation(server: Served) -> str:
    return str(server.call("POST", "/api/conversations", {}).data["id"])


def settings(server: Served, **values: Any) -> None:
    assert server.call("PUT", "/api/settings", {"values": values}).status == 200


def messages(server: Served, conversation: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.get(f"/api/conversations/{conversation}")["messages"]
    return found


def text(found: list[Event]) -> str:
    return "".join(token["text"] for token in data_of(found, "token"))


def eventually(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def idle(server: Served) -> bool:
    return bool(server.get("/api/state")["queue"]["running"] == 0)


def test_a_reply(server: Served, conversation: str) -> None:
    found = server.reply(conversation, content="Once upon a time")
    names = [name for name, _ in found]
    assert names[0] == "user"
    assert names[-1] == "done"
    (user,) = data_of(found, "user")
    (done,) = data_of(found, "done")
    answer = done["message"]
    assert text(found) == answer["content"] != ""
    assert answer["state"] == "complete"
    assert done["summary"]["finish_reason"] in ("stop", "length")
    assert done["summary"]["usage"]["completion_tokens"] <= 8
    assert messages(server, conversation) == [user, answer]
    assert server.get(f"/api/conversations/{conversation}")["title"] == "Once upon a time"


def test_the_conversation_is_what_the_model_reads(server: Served, conversation: str) -> None:
    server.reply(conversation, content="Once upon a time")
    again = server.reply(conversation, content="Go on")
    usage = data_of(again, "done")[0]["summary"]["usage"]
    # What was said before is in the context already.
    assert usage["cached_tokens"] > 0
    first = messages(server, conversation)[:2]
    other = server.call("POST", "/api/conversations", {}).data["id"]
    alone = server.reply(other, content="Go on")
    fewer = data_of(alone, "done")[0]["summary"]["usage"]["prompt_tokens"]
    assert usage["prompt_tokens"] > fewer
    assert [message["role"] for message in first] == ["user", "assistant"]


def test_retry(server: Served, conversation: str) -> None:
    found = server.reply(conversation, content="The moon is")
    user = data_of(found, "user")[0]
    again = server.reply(conversation, after=user["id"])
    assert data_of(again, "user") == [user]
    assert text(again) == text(found)  # greedy
    kept = messages(server, conversation)
    assert [message["role"] for message in kept] == ["user", "assistant"]
    assert kept[1]["id"] != data_of(found, "done")[0]["message"]["id"]


def test_edit(server: Served, conversation: str) -> None:
    server.reply(conversation, content="first")
    server.reply(conversation, content="second")
    before = messages(server, conversation)
    server.reply(conversation, content="another", after=before[1]["id"])
    after = messages(server, conversation)
    assert after[:2] == before[:2]
    assert [message["content"] for message in after[2:3]] == ["another"]
    assert len(after) == 4
    # Before the first message there is none.
    server.reply(conversation, content="from the beginning", after=None)
    (user, _answer) = messages(server, conversation)
    assert user["content"] == "from the beginning"


def test_temperature_and_seed_are_taken_from_the_settings(
    server: Served, conversation: str
) -> None:
    settings(server, temperature=1.5, seed=7, max_tokens=12)
    first = server.reply(conversation, content="The river")
    again = server.reply(conversation, after=data_of(first, "user")[0]["id"])
    assert text(first) == text(again)
    settings(server, seed=8)
    other = server.reply(conversation, after=data_of(first, "user")[0]["id"])
    assert text(other) != text(first)


def test_a_system_prompt_is_read(server: Served, conversation: str) -> None:
    plain = server.reply(conversation, content="Hello")
    settings(server, system_prompt="You are a lighthouse keeper who speaks little.")
    told = server.reply(conversation, after=data_of(plain, "user")[0]["id"])
    count = [data_of(f, "done")[0]["summary"]["usage"]["prompt_tokens"] for f in (plain, told)]
    assert count[1] > count[0]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 400, "nothing to answer"),
        ({"content": ""}, 400, "content"),
        ({"content": 5}, 400, "content"),
        ({"content": "a", "more": 1}, 400, "more"),
        ({"content": "a", "thinking": "yes"}, 400, "thinking"),
        ({"content": "a", "after": "unknown"}, 404, "no message 'unknown'"),
        ({"content": "\ud800"}, 400, "content"),
        ({"content": "word " * 20_000}, 200, "context"),
    ],
)
def test_what_cannot_be_answered(
    server: Served, conversation: str, body: dict[str, Any], status: int, says: str
) -> None:
    if status == 200:  # it was taken, and then the engine said no
        found = server.reply(conversation, **body)
        assert [name for name, _ in found] == ["user", "error"]
        assert says in found[-1][1]["message"]
        assert len(messages(server, conversation)) == 1
        return
    answer = server.call("POST", f"/api/conversations/{conversation}/reply", body)
    assert answer.status == status
    assert says in answer.error["message"]
    assert messages(server, conversation) == []


def test_a_refused_edit_cuts_nothing(server: Served, conversation: str) -> None:
    server.reply(conversation, content="first")
    before = messages(server, conversation)
    found = server.reply(conversation, content="word " * 20_000, after=None)
    assert found[-1][0] == "error"
    assert messages(server, conversation) == before


def test_a_client_that_goes_away_stops_the_answer_which_is_kept(
    server: Served, conversation: str
) -> None:
    settings(server, max_tokens=-1, temperature=1.0, seed=3)
    path = f"/api/conversations/{conversation}/reply"
    with server.stream("POST", path, {"content": "Tell me a long story"}) as found:
        for name, _data in found:
            if name == "token":
                break
    eventually(lambda: messages(server, conversation)[-1]["state"] != "running")
    answer = messages(server, conversation)[-1]
    # A short story may have ended by itself just then.
    assert answer["state"] in ("stopped", "complete")
    assert answer["content"]
    eventually(lambda: idle(server))
    settings(server, max_tokens=4)
    # The conversation goes on from there.
    assert server.reply(conversation, content="And then?")[-1][0] == "done"


def test_one_answer_at_a_time(server: Served, conversation: str) -> None:
    settings(server, max_tokens=-1, temperature=1.0, seed=3)
    path = f"/api/conversations/{conversation}/reply"
    with server.stream("POST", path, {"content": "Tell me a long story"}) as found:
        next(found)
        answer = server.call("POST", path, {"content": "and another"})
        assert answer.status == 409
        assert "being answered already" in answer.error["message"]
    eventually(lambda: idle(server))
    assert len(messages(server, conversation)) <= 2


def test_a_turn_that_is_cancelled_is_marked(server: Served, conversation: str) -> None:
    settings(server, max_tokens=-1, temperature=1.0, seed=3)
    path = f"/api/conversations/{conversation}/reply"
    with server.stream("POST", path, {"content": "Tell me a long story"}) as found:
        for name, _data in found:
            if name == "token":
                break
        cancelled = server.call("POST", "/api/engine/cancel").data["cancelled"]
        name, done = list(found)[-1]
    assert name == "done"
    assert done["message"]["state"] == ("stopped" if cancelled else "complete")
    assert messages(server, conversation)[-1] == done["message"]


def test_forgetting_a_conversation_that_is_being_answered(
    server: Served, conversation: str
) -> None:
    settings(server, max_tokens=-1, temperature=1.0, seed=3)
    path = f"/api/conversations/{conversation}"
    with server.stream("POST", f"{path}/reply", {"content": "Tell me a long story"}) as found:
        next(found)
        assert server.call("DELETE", path).status == 204
        assert server.call("GET", path).status == 404
        list(found)
    eventually(lambda: idle(server))


def test_several_conversations_at_once(server: Served) -> None:
    made = [server.call("POST", "/api/conversations", {}).data["id"] for _ in range(4)]
    results: dict[str, list[Event]] = {}

    def ask(conversation: str) -> None:
        results[conversation] = server.reply(conversation, content="The sun")

    threads = [threading.Thread(target=ask, args=(c,)) for c in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({text(found) for found in results.values()}) == 1
    assert all(found[-1][0] == "done" for found in results.values())


def test_titles(server: Served, conversation: str) -> None:
    path = f"/api/conversations/{conversation}"
    assert server.call("PATCH", path, {"title": " The sea "}).data["title"] == "The sea"
    assert server.get("/api/conversations")[0]["title"]
    for bad in ({"title": ""}, {"title": " "}, {"title": "x" * 500}, {}, {"title": None}):
        assert server.call("PATCH", path, bad).status == 400
    assert server.call("POST", "/api/conversations", {"title": "Named"}).data["title"] == "Named"


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE", "POST"])
@pytest.mark.parametrize("name", ["nothing", "%00", "..%2f..", "%ff", "a" * 3000])
def test_a_conversation_that_is_not_there(server: Served, method: str, name: str) -> None:
    path = f"/api/conversations/{name}" + ("/reply" if method == "POST" else "")
    body = {"PATCH": {"title": "x"}, "POST": {"content": "x"}}.get(method)
    answer = server.call(method, path, body)
    assert answer.status in (404, 405)


def test_a_run_is_recorded_for_every_answer_if_wanted(server: Served, conversation: str) -> None:
    settings(server, record_runs=True, max_tokens=12)
    done = data_of(server.reply(conversation, content="The forest"), "done")[0]
    settings(server, record_runs=False)
    (run,) = server.get("/api/runs")
    assert run["id"] == done["summary"]["run"]
    assert run["tokens"] == done["summary"]["usage"]["completion_tokens"] - 1
    opened = server.get(f"/api/runs/{run['id']}")
    assert opened["series"]["tokens"] == run["tokens"]
    assert opened["preamble"]["model"]
    server.reply(conversation, content="The field")
    assert len(server.get("/api/runs")) == 1


def test_an_answer_survives_a_server_that_stops_in_the_middle(tmp_path: Path) -> None:
    with served(tmp_path, load=True) as running:
        settings(running, max_tokens=-1, temperature=1.0, seed=3)
        conversation = running.call("POST", "/api/conversations", {}).data["id"]
        path = f"/api/conversations/{conversation}/reply"
        with running.stream("POST", path, {"content": "Tell me a long story"}) as found:
            for name, _data in found:
                if name == "token":
                    break
    with served(tmp_path) as running:
        user, answer = messages(running, conversation)
        assert user["content"] == "Tell me a long story"
        assert answer["state"] in ("stopped", "complete")
        assert answer["content"]
        assert running.get("/api/settings")["values"]["seed"] == 3


def test_a_full_disk_is_said(server: Served, conversation: str) -> None:
    database = server.services.data.database
    pages = database.row("PRAGMA page_count")
    assert pages is not None
    database.execute(f"PRAGMA max_page_count = {pages[0]}")
    try:
        long = {"content": "x" * 200_000}
        answer = server.call("POST", f"/api/conversations/{conversation}/reply", long)
        assert answer.status == 507
        assert answer.error["code"] == "disk_full"
        assert "make room" in answer.error["message"]
    finally:
        database.execute("PRAGMA max_page_count = 1000000")
    assert messages(server, conversation) == []
    assert server.reply(conversation, content="Hello")[-1][0] == "done"


def test_without_a_model_there_is_no_answer(bare: Served) -> None:
    conversation = bare.call("POST", "/api/conversations", {}).data["id"]
    answer = bare.call("POST", f"/api/conversations/{conversation}/reply", {"content": "hi"})
    assert answer.status == 503
    assert "load one first" in answer.error["message"]
    assert messages(bare, conversation) == []


def test_stored_reasoning_is_part_of_the_message(bare: Served) -> None:
    kept = bare.services.conversations
    made = kept.create()
    thought = Message(id="t", role="assistant", content="4", reasoning="2 + 2", created=1.0)
    kept.extend(made.id, [thought], keep=0)
    assert messages(bare, made.id)[0]["reasoning"] == "2 + 2"
