"""Options of ``moestream serve``: where it listens, and whom it lets in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from moestream.cli.declare import option

if TYPE_CHECKING:
    from moestream.server.config import ServerConfig

__all__ = ["ServeOptions"]

SERVER_PANEL = "Server"
ACCESS_PANEL = "Who may ask"
FILES_PANEL = "Files"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What :class:`moestream.server.config.ServerConfig` holds."""

    host: Annotated[
        str,
        option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen at; 0.0.0.0 for every one of this machine. Beyond this machine "
            "give an API key too.",
            panel=SERVER_PANEL,
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        option("--port", metavar="N", help="Port; 0 takes a free one.", panel=SERVER_PANEL),
    ] = 8080
    served_name: Annotated[
        str | None,
        option(
            "--served-name",
            metavar="NAME",
            help="What clients call the model, instead of the reference or the file's name.",
            panel=SERVER_PANEL,
        ),
    ] = None
    queue_limit: Annotated[
        int,
        option(
            "--queue-limit",
            metavar="N",
            help="Requests that may wait for the engine; more get 429.",
            panel=SERVER_PANEL,
        ),
    ] = 32
    max_body_mb: Annotated[
        int,
        option("--max-body-mb", metavar="N", help="Longest request in MiB.", panel=SERVER_PANEL),
    ] = 16
    shutdown_timeout: Annotated[
        float,
        option(
            "--shutdown-timeout",
            metavar="SECONDS",
            help="How long a running answer may go on when the server is told to end.",
            panel=SERVER_PANEL,
        ),
    ] = 10.0
    api_key: Annotated[
        list[str] | None,
        option(
            "--api-key",
            metavar="KEY",
            help="Requests need this key (repeat for more). Others on this machine see options: "
            "better set the variable, which separates by spaces.",
            panel=ACCESS_PANEL,
            show_default=False,
        ),
    ] = None
    allow_host: Annotated[
        list[str] | None,
        option(
            "--allow-host",
            metavar="NAME",
            help="Name by which the server may be called, besides its addresses (repeat for more; "
            "* for all).",
            panel=ACCESS_PANEL,
            show_default=False,
        ),
    ] = None
    cors_origin: Annotated[
        list[str] | None,
        option(
            "--cors-origin",
            metavar="ORIGIN",
            help="Web pages from elsewhere that may ask, such as https://example.org (repeat for "
            "more).",
            panel=ACCESS_PANEL,
            show_default=False,
        ),
    ] = None
    data_dir: Annotated[
        Path | None,
        option(
            "--data-dir",
            metavar="DIR",
            help="Where conversations, settings and recorded runs are kept "
            "(~/.local/share/moestream).",
            panel=FILES_PANEL,
            show_default=False,
        ),
    ] = None
    models_dir: Annotated[
        list[Path] | None,
        option(
            "--models-dir",
            metavar="DIR",
            help="Folder of models that the app may open (repeat for more).",
            panel=FILES_PANEL,
            show_default=False,
        ),
    ] = None

    def config(self, model: str) -> ServerConfig:
        """The server's configuration, checked; ``model`` is what the user called the model.

        Raises:
            ConfigError: a value is out of range.
        """
        from moestream.models.reference import parse_reference
        from moestream.server.config import ServerConfig, default_data_dir

        reference = parse_reference(model) is not None and not Path(model).expanduser().exists()
        config = ServerConfig(
            host=self.host,
            port=self.port,
            api_keys=tuple(self.api_key or ()),
            cors_origins=tuple(self.cors_origin or ()),
            allowed_hosts=tuple(self.allow_host or ()),
            queue_limit=self.queue_limit,
            max_body_bytes=self.max_body_mb << 20 if self.max_body_mb > 0 else 0,
            data_dir=self.data_dir or default_data_dir(),
            models_dirs=tuple(self.models_dir or ()),
            served_name=self.served_name or (model if reference else None),
            shutdown_s=self.shutdown_timeout,
        )
        config.validate()
        return config
