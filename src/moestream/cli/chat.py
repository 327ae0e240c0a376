"""``moestream chat``: a conversation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from moestream.cli.console import note
from moestream.cli.conversation import Conversation
from moestream.cli.declare import option
from moestream.cli.expand import verb
from moestream.cli.failure import EXIT_INTERRUPT
from moestream.cli.lines import (
    MessageReader,
    load_readline,
    piped_line,
    save_history,
    terminal_line,
)
from moestream.cli.options import OUTPUT_PANEL, EngineOptions
from moestream.cli.recording import RecordingOptions
from moestream.cli.speculation import SpeculationOptions
from moestream.cli.turn_options import LimitOptions, SamplingOptions, TemplateOptions

__all__ = ["chat"]


@verb
def chat(
    *,
    engine: EngineOptions,
    sampling: SamplingOptions,
    speculation: SpeculationOptions,
    limits: LimitOptions,
    template: TemplateOptions,
    records: RecordingOptions,
    load: Annotated[
        Path | None,
        option("--load", metavar="FILE", help="Go on with a conversation saved by /save."),
    ] = None,
    stats: Annotated[
        bool,
        option("--stats/--no-stats", help="Print numbers after every answer.", panel=OUTPUT_PANEL),
    ] = False,
) -> None:
    """Talk to a model; /help lists the commands.

    Every message continues what the context already holds. Without a terminal every line of
    stdin is a message.
    """
    from moestream.cli.repl import Repl
    from moestream.cli.turn import open_session

    limit = limits.limit
    config = engine.config(sampling.config(), speculation.config())
    conversation = Conversation.load(load) if load is not None else Conversation()
    if template.system is not None:
        conversation.system = template.system
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    with (
        records.opened(config) as recording,
        open_session(config) as session,
        recording.of(session),
    ):
        session.render(conversation.asking("?"))  # refuse a model without a template right away
        readline = load_readline() if interactive else None
        if interactive:
            note("/help for help, Ctrl-D to leave")
        repl = Repl(
            session,
            MessageReader(terminal_line if interactive else piped_line),
            conversation=conversation,
            sampling=config.sampling,
            max_tokens=limit,
            stops=limits.stops,
            thinking=template.enable_thinking,
            stats=stats,
            recording=recording,
            line_is_empty=lambda: readline is None or not readline.get_line_buffer(),
        )
        try:
            if not repl.run():
                raise typer.Exit(EXIT_INTERRUPT)
        finally:
            save_history(readline)
