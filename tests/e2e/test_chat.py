"""From the first visit to an answer; stop, edit, retry, rename, delete; what the panel shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.app import App, wait_until
from tests.e2e.conftest import NewPage
from tests.e2e.steps import ANSWER, ask, wait_answered

QUESTION = "Tom looked at the old house and"


@pytest.fixture(autouse=True)
def _short_answers(app: App) -> None:
    app.settings(max_tokens=60, record_runs=False)
    for head in app.api("conversations"):
        app.api(f"conversations/{head['id']}", method="DELETE")


def last_conversation(app: App) -> Any:
    """The conversation with the latest word, as the server has it."""
    return app.api(f"conversations/{app.api('conversations')[0]['id']}")


def test_first_visit_to_first_answer(app: App, new_page: NewPage) -> None:
    page = new_page(app.url)
    page.get_by_role("heading", name="What is on your mind?").wait_for()
    assert "knows nothing" in page.locator(".welcome-model").inner_text()
    page.get_by_role("button", name=QUESTION).click()
    text = wait_answered(page)
    assert len(text) > 50
    kept = last_conversation(app)
    assert [message["role"] for message in kept["messages"]] == ["user", "assistant"]
    assert kept["messages"][1]["content"].split() == text.split()
    assert "60 tokens" in page.locator(ANSWER).last.locator(".message-stats").inner_text()
    assert kept["id"] in page.url
    assert kept["title"] == QUESTION
    page.reload()
    assert wait_answered(page) == text


def test_the_live_panel_moves(app: App, new_page: NewPage) -> None:
    app.settings(max_tokens=2000)
    page = new_page(app.url)
    ask(page, QUESTION)
    rate = page.get_by_test_id("effective-rate")
    rate.wait_for()
    seen: set[str] = set()
    wait_until(lambda: seen.add(rate.inner_text()) or len(seen) >= 3, why="the rate changes")
    panel = page.get_by_role("complementary", name="Live figures")
    for name in ("Effective rate", "Time of a token", "stall", "compute", "Hit rate", "Memory"):
        assert panel.get_by_text(name).first.is_visible(), name
    before = panel.locator(".chart path").first.get_attribute("d")
    wait_until(
        lambda: panel.locator(".chart path").first.get_attribute("d") != before,
        why="the stack moves",
    )
    assert "MiB" in panel.locator(".tile", has_text="Read").inner_text()
    page.get_by_role("button", name="Stop the answer").click()
    wait_answered(page)


def test_a_stopped_answer_is_kept_as_far_as_it_came(app: App, new_page: NewPage) -> None:
    app.settings(max_tokens=2000)
    page = new_page(app.url)
    ask(page, QUESTION)
    page.locator(".message.running .markdown").wait_for()
    page.keyboard.press("Escape")
    text = wait_answered(page)
    assert "Stopped" in page.locator(ANSWER).last.locator(".message-stats").inner_text()
    answer = last_conversation(app)["messages"][-1]
    assert answer["state"] == "stopped"
    assert answer["content"].split() == text.split()
    assert app.api("state")["queue"]["running"] == 0


def test_edit_and_retry(app: App, new_page: NewPage) -> None:
    page = new_page(app.url)
    ask(page, QUESTION)
    first = wait_answered(page)
    before = last_conversation(app)["messages"]
    page.get_by_role("button", name="Try again").click()
    wait_until(
        lambda: (
            (last := last_conversation(app)["messages"][-1])["id"] != before[-1]["id"]
            and last["state"] == "complete"
        ),
        why="another answer is kept",
    )
    assert last_conversation(app)["messages"][0] == before[0]
    assert wait_answered(page) == first  # greedy, so the same once more
    assert page.locator(".message").count() == 2

    page.locator(".question").hover()
    page.get_by_role("button", name="Edit question").click()
    page.get_by_role("textbox", name="Edit question").fill("The dog was")
    page.get_by_role("button", name="Ask again").click()
    page.locator(".bubble", has_text="The dog was").wait_for()
    assert wait_answered(page) != first
    assert [m["content"] for m in last_conversation(app)["messages"][::2]] == ["The dog was"]


def test_a_conversation_goes_on(app: App, new_page: NewPage) -> None:
    page = new_page(app.url)
    ask(page, QUESTION)
    wait_answered(page)
    ask(page, "And then?")
    wait_answered(page, 2)
    assert len(last_conversation(app)["messages"]) == 4
    # An edit of the second question leaves the first answer alone.
    page.locator(".question").nth(1).hover()
    page.get_by_role("button", name="Edit question").nth(1).click()
    page.get_by_role("textbox", name="Edit question").fill("But why?")
    page.keyboard.press("Enter")
    page.locator(".bubble", has_text="But why?").wait_for()
    wait_answered(page, 2)
    contents = [m["content"] for m in last_conversation(app)["messages"]]
    assert contents[::2] == [QUESTION, "But why?"]


def test_several_conversations(app: App, new_page: NewPage) -> None:
    page = new_page(app.url)
    for text in ("One day", "The king"):
        page.get_by_role("link", name="New chat").click()
        ask(page, text)
        wait_answered(page)
    entries = page.get_by_role("navigation", name="Conversations").get_by_role("listitem")
    assert [entry.inner_text().split("\n")[0] for entry in entries.all()] == ["The king", "One day"]

    entries.first.hover()
    page.get_by_role("button", name="Rename The king").click()
    page.get_by_label("New name").fill("About a king")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="About a king").wait_for()
    wait_until(
        lambda: app.api("conversations")[0]["title"] == "About a king", why="the name is kept"
    )

    page.get_by_role("link", name="One day").click()
    page.locator(".bubble", has_text="One day").wait_for()
    entries.nth(1).hover()
    page.get_by_role("button", name="Delete One day").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("link", name="One day").wait_for(state="detached")
    assert [head["title"] for head in app.api("conversations")] == ["About a king"]
    page.get_by_role("heading", name="What is on your mind?").wait_for()


def test_an_unknown_conversation_says_so(app: App, new_page: NewPage) -> None:
    page = new_page(f"{app.url}/#/chat/nosuchthing")
    page.get_by_role("alert").get_by_text("there is no conversation").wait_for()


def test_markdown_is_shown_and_html_is_not_run(app: App, new_page: NewPage) -> None:
    """The small model writes none of it, so the answer is put in place of the server's."""
    text = (
        "# Title\n\n<img src=x onerror=\"document.title='run'\"> and [a link](https://example.org)"
        "\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nprint('x')\n```\n\n"
        "![far](https://example.org/x.png) [bad](javascript:alert(1))"
    )
    page = new_page(app.url)
    ask(page, QUESTION)
    wait_answered(page)
    stored = last_conversation(app)
    stored["messages"][1]["content"] = text
    stored["messages"][1]["reasoning"] = "First I think."
    page.route(f"**/api/conversations/{stored['id']}", lambda route: route.fulfill(json=stored))
    page.reload()
    answer = page.locator(ANSWER)
    answer.get_by_role("heading", name="Title").wait_for()
    assert answer.get_by_role("cell", name="2").is_visible()
    assert answer.locator("img").count() == 0
    assert "onerror" in answer.inner_text()
    link = answer.get_by_role("link", name="a link")
    assert link.get_attribute("rel") == "noopener noreferrer"
    assert "javascript" not in (answer.get_by_text("bad").get_attribute("href") or "")
    answer.locator(".hljs-string").wait_for()
    thought = answer.get_by_text("First I think.")
    assert not thought.is_visible()
    answer.get_by_text("Thought for 3 words").click()
    assert thought.is_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    answer.get_by_role("button", name="Copy code").click()
    answer.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "print('x')"
    assert page.title() != "run"


def test_a_long_conversation_stays_fast(app: App, new_page: NewPage) -> None:
    """Two hundred long messages: an answer below them must not lay the page out anew each frame."""
    page = new_page(app.url)
    ask(page, QUESTION)
    wait_answered(page)
    stored = last_conversation(app)
    paragraph = "\n\n".join(["**word** `code` and a sentence of some length. " * 8] * 6)
    stored["messages"] = [
        {**stored["messages"][i % 2], "id": f"m{i}", "content": paragraph} for i in range(200)
    ]
    page.route(f"**/api/conversations/{stored['id']}", lambda route: route.fulfill(json=stored))
    page.reload()
    page.locator(ANSWER).last.wait_for()
    words = page.evaluate(
        """async () => {
            const box = document.querySelector('.composer textarea');
            const set = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set;
            let renders = 0;
            const observer = new MutationObserver((all) => {
                renders += all.filter(({target}) => target.closest?.('.message')).length;
            });
            const messages = document.querySelector('.messages');
            observer.observe(messages, {subtree: true, childList: true});
            for (let i = 0; i < 30; i++) {
                set.call(box, 'x'.repeat(i));
                box.dispatchEvent(new Event('input', {bubbles: true}));
                await new Promise(requestAnimationFrame);
            }
            return renders;
        }"""
    )
    assert words == 0  # typing touches no message
