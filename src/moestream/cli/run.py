"""``moestream run``: one prompt, one answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from moestream.cli.console import note, write_json
from moestream.cli.conversation import Conversation
from moestream.cli.declare import option
from moestream.cli.expand import verb
from moestream.cli.failure import EXIT_INTERRUPT
from moestream.cli.options import OUTPUT_PANEL, EngineOptions, JsonOption
from moestream.cli.recording import RecordingOptions
from moestream.cli.speculation import SpeculationOptions
from moestream.cli.turn_options import LimitOptions, SamplingOptions, TemplateOptions
from moestream.errors import ConfigError, UnsupportedModelError

__all__ = ["run"]

PROMPT_PANEL = "Prompt"


@verb
def run(
    *,
    engine: EngineOptions,
    sampling: SamplingOptions,
    speculation: SpeculationOptions,
    limits: LimitOptions,
    template: TemplateOptions,
    records: RecordingOptions,
    prompt: Annotated[
        str | None,
        option(
            "--prompt",
            "-p",
            metavar="TEXT",
            help="The prompt; - reads it from stdin.",
            panel=PROMPT_PANEL,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        option(
            "--file",
            "-f",
            metavar="FILE",
            help="Read the prompt from a file; - is stdin.",
            panel=PROMPT_PANEL,
        ),
    ] = None,
    raw: Annotated[
        bool,
        option(
            "--raw/--no-raw",
            help="Continue the prompt as it is, without the model's chat template.",
            panel=PROMPT_PANEL,
        ),
    ] = False,
    quiet: Annotated[
        bool,
        option("--quiet/--no-quiet", "-q", help="No notes and no summary.", panel=OUTPUT_PANEL),
    ] = False,
    json: JsonOption = False,
    json_lines: Annotated[
        bool,
        option(
            "--json-lines",
            help="Print a JSON object per token and a last one with the summary.",
            panel=OUTPUT_PANEL,
        ),
    ] = False,
) -> None:
    """Answer one prompt, from -p, a file or a pipe.

    The answer goes to stdout as it is made; everything else goes to stderr.
    """
    from moestream.cli.turn import Format, open_session, play, print_summary
    from moestream.engine.session import Generation
    from moestream.telemetry.summary import load_numbers, summary_numbers

    if json and json_lines:
        raise ConfigError("--json and --json-lines exclude each other")
    if prompt is not None and file is not None:
        raise ConfigError("give the prompt with --prompt or with --file, not with both")
    limit = limits.limit
    config = engine.config(sampling.config(), speculation.config())
    text = _read_prompt(prompt, file)
    form: Format = "json" if json else "lines" if json_lines else "text"
    with (
        records.opened(config) as recording,
        open_session(config, quiet=quiet) as session,
        recording.of(session),
    ):

        def events() -> Generation:
            if not raw:
                try:
                    return session.chat(
                        Conversation(system=template.system).asking(text),
                        max_tokens=limit,
                        stop=limits.stops,
                        enable_thinking=template.enable_thinking,
                    )
                except UnsupportedModelError:
                    if template.system is not None:
                        raise
                    note("note: no chat template, so the prompt is continued as it is")
            return session.generate(text, max_tokens=limit, stop=limits.stops)

        turn = play(session, events, form, recording=recording, limit=limit)
        if form != "text":
            numbers = {} if turn.summary is None else summary_numbers(turn.summary)
            result = {**numbers, "load": load_numbers(session.load_report)}
            if form == "json":
                write_json({"text": turn.text, **result})
            else:
                write_json({"type": "summary", **result}, compact=True)
        elif not quiet:
            print_summary(session)
        if turn.interrupted:
            note("interrupted")
            raise typer.Exit(EXIT_INTERRUPT)


def _read_prompt(prompt: str | None, file: Path | None) -> str:
    if file is not None and str(file) != "-":
        return _decode(file.read_bytes(), str(file))
    if prompt is not None and prompt != "-":
        return prompt
    if prompt is None and file is None and sys.stdin.isatty():
        raise ConfigError("no prompt: give one with -p TEXT or -f FILE, or pipe it in")
    return _decode(sys.stdin.buffer.read(), "stdin")


def _decode(data: bytes, origin: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the prompt from {origin} is not UTF-8 text: {error}") from error
    if not text:
        raise ConfigError(f"the prompt from {origin} is empty")
    return text
