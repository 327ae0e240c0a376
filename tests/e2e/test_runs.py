"""Record, open, compare, import, export, rename and delete runs."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.app import App, wait_until
from tests.e2e.conftest import NewPage
from tests.e2e.steps import ask, open_page, wait_answered

QUESTION = "Tom looked at the old house and"
GROUPED = "Speculated rows are accounted per group"


@pytest.fixture(scope="module")
def recorded(app: App) -> list[str]:
    """Ids of two recorded runs: a plain one, and one with drafts of the model's head."""
    ids: list[str] = []
    for source in ("none", "mtp"):
        app.reload(draft_source=source, record_runs=True, max_tokens=120)
        before = {run["id"] for run in app.api("runs")}
        reply(app, app.api("conversations", method="POST", body={})["id"])
        (new,) = {run["id"] for run in app.api("runs")} - before
        ids.append(new)
    app.reload(draft_source="none", record_runs=False)
    return ids


def reply(app: App, conversation: str, question: str = QUESTION) -> None:
    """Have a question answered, without a browser."""
    request = urllib.request.Request(
        f"{app.url}/api/conversations/{conversation}/reply",
        data=json.dumps({"content": question}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        assert b"event: done" in response.read()


def test_an_answer_is_recorded_and_opened(app: App, new_page: NewPage) -> None:
    app.settings(max_tokens=60)
    before = {run["id"] for run in app.api("runs")}
    page = new_page(app.url)
    open_page(page, "Settings")
    page.get_by_role("switch", name="Record runs").check()
    wait_until(lambda: app.api("settings")["values"]["record_runs"], why="it is kept")
    open_page(page, "Runs")
    page.get_by_text("Every answer is recorded").wait_for()
    page.locator("nav:visible").get_by_role("link", name="Chat").first.click()
    ask(page, QUESTION)
    wait_answered(page)
    app.settings(record_runs=False)
    (run,) = {run["id"] for run in app.api("runs")} - before
    page.get_by_role("link", name="recorded run").click()
    page.get_by_role("heading", level=1, name=run).wait_for()
    page.get_by_role("img", name="Time of a token").wait_for()
    assert "59" in page.locator(".headline", has_text="Tokens").inner_text()


def test_charts_table_and_glossary_of_a_run(
    app: App, recorded: list[str], new_page: NewPage
) -> None:
    page = new_page(f"{app.url}/#/runs/{recorded[1]}")
    page.get_by_text(GROUPED).wait_for()
    for name in ("Time of a token", "Rate", "Hit rate", "Experts read"):
        assert page.get_by_role("img", name=f"{name} in").first.is_visible(), name
    chart = page.get_by_role("img", name="Time of a token")
    chart.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "token 1" in page.locator(".chart").first.inner_text()
    assert page.get_by_text("Acceptance by position").is_visible()

    detail = app.api(f"runs/{recorded[1]}")
    table = page.get_by_role("group", name="Rows of the run")
    assert table.get_by_role("columnheader").count() == len(detail["columns"])
    glossary = {entry["name"]: entry for entry in app.api("glossary")}
    for name in detail["columns"]:
        assert name in glossary
        assert table.get_by_role("button", name=name, exact=True).count() == 1
    table.get_by_role("button", name="stall_ms", exact=True).click()
    assert glossary["stall_ms"]["where"]["token"]["meaning"] in table.inner_text()
    page.keyboard.press("Escape")
    assert table.get_by_role("note").count() == 0
    page.get_by_role("button", name="Next", exact=True).click()
    assert page.locator(".pager").inner_text().startswith("Before\n51\N{EN DASH}100 of 120")

    page.get_by_text("Glossary", exact=True).click()
    assert page.locator(".glossary dl > div").count() == len(glossary)
    page.get_by_label("Search the glossary").fill("rereads")
    assert page.locator(".glossary dl > div").count() == 1


def test_two_runs_are_compared(app: App, recorded: list[str], new_page: NewPage) -> None:
    page = new_page(f"{app.url}/#/runs")
    compare = page.get_by_role("button", name="Compare")
    page.get_by_role("checkbox").first.wait_for()
    assert compare.is_disabled()
    for run in recorded:
        page.get_by_role("checkbox", name=f"Select {run} to compare").check()
    compare.click()
    page.get_by_role("heading", level=1, name="2 runs compared").wait_for()
    page.get_by_text(GROUPED).wait_for()
    labels = page.locator(".run-legend a").all_inner_texts()
    assert labels == ["spec off", "mtp 3"]
    answer = app.api(f"runs/compare?ids={','.join(recorded)}")
    assert answer["labels"] == labels
    table = page.get_by_role("group", name="The runs side by side")
    row = table.get_by_role("row").filter(has=page.get_by_role("button", name="spec", exact=True))
    assert row.get_by_role("cell").all_inner_texts() == ["spec off", "mtp 3"]
    assert table.get_by_role("button", name="threads", exact=True).count() == 0
    page.get_by_role("switch", name="Settings that are the same, too").check()
    assert table.get_by_role("button", name="threads", exact=True).count() == 1
    page.get_by_role("link", name="mtp 3").click()
    page.get_by_role("heading", level=1, name=recorded[1]).wait_for()


def test_export_import_rename_and_delete(
    app: App, recorded: list[str], new_page: NewPage, tmp_path: Path
) -> None:
    page = new_page(f"{app.url}/#/runs")
    with page.expect_download() as waiting:
        page.get_by_role("button", name=f"Export {recorded[0]}").click()
    exported = tmp_path / "elsewhere.csv"
    waiting.value.save_as(exported)
    assert exported.read_text().startswith("#")

    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,2\n")
    page.get_by_label("CSV files to import").set_input_files([exported, bad])
    page.get_by_text("The run was imported.").wait_for()
    page.get_by_role("region", name="Notifications").get_by_text("bad.csv:").wait_for()
    item = page.get_by_role("listitem").filter(
        has=page.get_by_role("link", name="elsewhere", exact=True)
    )
    item.get_by_text("imported", exact=True).wait_for()
    (imported,) = [run for run in app.api("runs") if run["imported"]]
    assert imported["tokens"] == app.api(f"runs/{recorded[0]}")["tokens"]

    item.get_by_role("button", name="Rename elsewhere").click()
    page.get_by_label("New name").fill("From the desktop")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="From the desktop").wait_for()
    page.get_by_role("button", name="Delete From the desktop").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("link", name="From the desktop").wait_for(state="detached")
    assert not any(run["imported"] for run in app.api("runs"))
