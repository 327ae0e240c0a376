"""A session written down: the files that the recording options name, for the time of a session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import moestream
from moestream.cli.console import note
from moestream.config import SamplingConfig
from moestream.engine.events import GenerationSummary, TokenEvent
from moestream.errors import ConfigError
from moestream.telemetry.csv_sink import CsvSink, check_target
from moestream.telemetry.json_lines import JsonLinesSink
from moestream.telemetry.preamble import SessionInfo
from moestream.telemetry.recorder import Recorder, Sink

if TYPE_CHECKING:
    from moestream.cli.recording import RecordingOptions
    from moestream.engine.session import Session
    from moestream.telemetry.route_trace import RouteTrace

__all__ = ["Recording"]


class Recording:
    """What ``--csv``, ``--progress`` and ``--route-trace`` write; without them it does nothing."""

    def __init__(self, options: RecordingOptions, *, model: Path) -> None:
        """Open the files. Nothing in them is replaced before :meth:`of`.

        Raises:
            ConfigError: a file cannot be written to, or must not be.
        """
        self._sinks: list[Sink] = []
        self._recorder: Recorder | None = None
        self._trace: RouteTrace | None = None
        self._targets = [path for path in (options.csv, options.route_trace) if path is not None]
        if len({path.resolve() for path in self._targets}) < len(self._targets):
            raise ConfigError(
                f"--csv and --route-trace both name {options.csv}; give them a file each"
            )
        try:
            self._open(options, model)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def of(self, session: Session) -> Iterator[None]:
        """Record ``session`` for the time of the block.

        Raises:
            ConfigError: a file is one of the model's, or there is nothing to trace.
        """
        try:
            self._start(session)
            yield
        finally:
            self.close()

    def begin_turn(self, limit: int | None, sampling: SamplingConfig | None = None) -> None:
        """A turn begins; see :meth:`Recorder.begin_turn`."""
        if self._trace is not None:
            self._trace.begin_turn()
        if self._recorder is not None:
            self._recorder.begin_turn(limit, sampling)

    def observe(self, event: TokenEvent) -> None:
        """A token came."""
        if self._recorder is not None:
            self._recorder.observe(event)

    def end_turn(self, summary: GenerationSummary | None) -> None:
        """The turn has ended, for whatever reason."""
        if self._recorder is not None:
            self._recorder.end_turn(summary)
        if self._trace is not None and self._trace.failure is not None:
            self._end_trace()

    def close(self) -> None:
        """Write the ends and close the files; may be called again."""
        self._end_trace()
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()
        for sink in self._sinks:
            sink.close()

    def _open(self, options: RecordingOptions, model: Path) -> None:
        if options.csv is not None:
            self._sinks.append(CsvSink(options.csv, protected=[model]))
        if options.progress:
            self._sinks.append(JsonLinesSink(_write_stderr))
        if options.route_trace is not None:
            from moestream.telemetry.route_trace import RouteTrace

            self._trace = RouteTrace(options.route_trace, protected=[model])
            if options.csv is not None and options.csv.samefile(options.route_trace):
                raise ConfigError(
                    f"--csv {options.csv} and --route-trace {options.route_trace} are one file; "
                    "give them a file each"
                )

    def _start(self, session: Session) -> None:
        report = session.load_report
        for path in self._targets:
            check_target(path, report.paths)
        if self._trace is not None:
            _warn("traced run: not a benchmark")
            _trace_session(session, self._trace)
        if self._sinks:
            info = SessionInfo(
                report=report,
                config=session.config,
                version=str(moestream.__version__),
                llama_cpp_python=_llama_version(),
                started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                traced=self._trace is not None,
            )
            self._recorder = Recorder(info, self._sinks, warn=_warn)

    def _end_trace(self) -> None:
        trace, self._trace = self._trace, None
        if trace is not None:
            trace.close()
            if trace.failure is not None:
                _warn(f"{trace.failure}; the session goes on without it")


def _warn(text: str) -> None:
    note(f"warning: {text}", style="yellow")


def _trace_session(session: Session, trace: RouteTrace) -> None:
    trace.begin(session.expert_source, mtp=session.config.speculation.source == "mtp")
    session.decode_observer = trace.record


def _write_stderr(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def _llama_version() -> str | None:
    try:
        return version("llama-cpp-python")
    except PackageNotFoundError:
        return None
