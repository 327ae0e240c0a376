from __future__ import annotations

from dataclasses import replace

import pytest

from moestream.server.store import NotKeptError
from moestream.server.store.conversations import Conversations, Message, Role, new_id, title_of
from moestream.server.store.database import Database


@pytest.fixture
def conversations(database: Database) -> Conversations:
    return Conversations(database)


def said(role: Role, content: str) -> Message:
    return Message(id=new_id(), role=role, content=content, created=1.5)


def test_a_conversation_is_called_after_its_first_question(conversations: Conversations) -> None:
    made = conversations.create()
    assert made.title == "New conversation"
    conversations.extend(made.id, [said("user", "What is\n\na mixture of experts?")], keep=0)
    assert conversations.get(made.id).title == "What is a mixture of experts?"
    conversations.extend(made.id, [said("assistant", "A model."), said("user", "Oh")], keep=1)
    assert conversations.get(made.id).title == "What is a mixture of experts?"
    # A title that a person gave stays.
    conversations.rename(made.id, "Experts")
    conversations.extend(made.id, [said("user", "Something else")], keep=0)
    assert conversations.get(made.id).title == "Experts"


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("  hello \t world ", "hello world"),
        ("", "New conversation"),
        ("\x00\x1b\n", "New conversation"),
        ("word " * 40, "word " * 11 + "word…"),
    ],
)
def test_titles(question: str, title: str) -> None:
    assert title_of(question) == title


def test_what_is_behind_a_message_is_cut(conversations: Conversations) -> None:
    made = conversations.create()
    first = [said("user", "a"), said("assistant", "b"), said("user", "c")]
    conversations.extend(made.id, first, keep=0)
    other = said("assistant", "d")
    conversations.extend(made.id, [other], keep=1)
    assert conversations.messages(made.id) == [first[0], other]
    conversations.extend(made.id, [], keep=0)
    assert conversations.messages(made.id) == []


def test_an_answer_grows(conversations: Conversations) -> None:
    made = conversations.create()
    answer = replace(said("assistant", ""), state="running")
    conversations.extend(made.id, [said("user", "a"), answer], keep=0)
    grown = replace(
        answer, content="all", reasoning="hm", state="complete", stats={"tok_s": 1.5, "run": None}
    )
    assert conversations.update(grown)
    assert conversations.messages(made.id)[1] == grown
    conversations.delete(made.id)
    assert not conversations.update(grown)


def test_the_latest_word_comes_first(conversations: Conversations) -> None:
    old, new = conversations.create("old"), conversations.create("new")
    conversations.extend(old.id, [said("user", "again")], keep=0)
    assert [c.id for c in conversations.all()] == [old.id, new.id]


def test_what_is_not_there(conversations: Conversations) -> None:
    for call in (
        lambda: conversations.get("x"),
        lambda: conversations.rename("x", "y"),
        lambda: conversations.delete("x"),
        lambda: conversations.extend("x", [said("user", "a")], keep=0),
    ):
        with pytest.raises(NotKeptError, match="no conversation 'x'"):
            call()
    assert conversations.messages("x") == []


def test_any_text_is_kept_as_it_is(conversations: Conversations) -> None:
    made = conversations.create()
    text = "'; DROP TABLE messages; -- \x00 \U0001f600 \u202e <script>"
    conversations.extend(made.id, [said("user", text)], keep=0)
    assert conversations.messages(made.id)[0].content == text


def test_messages_go_with_their_conversation(
    conversations: Conversations, database: Database
) -> None:
    made = conversations.create()
    conversations.extend(made.id, [said("user", "a")], keep=0)
    conversations.delete(made.id)
    assert not database.rows("SELECT * FROM messages")
