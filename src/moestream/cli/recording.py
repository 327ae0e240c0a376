"""The options that write a session down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from moestream.cli.declare import option

if TYPE_CHECKING:
    from moestream.cli.records import Recording
    from moestream.config import EngineConfig

__all__ = ["RecordingOptions"]

RECORDING_PANEL = "Recording"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingOptions:
    """What is written down of a session, and where."""

    csv: Annotated[
        Path | None,
        option(
            "--csv",
            metavar="FILE",
            help="Record the session: settings, a row per token, and a summary. Replaces the file.",
            panel=RECORDING_PANEL,
        ),
    ] = None
    progress: Annotated[
        bool,
        option(
            "--progress",
            help="Print the same numbers to stderr as lines of JSON: BMOE_LOAD, BMOE_PROGRESS per "
            "token, BMOE_DONE per answer.",
            panel=RECORDING_PANEL,
        ),
    ] = False
    route_trace: Annotated[
        Path | None,
        option(
            "--route-trace",
            metavar="FILE",
            help="Write down every expert that the router asked for. Costs time: no benchmark run. "
            "Replaces the file.",
            panel=RECORDING_PANEL,
        ),
    ] = None

    @contextmanager
    def opened(self, config: EngineConfig) -> Iterator[Recording]:
        """A recording, opened before the model is, so that a bad path costs no time.

        Raises:
            ConfigError: a file cannot be written to, or must not be.
        """
        from moestream.cli.records import Recording

        recording = Recording(self, model=Path(config.model))
        try:
            yield recording
        finally:
            recording.close()
