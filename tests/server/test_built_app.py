"""The built app in the package is the one that its sources make, and is complete.

A build needs node; this does not, and so a forgotten build is caught everywhere.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from moestream.server.static_files import app_folder

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
#: As in web/plugins/build-record.ts.
SOURCES = (
    "index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts",
    "plugins", "public", "src",
)  # fmt: skip
MOST_BYTES = 1_500_000


def built() -> Path:
    folder = app_folder()
    assert folder is not None, "the app is not built: cd web && npm ci && npm run build"
    return folder


def record() -> dict[str, object]:
    found: dict[str, object] = json.loads((built() / "build.json").read_text())
    return found


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files(*roots: Path) -> list[Path]:
    return [
        path
        for root in roots
        for path in ([root] if root.is_file() else root.rglob("*"))
        if path.is_file()
    ]


def test_the_build_is_of_these_sources() -> None:
    if not WEB.is_dir():
        pytest.skip("the sources of the app are not here: an installed package has none")
    paths = sorted(
        (path.relative_to(WEB).as_posix(), path)
        for path in files(*(WEB / name for name in SOURCES))
        if not re.search(r"\.test\.tsx?$", path.name)
    )
    lines = "".join(f"{sha256(path)}  {name}\n" for name, path in paths)
    assert hashlib.sha256(lines.encode()).hexdigest() == record()["sources"], (
        "the app in the package is not built from web/: cd web && npm ci && npm run build"
    )


def test_every_file_is_there_and_as_it_was_built() -> None:
    folder = built()
    found = {
        path.relative_to(folder).as_posix(): sha256(path)
        for path in files(folder)
        if path.name != "build.json"
    }
    assert found == record()["files"]


def test_it_is_small_and_asks_nobody_else() -> None:
    folder = built()
    assert sum(path.stat().st_size for path in files(folder)) < MOST_BYTES
    page = (folder / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)", page), "a script within the page"
    assert not re.search(r"(?:src|href)=[\"'](?!/)", page), "something from elsewhere"
    for name in re.findall(r"(?:src|href)=[\"']/([^\"']+)", page):
        assert (folder / name).is_file(), name
    for style in folder.rglob("*.css"):
        assert not re.search(r"url\(|@import", style.read_text()), style.name


def test_the_service_worker_keeps_the_shell_and_nothing_of_the_api() -> None:
    folder = built()
    script = (folder / "sw.js").read_text()
    match = re.search(r"const SHELL = (\[.*?\]);", script)
    assert match is not None
    shell = set(json.loads(match[1]))
    assert not any(name.startswith(("/api", "/v1")) for name in shell)
    expected = {f"/{path.relative_to(folder).as_posix()}" for path in files(folder)}
    assert shell == (expected - {"/index.html", "/sw.js", "/build.json"}) | {"/"}


def test_the_icons_are_as_large_as_the_manifest_says() -> None:
    folder = built()
    manifest = json.loads((folder / "manifest.webmanifest").read_text())
    sizes = {icon["sizes"] for icon in manifest["icons"]}
    assert {"192x192", "512x512"} <= sizes
    assert any(icon["purpose"] == "maskable" for icon in manifest["icons"])
    for icon in manifest["icons"]:
        data = (folder / icon["src"].lstrip("/")).read_bytes()
        if icon["type"] == "image/png":
            width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
            assert icon["sizes"] == f"{width}x{height}"
