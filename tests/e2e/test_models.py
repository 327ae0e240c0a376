"""Models on the server: inspected, planned, loaded and unloaded; and pulled, from a hub nearby."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ModelMaker
from tests.e2e.app import App, running_app, wait_until
from tests.e2e.conftest import OPTIONS, NewPage
from tests.models.hub import Hub, serve

REPO = "someone/Tiny-GGUF"


@pytest.fixture(scope="module")
def hub(tiny: ModelMaker) -> Iterator[Hub]:
    files = {"README.md": b"# hello", "tiny-Q8_0.gguf": tiny("qwen3moe").read_bytes()}
    with serve(Hub(REPO, files)) as running:
        yield running


@pytest.fixture(scope="module")
def app(
    browser: object, hub: Hub, tiny: ModelMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("folder")
    (folder / "mine-Q8_0.gguf").write_bytes(tiny("qwen3moe").read_bytes())
    (folder / "broken-Q8_0.gguf").write_bytes(b"GGUF, but not really")
    data = tmp_path_factory.mktemp("data")
    options = (*OPTIONS, "--models-dir", str(folder))
    with running_app(data, *options, environment={"HF_ENDPOINT": hub.url}) as running:
        yield running


def test_a_model_is_inspected_planned_loaded_and_unloaded(app: App, new_page: NewPage) -> None:
    page = new_page(f"{app.url}/#/models")
    item = page.get_by_role("listitem").filter(has_text="mine-Q8_0")
    item.get_by_text("What is in it").click()
    item.get_by_text("Runs, all in memory").wait_for()
    item.get_by_text("tok/s").wait_for()
    assert "qwen3moe" in item.get_by_role("region", name="Contents").inner_text()

    item.get_by_role("button", name="Load mine-Q8_0").click()
    loaded = page.locator(".loaded")
    wait_until(
        lambda: (
            app.api("state")["phase"] == "ready"
            and app.api("state")["model"]["path"].endswith("mine-Q8_0.gguf")
        ),
        why="it is loaded",
    )
    item.get_by_text("loaded", exact=True).wait_for()
    loaded.get_by_role("button", name="Unload").click()
    loaded.get_by_text("No model is loaded.").wait_for()
    assert app.api("state")["phase"] == "unloaded"

    page.locator("nav:visible").get_by_role("link", name="Chat").first.click()
    page.get_by_label("Your message").fill("hello")
    assert page.get_by_role("button", name="Send").is_disabled()
    page.get_by_role("link", name="Choose a model").click()
    page.get_by_role("button", name="Load moestream-nano").click()
    page.locator(".loaded").get_by_role("heading", name="moestream-nano").wait_for()


def test_a_broken_file_says_what_is_wrong(app: App, new_page: NewPage) -> None:
    app.wait_ready()
    page = new_page(f"{app.url}/#/models")
    item = page.get_by_role("listitem").filter(has_text="broken-Q8_0")
    item.get_by_text("What is in it").click()
    item.get_by_role("alert").first.wait_for()
    item.get_by_role("button", name="Load broken-Q8_0").click()
    page.get_by_role("button", name="Choose another model").or_(
        page.get_by_role("link", name="Choose another model")
    ).wait_for()
    assert "broken" in page.locator(".loaded").inner_text()
    assert app.api("state")["phase"] == "failed"
    page.get_by_role("button", name="Load moestream-nano").click()
    app.wait_ready()


def test_a_pull_is_cancelled_half_way_and_resumed(app: App, hub: Hub, new_page: NewPage) -> None:
    size = len(hub.files["tiny-Q8_0.gguf"])
    hub.stall_after = size // 2
    page = new_page(f"{app.url}/#/models")
    field = page.get_by_label("From the Hugging Face Hub")
    field.fill("not a reference")
    page.get_by_role("button", name="Pull").click()
    page.get_by_role("alert").get_by_text("OWNER/NAME").wait_for()
    field.fill(f"{REPO}:Q8_0")
    page.get_by_role("button", name="Pull").click()
    pull = page.get_by_role("listitem").filter(has=page.get_by_text(f"{REPO}:Q8_0", exact=True))
    progress = pull.get_by_role("progressbar")
    wait_until(
        lambda: int(progress.get_attribute("aria-valuenow") or 0) >= 40, why="half of it is there"
    )
    pull.get_by_role("button", name="Cancel").click()
    pull.get_by_text("Cancelled at").wait_for()
    (kept,) = app.api("pulls")
    assert kept["state"] == "cancelled"
    assert 0 < kept["bytes_done"] < size

    hub.stall_after = None
    pull.get_by_role("button", name="Resume").click()
    pull.get_by_text("Done").wait_for()
    ranges = [wanted for _, wanted in hub.fetched() if wanted]
    assert ranges, "it went on where it had stopped"
    done = Path(app.api("pulls")[0]["path"])
    assert done.read_bytes() == hub.files["tiny-Q8_0.gguf"]
    page.locator(".model").filter(has_text="hub cache").wait_for()
    pull.get_by_role("button", name="Remove").click()
    pull.wait_for(state="detached")
    assert app.api("pulls") == []
    assert done.exists()


def test_a_pull_that_fails_says_why(app: App, new_page: NewPage) -> None:
    page = new_page(f"{app.url}/#/models")
    page.get_by_label("From the Hugging Face Hub").fill("someone/else")
    page.keyboard.press("Enter")
    pull = page.locator(".pull", has_text="someone/else")
    pull.locator(".error-text").wait_for()
    assert "someone/else" in pull.locator(".error-text").inner_text()
