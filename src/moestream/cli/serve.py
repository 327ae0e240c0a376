"""``moestream serve``: an OpenAI-compatible API, and the app."""

from __future__ import annotations

import logging

from moestream.cli.console import note
from moestream.cli.expand import verb
from moestream.cli.options import EngineOptions
from moestream.cli.serve_options import ServeOptions
from moestream.cli.speculation import SpeculationOptions
from moestream.cli.turn_options import SamplingOptions
from moestream.errors import PlatformError

__all__ = ["serve"]


@verb
def serve(
    *,
    server: ServeOptions,
    engine: EngineOptions,
    sampling: SamplingOptions,
    speculation: SpeculationOptions,
) -> None:
    """Serve a model: OpenAI's API under /v1, and the app at /.

    Needs FastAPI and uvicorn: pip install 'moestream\\[serve]'.
    """
    config = server.config(engine.model)
    base = engine.config(sampling.config(), speculation.config())
    try:
        from moestream.server.run import serve as run
    except ModuleNotFoundError as error:
        raise PlatformError(
            f"the server needs {error.name}, which is not installed: pip install 'moestream[serve]'"
        ) from error
    _log_to_stderr()

    def listening(url: str) -> None:
        if not config.local and not config.api_keys:
            note(
                f"warning: everybody who reaches {config.host} can use this server, read its "
                "conversations and change its settings; set MOESTREAM_API_KEY",
                style="yellow",
            )
        note(f"serving at {url} (Ctrl-C ends)")

    run(config, base, listening=listening)


class _Notes(logging.Handler):
    """Log records as lines on stderr, in the program's own style."""

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        note(text if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {text}")


def _log_to_stderr() -> None:
    handler = _Notes()
    for name, level in (("moestream", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
