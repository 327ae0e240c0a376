"""Records one turn to a CSV file, in the engine's process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import moestream
from moestream.config import SamplingConfig
from moestream.engine.events import GenerationSummary, TokenEvent
from moestream.engine.session import Session
from moestream.errors import ConfigError
from moestream.telemetry.csv_sink import CsvSink
from moestream.telemetry.preamble import SessionInfo
from moestream.telemetry.recorder import Recorder

__all__ = ["TurnRecording"]


class TurnRecording:
    """The file of one turn. A file that cannot be written is warned about, and no more."""

    def __init__(
        self,
        path: Path | None,
        session: Session,
        *,
        limit: int | None,
        sampling: SamplingConfig | None,
        warn: Callable[[str], None],
    ) -> None:
        """Begin; without a ``path`` nothing is recorded."""
        self._recorder: Recorder | None = None
        if path is None:
            return
        report = session.load_report
        try:
            sink = CsvSink(path, protected=report.paths)
        except ConfigError as error:
            warn(f"the turn is not recorded: {error}")
            return
        info = SessionInfo(
            report=report,
            config=session.config,
            version=str(moestream.__version__),
            llama_cpp_python=_llama_version(),
            started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )
        self._recorder = Recorder(info, [sink], warn=warn)
        self._recorder.begin_turn(limit, sampling)

    def observe(self, event: TokenEvent) -> None:
        """A token."""
        if self._recorder is not None:
            self._recorder.observe(event)

    def close(self, summary: GenerationSummary | None) -> None:
        """The turn has ended, for whatever reason. May be called again."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.end_turn(summary)
            recorder.close()


def _llama_version() -> str | None:
    try:
        return version("llama-cpp-python")
    except PackageNotFoundError:
        return None
