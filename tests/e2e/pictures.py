"""The pictures of ``docs/app.md``, taken from the running app.

Run as ``python -m tests.e2e.pictures [FOLDER]``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.e2e.app import App, running_app, wait_until
from tests.e2e.conftest import ARGUMENTS, OPTIONS, chromium
from tests.e2e.steps import ask, wait_answered
from tests.e2e.test_runs import reply
from tests.fixtures import make_fixture
from tests.models.hub import Hub, serve

RECORDED = "The king said to his daughter"
SHOWN = "Tom looked at the old house and"
SIZES = ((1280, 800), (360, 740))
DARK = ("chat", "compare")


def main() -> None:
    """Prepare a server with something to show, and take every picture in both sizes."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/app")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        models = Path(scratch) / "models"
        models.mkdir()
        tiny = make_fixture("qwen3moe", Path(scratch))
        hub = Hub("someone/Tiny-MoE-GGUF", {"tiny-Q4_K_M.gguf": tiny.read_bytes()})
        hub.stall_after = len(hub.files["tiny-Q4_K_M.gguf"]) // 2
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        data = Path(scratch) / "data"
        with (
            serve(hub),
            running_app(data, *OPTIONS, environment={"HF_ENDPOINT": hub.url}) as app,
        ):
            runs = _prepare(app)
            for width, height in SIZES:
                for theme in ("light", "dark"):
                    context = browser.new_context(
                        viewport={"width": width, "height": height}, color_scheme=theme,
                        reduced_motion="reduce", service_workers="block",
                    )  # fmt: skip
                    page = context.new_page()
                    ending = f"{width}.png" if theme == "light" else f"{width}-dark.png"

                    def shoot(name: str, page: Any = page, ending: str = ending) -> None:
                        if name in DARK or "dark" not in ending:
                            page.wait_for_timeout(300)
                            _keep(page.screenshot(), folder / f"{name}-{ending}")

                    _pages(app, page, runs, shoot)
                    context.close()
        browser.close()


def _keep(picture: bytes, path: Path) -> None:
    """Store it with 256 colours, which is all it has, about."""
    with Image.open(BytesIO(picture)) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def _prepare(app: App) -> list[str]:
    """Two conversations, and a run of each draft source."""
    runs = []
    for source in ("none", "mtp"):
        app.reload(draft_source=source, record_runs=True, max_tokens=240)
        conversation = app.api("conversations", method="POST", body={})["id"]
        reply(app, conversation, RECORDED)
        run = app.api("runs")[0]["id"]
        name = "A story, plain" if source == "none" else "A story, drafted by the head"
        app.api(f"runs/{run}", method="PATCH", body={"name": name})
        runs.append(run)
    app.settings(record_runs=False, max_tokens=2500)
    app.api("pulls", method="POST", body={"reference": "someone/Tiny-MoE-GGUF:Q4_K_M"})
    wait_until(lambda: app.api("pulls")[0]["bytes_done"] > 0, why="something is fetched")
    return runs


def _pages(app: App, page: Any, runs: list[str], shoot: Callable[[str], None]) -> None:
    page.goto(app.url)
    page.get_by_role("heading", name="What is on your mind?").wait_for()
    shoot("welcome")
    ask(page, SHOWN)
    page.locator(".live:visible, .live-strip:visible").get_by_text("tok/s").first.wait_for()
    page.wait_for_timeout(1500)
    shoot("chat")
    if page.locator(".live-strip").is_visible():
        page.locator(".live-strip").click()
        shoot("live")
        page.keyboard.press("Escape")
    stop = page.get_by_role("button", name="Stop the answer")
    if stop.is_visible():
        stop.click()
    wait_answered(page)
    page.goto(f"{app.url}/#/settings")
    page.get_by_role("radio", name="N-gram").check()
    page.locator(".reload-bar").wait_for()
    shoot("settings")
    page.get_by_role("radio", name="MTP head").check()
    page.locator(".reload-bar").wait_for(state="detached")
    page.goto(f"{app.url}/#/runs")
    for run in (0, 1):
        page.get_by_role("checkbox").nth(run).check()
    shoot("runs")
    page.goto(f"{app.url}/#/runs/{runs[1]}")
    page.get_by_role("img", name="Time of a token").wait_for()
    shoot("run")
    page.goto(f"{app.url}/#/runs/compare/{','.join(runs)}")
    page.get_by_role("img", name="Effective rate").wait_for()
    shoot("compare")
    page.goto(f"{app.url}/#/models")
    page.locator(".model summary").first.click()
    page.locator(".verdict").wait_for()
    page.locator(".spinner").first.wait_for(state="detached")
    page.locator("main").evaluate("(main) => main.scrollTo(0, 0)")
    shoot("models")
    page.locator(".model").first.evaluate("(model) => model.scrollIntoView()")
    shoot("plan")


if __name__ == "__main__":
    main()
