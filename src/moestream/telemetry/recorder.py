"""From events to records, and from records to whoever writes them down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from moestream.config import SamplingConfig
from moestream.engine.events import GenerationSummary, TokenEvent
from moestream.telemetry.column import Value
from moestream.telemetry.preamble import SessionInfo, preamble_values
from moestream.telemetry.probes import MemoryProbe, MemorySample
from moestream.telemetry.record import TokenRecord, token_record
from moestream.telemetry.totals import Totals

__all__ = ["Recorder", "Sink"]


class Sink(Protocol):
    """Writes a recording down; may fail with :class:`OSError` at any time.

    Values go by the names of the schema's tables; what has no value may be missing.
    """

    @property
    def label(self) -> str:
        """What it writes, for messages."""

    def begin(self, preamble: Mapping[str, Value]) -> None:
        """The session as it was resolved; called once, first."""

    def token(self, record: TokenRecord) -> None:
        """A token."""

    def turn(self, done: Mapping[str, Value]) -> None:
        """A turn has ended."""

    def end(self, done: Mapping[str, Value]) -> None:
        """The session has ended; called once, last."""

    def close(self) -> None:
        """Release what is held; called after an error as well."""


class Recorder:
    """Records a session's turns.

    A sink that fails is warned about once and left out from then on: a full disk must not end a
    conversation.
    """

    def __init__(
        self,
        info: SessionInfo,
        sinks: Sequence[Sink],
        *,
        warn: Callable[[str], None],
        probe: MemoryProbe | None = None,
    ) -> None:
        """Begin the recording.

        Args:
            info: the session.
            sinks: where records go; closed with the recorder.
            warn: told about a sink that failed, in words.
            probe: measures memory; closed with the recorder.
        """
        self._info = info
        self._sinks = list(sinks)
        self._warn = warn
        self._probe = MemoryProbe() if probe is None else probe
        self._memory = MemorySample()
        self._session = Totals()
        self._turn = -1
        self._running = False
        self._limit: int | None = None
        self._sampling = info.config.sampling
        self._mgmt_ms: float | None = 0.0
        preamble = preamble_values(info)
        self._tell(lambda sink: sink.begin(preamble))

    def begin_turn(self, limit: int | None, sampling: SamplingConfig | None = None) -> None:
        """A turn begins.

        Args:
            limit: tokens it may generate at most.
            sampling: how it chooses, if not as the session was configured.
        """
        self._turn += 1
        self._running = True
        self._limit = limit
        self._sampling = self._info.config.sampling if sampling is None else sampling
        self._mgmt_ms = 0.0

    def observe(self, event: TokenEvent) -> TokenRecord | None:
        """Record a token; the closing event of a cancelled turn is none."""
        if event.token_id is None:
            return None
        if event.metrics.batch:
            # Between the tokens of one group nothing was decoded.
            self._memory = self._probe.sample()
        record = token_record(
            event, self._info.report, self._memory, turn=self._turn, steps=self._limit
        )
        if record.phase == "decode" and self._mgmt_ms is not None:
            self._mgmt_ms = None if record.mgmt_ms is None else self._mgmt_ms + record.mgmt_ms
        self._tell(lambda sink: sink.token(record))
        return record

    def end_turn(self, summary: GenerationSummary | None) -> None:
        """The turn has ended, for whatever reason."""
        if not self._running or summary is None:
            return
        self._running = False
        mgmt_s = None if self._mgmt_ms is None else self._mgmt_ms / 1e3
        turn = Totals()
        for totals in (turn, self._session):
            totals.add(summary, mgmt_s=mgmt_s)
        values = {
            **turn.values(self._info.report),
            "turn": self._turn,
            "temp": self._sampling.temperature,
            "top_k": self._sampling.top_k,
            "top_p": self._sampling.top_p,
            "seed": self._sampling.seed,
        }
        self._tell(lambda sink: sink.turn(values))

    def close(self) -> None:
        """End the recording. May be called again."""
        values = self._session.values(self._info.report)
        self._tell(lambda sink: sink.end(values))
        for sink in self._sinks:
            with suppress(OSError):
                sink.close()
        self._sinks = []
        self._probe.close()

    def _tell(self, what: Callable[[Sink], None]) -> None:
        for sink in tuple(self._sinks):
            try:
                what(sink)
            except (OSError, ValueError) as error:  # ValueError: the stream was closed
                self._sinks.remove(sink)
                with suppress(OSError, ValueError):
                    sink.close()
                with suppress(OSError, ValueError):
                    self._warn(_words(sink.label, error))


def _words(label: str, error: Exception) -> str:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"{label} ends here, the session goes on without it: {reason}"
