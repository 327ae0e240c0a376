"""What a person does in the app, in words of the tests."""

from __future__ import annotations

from typing import Any

from tests.e2e.app import wait_until

__all__ = ["ANSWER", "ask", "open_page", "wait_answered"]

#: The newest answer that is complete.
ANSWER = ".message.reply:not(.running)"


def open_page(page: Any, name: str) -> None:
    """Go to one of the four pages by the navigation that is visible."""
    page.locator("nav:visible").get_by_role("link", name=name).first.click()
    page.get_by_role("heading", level=1, name=name).wait_for()


def ask(page: Any, text: str) -> None:
    """Write a question and send it."""
    box = page.get_by_label("Your message")
    box.fill(text)
    wait_until(page.get_by_role("button", name="Send").is_enabled, why="it can be sent")
    box.press("Enter")


def wait_answered(page: Any, count: int = 1) -> str:
    """Until so many answers are complete; the text of the newest."""
    page.locator(ANSWER).nth(count - 1).wait_for()
    page.get_by_role("button", name="Send").wait_for()
    return str(page.locator(ANSWER).last.locator(".markdown").inner_text())
