"""Settings of the server itself; what the engine runs with is an :class:`EngineConfig`."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from moestream.errors import ConfigError

__all__ = ["ServerConfig", "default_data_dir", "is_loopback"]


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc and not parts.path)


def default_data_dir() -> Path:
    """Where conversations and recorded runs are kept unless told otherwise."""
    home = os.environ.get("XDG_DATA_HOME", "")
    return (Path(home) if home else Path.home() / ".local" / "share") / "moestream"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server bound to ``host``."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """How the server listens, and whom it lets in.

    Attributes:
        host: address to listen at.
        port: port to listen at; 0 takes a free one.
        api_keys: a request needs one of them; without any, everybody may ask.
        cors_origins: web pages from elsewhere that may ask, such as ``https://example.org``.
        allowed_hosts: names by which the server may be called, besides its addresses; ``*`` for
            all.
        queue_limit: requests that may wait for the engine.
        max_body_bytes: longest request.
        data_dir: where conversations, settings and runs are kept.
        models_dirs: folders of models that may be loaded.
        served_name: what clients call the model that is given at the start.
        shutdown_s: seconds that a running answer has when the server is told to end.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    api_keys: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    queue_limit: int = 32
    max_body_bytes: int = 16 << 20
    data_dir: Path = field(default_factory=default_data_dir)
    models_dirs: tuple[Path, ...] = ()
    served_name: str | None = None
    shutdown_s: float = 10.0

    @property
    def local(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_loopback(self.host)

    def validate(self) -> None:
        """Raise :class:`ConfigError` if a value is out of range."""
        if not 0 <= self.port <= 65535:
            raise ConfigError(
                f"the port must lie in 0..65535 (0 takes a free one), got {self.port}"
            )
        if not 0 <= self.queue_limit <= 10_000:
            raise ConfigError(f"the queue limit must lie in 0..10000, got {self.queue_limit}")
        if not 1024 <= self.max_body_bytes <= 1 << 30:
            raise ConfigError(
                "the longest request must have between 1 KiB and 1 GiB, "
                f"got {self.max_body_bytes} bytes"
            )
        if not 0.0 <= self.shutdown_s <= 3600.0:
            raise ConfigError(f"the time to shut down must lie in 0..3600 s, got {self.shutdown_s}")
        for key in self.api_keys:
            if not key.isascii() or not key.isprintable() or not key or " " in key:
                raise ConfigError(
                    "an API key must be printable ASCII without spaces, for it travels in a header"
                )
        for origin in self.cors_origins:
            if origin != "*" and not _is_origin(origin):
                raise ConfigError(
                    f"{origin!r} is no origin; give scheme and host, such as https://example.org"
                )
