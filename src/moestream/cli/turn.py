"""One turn on the terminal: text as it comes, or records for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from moestream.cli.console import note, status, write, write_json
from moestream.cli.interrupt import LoadInterrupt, TurnInterrupt
from moestream.cli.records import Recording
from moestream.config import EngineConfig, SamplingConfig
from moestream.engine.events import GenerationSummary, TokenEvent
from moestream.engine.session import Session
from moestream.telemetry.summary import SYNTHETIC, load_line, summary_lines

__all__ = ["Format", "Turn", "open_session", "play", "print_summary", "token_record"]

Format = Literal["text", "json", "lines"]


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of a turn."""

    text: str
    summary: GenerationSummary | None
    interrupted: bool


@contextmanager
def open_session(config: EngineConfig, *, quiet: bool = False) -> Iterator[Session]:
    """A session for the time of the block; says on stderr what it loads and what it noticed."""
    with status("loading") as tell, LoadInterrupt() as interrupt:

        def progress(fraction: float) -> None:
            interrupt.check()
            tell(f"loading {100 * fraction:.0f} %")

        session = Session(config, progress=progress)
    with session:
        interrupt.check()
        report = session.load_report
        if not quiet:
            note(load_line(report))
            for text in report.notes:
                note(f"note: {text}")
        for text in report.warnings:
            note(f"warning: {text}", style="yellow")
        if config.speculation.synthetic_acceptance is not None:
            note(f"warning: {SYNTHETIC}", style="bold red")
        yield session


def play(
    session: Session,
    start: Callable[[], Iterator[TokenEvent]],
    form: Format = "text",
    *,
    recording: Recording,
    limit: int | None,
    sampling: SamplingConfig | None = None,
) -> Turn:
    """Run a turn, show it and record it; Ctrl-C ends the turn.

    ``limit`` and ``sampling`` are what ``start`` begins the turn with.
    """
    pieces: list[str] = []
    with TurnInterrupt(session) as interrupt:
        try:
            events = start()
            recording.begin_turn(limit, sampling)
            for event in events:
                recording.observe(event)
                pieces.append(event.text)
                if form == "text" and event.text:
                    write(event.text)
                elif form == "lines":
                    write_json(token_record(event), compact=True)
        finally:
            text = "".join(pieces)
            try:
                if form == "text" and text and not text.endswith("\n"):
                    write("\n")
            finally:
                recording.end_turn(session.last_summary)
    return Turn(text, session.last_summary, interrupt.requested)


def token_record(event: TokenEvent) -> dict[str, Any]:
    """A token as a JSON line."""
    metrics = event.metrics
    return {
        "type": "token",
        "index": event.index,
        "token_id": event.token_id,
        "text": event.text,
        "finish_reason": event.finish_reason,
        "tok_s": event.tok_s,
        "phase": metrics.phase,
        "wall_ms": metrics.wall_ms,
        "stall_ms": metrics.stall_ms,
        "read_bytes": metrics.read_bytes,
        "hit_pct": metrics.hit_pct,
        "batch": metrics.batch,
        "drafted": metrics.drafted,
        "accepted": metrics.accepted,
        "draft_ms": metrics.draft_ms,
    }


def print_summary(session: Session) -> None:
    """The last turn's summary to stderr."""
    if session.last_summary is not None:
        for line in summary_lines(session.last_summary, session.load_report):
            note(line)
