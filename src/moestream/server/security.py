"""Who may ask: the Host header, the Origin header, the API key, and how much they may send.

One plain ASGI middleware: it costs microseconds, and streams pass through it untouched.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moestream.server.config import ServerConfig, is_loopback
from moestream.server.errors import ApiError, error_response

__all__ = ["Gate", "client_of"]

#: Anybody may see whether the server lives, and load the app, which then asks for the key.
_KEY_NEEDED: Final = ("/v1", "/api", "/metrics")
_CLIENT: Final = "moestream.client"


def client_of(scope: Scope) -> str:
    """Who asks, for the queue: the key and the address."""
    found: str = scope.get(_CLIENT, "local")
    return found


class Gate:
    """Lets requests through to an application, or answers them itself."""

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        """Guard ``app``."""
        self._app = app
        self._config = config
        self._keys = [key.encode() for key in config.api_keys]
        self._hosts = {name.lower() for name in config.allowed_hosts}
        if not config.local:
            name = socket.gethostname().lower()
            self._hosts |= {name, f"{name.partition('.')[0]}.local"}
        self._origins = {origin.lower() for origin in config.cors_origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request first."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            self._check_host(headers)
            self._check_origin(headers)
            key = self._check_key(scope, headers)
            self._check_length(headers)
        except ApiError as error:
            if error.status == 413:
                await _discard(receive, self._config.max_body_bytes)
            await error_response(error)(scope, receive, send)
            return
        peer = scope.get("client")
        scope[_CLIENT] = f"{key} {peer[0] if peer else 'local'}"
        await self._app(scope, _Counted(receive, self._config.max_body_bytes), send)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        """Refuse a name that somebody else's DNS has pointed here."""
        host = _host_name(headers.get(b"host", b""))
        if host is None or host in self._hosts or "*" in self._hosts:
            return
        if is_loopback(host) or host.endswith(".localhost"):
            return
        if not self._config.local and (self._keys or _is_address(host)):
            return
        raise ApiError(
            f"this server is not called {host!r}; start it with --allow-host {host} if it is",
            status=403,
            code="unknown_host",
        )

    def _check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Refuse pages of other sites: a browser sends their requests with the user's reach."""
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if not origin or origin in self._origins or "*" in self._origins:
            return
        own = headers.get(b"host", b"").decode("latin-1").lower()
        if own and origin in (f"http://{own}", f"https://{own}"):
            return
        raise ApiError(
            f"pages from {origin} may not ask this server; start it with --cors-origin {origin} "
            "if they should",
            status=403,
            code="forbidden_origin",
        )

    def _check_key(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        """The number of the key that was given; empty where none is needed."""
        path: str = scope["path"]
        needed = any(path == root or path.startswith(f"{root}/") for root in _KEY_NEEDED)
        if not self._keys or not needed or scope["method"] == "OPTIONS":
            return ""
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer":
            matches = [hmac.compare_digest(given.strip(), key) for key in self._keys]
            if any(matches):
                return str(matches.index(True))
        words = "the API key is wrong" if given else "an API key is needed"
        raise ApiError(
            f"{words}; send it as Authorization: Bearer KEY",
            status=401,
            type_="authentication_error",
            code="invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _check_length(self, headers: dict[bytes, bytes]) -> None:
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._config.max_body_bytes:
            raise ApiError(
                _too_large(self._config.max_body_bytes), status=413, code="request_too_large"
            )


async def _discard(receive: Receive, most: int) -> None:
    """Take in a body that is too long, up to a point: who is still sending reads no answer."""
    while most > 0:
        message = await receive()
        most -= len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


class _Counted:
    """Receives a body of unknown length, up to the limit."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._left = limit

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise HTTPException(413, _too_large(self._limit))
        return message


def _too_large(limit: int) -> str:
    return (
        f"the request is longer than {limit / 2**20:g} MiB; send less, or start the server with a "
        "larger --max-body-mb"
    )


def _host_name(header: bytes) -> str | None:
    """The name in a Host header, without its port."""
    text = header.decode("latin-1").strip().lower()
    if not text:
        return None
    if text.startswith("["):
        return text[1 : text.find("]")]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
