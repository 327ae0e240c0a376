"""What goes wrong: the engine killed, the server gone, a key that is missing, no network at all."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.e2e.app import App, running_app, wait_until
from tests.e2e.conftest import OPTIONS, NewPage
from tests.e2e.steps import ask, wait_answered

QUESTION = "Tom looked at the old house and"


def test_the_engine_is_killed_in_an_answer_and_comes_back(app: App, new_page: NewPage) -> None:
    app.settings(max_tokens=2000)
    page = new_page(app.url)
    ask(page, QUESTION)
    page.locator(".message.running .markdown").wait_for()
    before = app.engine_pid()
    os.kill(before, signal.SIGKILL)
    failure = page.locator(".failure")
    failure.wait_for()
    page.locator(".message.reply").get_by_text("Broken off").wait_for()
    app.wait_ready()
    assert app.engine_pid() != before
    app.settings(max_tokens=40)
    again = failure.get_by_role("button", name="Try again")
    wait_until(again.is_enabled, why="the engine is back")
    again.click()
    failure.wait_for(state="detached")
    wait_answered(page)
    kept = app.api(f"conversations/{app.api('conversations')[0]['id']}")
    assert [m["role"] for m in kept["messages"]] == ["user", "assistant"]
    assert kept["messages"][1]["state"] == "complete"


def test_the_server_goes_and_comes_back(browser: object, new_page: NewPage, data_dir: Path) -> None:
    with running_app(data_dir, *OPTIONS) as first:
        first.settings(max_tokens=20)
        page = new_page(first.url)
        ask(page, QUESTION)
        wait_answered(page)
        port = int(first.url.rpartition(":")[2])
    page.get_by_text("Connection to the server lost").wait_for()
    page.get_by_label("Your message").fill("still here")
    assert page.get_by_role("button", name="Send").is_disabled()
    with running_app(data_dir, *OPTIONS, port=port) as second:
        page.get_by_text("Connection to the server lost").wait_for(state="detached")
        wait_until(page.get_by_role("button", name="Send").is_enabled, why="it can be asked")
        page.get_by_role("button", name="Send").click()
        wait_answered(page, 2)
        assert len(second.api("conversations")) == 1


def test_the_key_is_asked_for_once(browser: object, new_page: NewPage, data_dir: Path) -> None:
    with running_app(data_dir, *OPTIONS, "--api-key", "sesame") as locked:
        page = new_page(locked.url)
        dialog = page.get_by_role("dialog", name="This server asks for a key")
        dialog.get_by_label("API key").fill("wrong")
        dialog.get_by_role("button", name="Continue").click()
        dialog.get_by_text("did not accept").wait_for()
        dialog.get_by_label("API key").fill("sesame")
        dialog.get_by_role("button", name="Continue").click()
        dialog.wait_for(state="detached")
        ask(page, QUESTION)
        wait_answered(page)
        page.reload()
        wait_answered(page)
        assert dialog.count() == 0


def test_the_shell_opens_without_a_server_and_nothing_of_the_api_is_kept(
    browser: object, new_page: NewPage, data_dir: Path
) -> None:
    with running_app(data_dir, *OPTIONS) as app:
        app.settings(max_tokens=20)
        page = new_page(app.url, service_workers="allow")
        ask(page, QUESTION)
        wait_answered(page)
        page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        keys = """async () => {
            const found = [];
            for (const name of await caches.keys()) {
                const cache = await caches.open(name);
                for (const request of await cache.keys()) found.push(request.url);
            }
            return found;
        }"""
        wait_until(lambda: page.evaluate(keys), why="the shell is kept")
        paths = {url.removeprefix(app.url) for url in page.evaluate(keys)}
        assert "/" in paths
        assert not any(path.startswith(("/api", "/v1")) for path in paths)
        manifest = page.request.get(f"{app.url}/manifest.webmanifest").json()
        assert {icon["src"] for icon in manifest["icons"]} <= paths
        assert manifest["display"] == "standalone"
    page.reload()
    page.get_by_text("Connection to the server lost").wait_for()
    assert page.get_by_role("link", name="Models").first.is_visible()
