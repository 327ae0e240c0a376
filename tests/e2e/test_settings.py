"""Every switch; the draft source with a reload in between; what is refused; the theme."""

from __future__ import annotations

import pytest

from tests.e2e.app import App, wait_until
from tests.e2e.conftest import NewPage
from tests.e2e.steps import ANSWER, ask, open_page, wait_answered


@pytest.fixture(autouse=True)
def _as_at_first(app: App) -> None:
    app.reload(
        draft_source="none", draft=3, mtp_p_min=0.0, max_tokens=200, top_p=0.95, io_threads=2
    )


def test_the_draft_source_is_switched_with_a_reload(app: App, new_page: NewPage) -> None:
    page = new_page(app.url)
    open_page(page, "Settings")
    width, p_min = (
        page.get_by_role("textbox", name=name) for name in ("Draft width", "Least certainty")
    )
    assert width.is_disabled()
    assert p_min.is_disabled()

    page.get_by_role("radio", name="N-gram").check()
    wait_until(width.is_enabled, why="the width applies")
    assert p_min.is_disabled()
    page.get_by_role("radio", name="MTP head").check()
    wait_until(p_min.is_enabled, why="p-min applies")
    width.press("ArrowDown")
    bar = page.locator(".reload-bar")
    bar.get_by_text("2 changes take effect with a reload").wait_for()
    assert "Draft source" in bar.inner_text()
    assert app.api("state")["report"]["draft_kv_bytes"] == 0

    bar.get_by_role("button", name="Reload now").click()
    page.get_by_text("The model is loaded with the new settings.").wait_for()
    bar.wait_for(state="detached")
    assert app.api("settings")["pending_reload"] == []
    assert app.api("state")["report"]["draft_kv_bytes"] > 0

    open_page_chat(page)
    ask(page, "Tom looked at the old house and")
    wait_answered(page)
    assert "of drafts accepted" in page.locator(ANSWER).inner_text()
    panel = page.get_by_role("complementary", name="Live figures")
    assert panel.locator(".tile", has_text="Acceptance").is_visible()
    assert panel.locator(".tile", has_text="Tokens per pass").is_visible()

    open_page(page, "Settings")
    assert "Acceptance" in page.locator("[data-setting=draft_source]").inner_text()
    assert page.get_by_role("radio", name="MTP head").is_checked()
    assert width.input_value() == "2"


def open_page_chat(page: object) -> None:
    """The chat has no visible heading."""
    link = page.locator("nav:visible").get_by_role("link", name="Chat").first  # type: ignore[attr-defined]
    link.click()
    page.get_by_label("Your message").wait_for()  # type: ignore[attr-defined]


def test_every_switch_of_the_server_is_there(app: App, new_page: NewPage) -> None:
    page = new_page(f"{app.url}/#/settings")
    page.get_by_role("heading", name="Drafting").wait_for()
    schema = app.api("settings")["schema"]
    for setting in schema:
        row = page.locator(f"[data-setting={setting['key']}]")
        assert row.count() == 1, setting["key"]
        assert row.is_visible() == (not setting["experimental"]), setting["key"]
        assert row.get_by_text("lossy", exact=True).count() == int(setting["lossy"])
        help_line = setting["help"].removeprefix("Lossy: ")
        assert help_line[1:] in row.locator(".setting-help").text_content()
    assert any(setting["lossy"] for setting in schema)
    page.get_by_text("experimental switch").first.click()
    assert page.locator("[data-setting=drop_cold_experts]").is_visible()


def test_a_refused_value_is_explained_where_it_was_typed(app: App, new_page: NewPage) -> None:
    page = new_page(f"{app.url}/#/settings")
    row = page.locator("[data-setting=top_p]")
    field = row.get_by_role("textbox")
    field.fill("1.5")
    field.press("Enter")
    row.get_by_role("alert").get_by_text("Must be from 0 to 1.").wait_for()
    field.fill("0")  # in the range that is shown, but the configuration knows better
    field.press("Enter")
    row.get_by_role("alert").get_by_text("top-p must lie in (0, 1]").wait_for()
    assert field.get_attribute("aria-invalid") == "true"
    assert app.api("settings")["values"]["top_p"] == 0.95
    field.fill("0.5")
    field.press("Enter")
    wait_until(lambda: app.api("settings")["values"]["top_p"] == 0.5, why="it is taken")
    assert row.get_by_role("alert").count() == 0
    row.get_by_role("button", name="Reset Top-p to its default").click()
    wait_until(lambda: app.api("settings")["values"]["top_p"] == 0.95, why="it is as at first")


def test_no_value_is_a_value_where_there_may_be_none(app: App, new_page: NewPage) -> None:
    page = new_page(f"{app.url}/#/settings")
    field = page.locator("[data-setting=seed]").get_by_role("textbox")
    assert field.get_attribute("placeholder") == "a new one each time"
    for text, value in (("7", 7), ("", None)):
        field.fill(text)
        field.press("Enter")
        wait_until(
            lambda value=value: app.api("settings")["values"]["seed"] == value, why="it is kept"
        )
    overlap = page.locator("[data-setting=overlap]")
    overlap.get_by_role("radio", name="Off").check()
    wait_until(lambda: app.api("settings")["values"]["overlap"] is False, why="it is kept")
    overlap.get_by_role("radio", name="Auto").check()
    wait_until(lambda: app.api("settings")["values"]["overlap"] is None, why="it is kept")


def test_the_theme_is_the_systems_until_somebody_chooses(app: App, new_page: NewPage) -> None:
    page = new_page(f"{app.url}/#/settings", color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.locator(".setting").get_by_role("radio", name="Light").check()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    page.get_by_role("heading", level=1, name="Settings").wait_for()
    assert page.evaluate(ground) == light
    page.locator(".setting").get_by_role("radio", name="As the system").check()
    assert page.evaluate(ground) == dark


def test_drafts_that_a_temperature_rules_out_are_said_to_be(app: App, new_page: NewPage) -> None:
    app.settings(draft_source="ngram", temperature=0.7)
    page = new_page(f"{app.url}/#/settings")
    page.get_by_text("answers are written without drafts").wait_for()
    app.settings(temperature=0.0)
    page.reload()
    page.get_by_role("radio", name="N-gram").wait_for()
    assert page.get_by_text("answers are written without drafts").count() == 0
