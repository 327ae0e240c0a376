"""No serious violation on any page in either theme; the keyboard reaches everything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.app import App
from tests.e2e.conftest import NewPage
from tests.e2e.steps import ask, wait_answered
from tests.e2e.test_runs import recorded, reply

axe_module = pytest.importorskip(
    "axe_playwright_python.sync_playwright",
    reason="axe is not installed: pip install 'moestream[e2e]'",
)

__all__ = ["recorded"]

PAGES = ("#/chat", "#/settings", "#/runs", "#/models", "RUN", "COMPARE", "CONVERSATION")
NARROW = 360


def violations(page: Any) -> list[str]:
    """What axe calls serious or critical."""
    found = axe_module.Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {node['target']} {node.get('failureSummary', '')}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.fixture(scope="module")
def addresses(app: App, recorded: list[str]) -> dict[str, str]:
    """The addresses of pages that need something to show."""
    conversation = app.api("conversations", method="POST", body={})["id"]
    app.settings(max_tokens=60)
    reply(app, conversation)
    return {
        "RUN": f"#/runs/{recorded[1]}",
        "COMPARE": f"#/runs/compare/{','.join(recorded)}",
        "CONVERSATION": f"#/chat/{conversation}",
    }


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", NARROW)])
def test_axe_finds_nothing_serious(
    app: App, addresses: dict[str, str], new_page: NewPage, theme: str, width: int
) -> None:
    page = new_page(app.url, color_scheme=theme, width=width, reduced_motion="reduce")
    wrong: list[str] = []
    for name in PAGES:
        page.goto(f"{app.url}/{addresses.get(name, name)}")
        page.locator(".spinner").first.wait_for(state="detached")
        page.locator(".welcome, .message, .card").first.wait_for()
        folded = page.locator("main details:not([open]) > summary:visible")
        while folded.count():
            folded.first.click()
        page.locator(".spinner").first.wait_for(state="detached")
        wrong += [f"{name}: {violation}" for violation in violations(page)]
        wide = page.evaluate(
            "Math.max(document.documentElement.scrollWidth - innerWidth,"
            " document.querySelector('main').scrollWidth"
            " - document.querySelector('main').clientWidth)"
        )
        assert wide <= 0, f"{name} is {wide} px wider than the screen"
    assert wrong == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_while_an_answer_is_written_and_in_dialogs(
    app: App, addresses: dict[str, str], new_page: NewPage, theme: str
) -> None:
    app.settings(max_tokens=3000)
    page = new_page(app.url, color_scheme=theme, width=NARROW, height=740, reduced_motion="reduce")
    ask(page, "Tom looked at the old house and")
    page.locator(".live-strip").wait_for()
    assert violations(page) == []
    page.locator(".live-strip").click()
    page.get_by_role("dialog").get_by_text("Effective rate").wait_for()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Stop the answer").click()
    wait_answered(page)
    page.get_by_role("button", name="Conversations").click()
    page.get_by_role("dialog", name="Conversations").wait_for()
    assert violations(page) == []
    page.get_by_role("button", name="Delete").first.click()
    page.get_by_role("dialog", name="Delete this conversation?").wait_for()
    assert violations(page) == []
    app.settings(max_tokens=60)


def test_the_keyboard_is_enough(app: App, addresses: dict[str, str], new_page: NewPage) -> None:
    page = new_page(app.url)
    page.get_by_role("heading", name="What is on your mind?").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Your message"
    page.keyboard.type("Tom looked at")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("the house")
    page.keyboard.press("Enter")
    wait_answered(page)
    assert page.locator(".bubble").inner_text() == "Tom looked at\nthe house"

    page.goto(f"{app.url}/#/settings")
    source = page.get_by_role("radio", name="Off", exact=True).first
    source.focus()
    ring = page.evaluate(
        "getComputedStyle(document.querySelector('.segmented:has(:focus-visible)')).outlineStyle"
    )
    assert ring == "solid"
    page.keyboard.press("ArrowRight")
    page.get_by_text("change takes effect with a reload").wait_for()
    app.reload(draft_source="none")


def test_a_screen_reader_is_told_once_and_not_with_every_token(
    app: App, addresses: dict[str, str], new_page: NewPage
) -> None:
    page = new_page(app.url)
    page.evaluate(
        """() => {
            window.said = [];
            const region = document.querySelector('.visually-hidden[role=status]');
            new MutationObserver(() => region.textContent && said.push(region.textContent))
                .observe(region, {childList: true, characterData: true, subtree: true});
        }"""
    )
    ask(page, "Tom looked at the old house and")
    wait_answered(page)
    page.wait_for_function("window.said.length >= 2")
    assert page.evaluate("said") == ["The answer is being written.", "The answer is complete."]
    live = page.evaluate(
        "[...document.querySelectorAll('.messages, .messages *')]"
        ".filter((node) => node.ariaLive === 'polite' || node.ariaLive === 'assertive').length"
    )
    assert live == 0
