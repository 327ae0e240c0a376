"""A hub on the loopback interface: the few endpoints that fetching a model takes."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_PIECE = 4096


@dataclass
class Hub:
    """What the server serves and what it was asked.

    Attributes:
        repo: the one repository.
        files: its files.
        stall_after: bytes after which a download goes on very slowly, to be interrupted.
        token: if set, requests without it are refused.
        requests: method, path and range of every request for a file.
    """

    repo: str
    files: dict[str, bytes]
    stall_after: int | None = None
    token: str | None = None
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    url: str = ""

    def fetched(self) -> list[tuple[str, str | None]]:
        """Name and range of every download."""
        return [(path, wanted) for method, path, wanted in self.requests if method == "GET"]


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Run the server for the time of the block."""

    class Handler(_Handler):
        pass

    Handler.hub = hub
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        hub.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: object) -> None:
        return

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        if self.hub.token and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            self._refuse(401, "RepoNotFound")
        elif path.startswith(f"/api/models/{self.hub.repo}"):
            self._send(200, json.dumps(self._listing()).encode(), {}, body)
        elif path.startswith(f"/{self.hub.repo}/resolve/"):
            name = path.split("/", 5)[5]
            self.hub.requests.append((self.command, name, self.headers.get("Range")))
            if name in self.hub.files:
                self._file(self.hub.files[name], body)
            else:
                self._refuse(404, "EntryNotFound")
        else:
            self._refuse(404, "RepoNotFound")

    def _listing(self) -> dict[str, object]:
        return {
            "id": self.hub.repo,
            "sha": COMMIT,
            "siblings": [
                {
                    "rfilename": name,
                    "size": len(data),
                    "blobId": hashlib.sha1(data).hexdigest(),
                    "lfs": {"sha256": _sha(data), "size": len(data), "pointerSize": 100},
                }
                for name, data in self.hub.files.items()
            ],
        }

    def _file(self, data: bytes, body: bool) -> None:
        headers = {
            "X-Repo-Commit": COMMIT,
            "ETag": f'"{_sha(data)}"',
            "X-Linked-ETag": f'"{_sha(data)}"',
            "X-Linked-Size": str(len(data)),
            "Accept-Ranges": "bytes",
        }
        wanted = self.headers.get("Range")
        if wanted and body:
            start = int(wanted.removeprefix("bytes=").split("-")[0])
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            self._send(206, data[start:], headers, body)
        else:
            self._send(200, data, headers, body)

    def _refuse(self, code: int, reason: str) -> None:
        self._send(code, b"{}", {"X-Error-Code": reason}, self.command == "GET")

    def _send(self, code: int, data: bytes, headers: dict[str, str], body: bool) -> None:
        try:
            self.send_response(code)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if not body:
                return
            for start in range(0, len(data), _PIECE):
                self.wfile.write(data[start : start + _PIECE])
                self.wfile.flush()
                if self.hub.stall_after is not None and start >= self.hub.stall_after:
                    time.sleep(0.1)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
