"""The app's files at ``/``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

__all__ = ["AppFiles", "app_folder"]

#: Nothing but this server's own files runs in the page, and no other page may frame it.
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_FOR_EVER: Final = "public, max-age=31536000, immutable"


def app_folder() -> Path | None:
    """Where the built app lies; ``None`` if this installation has none."""
    folder = Path(__file__).parent / "static"
    return folder if (folder / "index.html").is_file() else None


class AppFiles(StaticFiles):
    """Files as they are; whatever else a browser opens is the app, which reads the address."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, or the app."""
        try:
            response = await super().get_response(path, scope)
        except HTTPException as error:
            if error.status_code != 404 or not _is_page(path, scope):
                raise
            path = "index.html"
            response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        # Built files have their hash in their name; the others decide which of those are used.
        hashed = path.startswith(f"assets{os.sep}") or path.startswith("assets/")
        response.headers["Cache-Control"] = _FOR_EVER if hashed else "no-cache"
        return response


def _is_page(path: str, scope: Scope) -> bool:
    accepts = dict(scope["headers"]).get(b"accept", b"")
    first, _, _ = path.replace(os.sep, "/").partition("/")
    return b"text/html" in accepts and first not in ("api", "v1", "assets")
