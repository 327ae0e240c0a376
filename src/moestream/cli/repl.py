"""The chat loop: messages go to the model, lines that begin with a slash are commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

from moestream.cli.console import note
from moestream.cli.conversation import Conversation
from moestream.cli.lines import MessageReader
from moestream.cli.records import Recording
from moestream.cli.turn import play, print_summary
from moestream.config import SamplingConfig
from moestream.engine.session import Generation, Session
from moestream.errors import ConfigError, MoestreamError
from moestream.telemetry.summary import load_line

__all__ = ["HELP", "Repl"]

HELP = """\
/help            this list
/clear           forget the conversation (the system message stays)
/system [TEXT]   set the system message; without TEXT remove it
/regen           take the last answer back and make another
/save FILE       write the conversation to a file
/load FILE       go on with a conversation from a file
/set [KEY VALUE] change a sampling setting; without arguments show them
/stats           numbers of the last answer
/exit            leave (so does Ctrl-D)

A line that ends in \\ goes on in the next one; \"\"\" begins and ends a message of many lines.
A message that begins with a slash: type the slash twice. Ctrl-C ends an answer."""

_TOKENS = "max_tokens"
_THINKING = "thinking"
_ALIASES = {"temp": "temperature"}


class Repl:
    """One conversation on a terminal or from a pipe."""

    def __init__(
        self,
        session: Session,
        reader: MessageReader,
        *,
        conversation: Conversation,
        sampling: SamplingConfig,
        max_tokens: int | None,
        stops: tuple[str, ...],
        thinking: bool,
        stats: bool,
        recording: Recording,
        line_is_empty: Callable[[], bool],
    ) -> None:
        """Talk to ``session``.

        Args:
            session: the open model.
            reader: where messages come from.
            conversation: what was said before.
            sampling: how to choose tokens, until ``/set`` changes it.
            max_tokens: most tokens of an answer.
            stops: texts that end an answer.
            thinking: passed to the chat template.
            stats: print the summary after every answer.
            recording: writes the turns down.
            line_is_empty: whether nothing was typed when an interrupt came.
        """
        self._session = session
        self._reader = reader
        self._conversation = conversation
        self._sampling = sampling
        self._max_tokens = max_tokens
        self._stops = stops
        self._thinking = thinking
        self._stats = stats
        self._recording = recording
        self._line_is_empty = line_is_empty
        self._commands: dict[str, Callable[[str], None]] = {
            "help": lambda _rest: note(HELP, style=""),
            "clear": self._clear,
            "system": self._system,
            "regen": self._regenerate,
            "save": self._save,
            "load": self._load,
            "set": self._set,
            "stats": self._show_stats,
        }

    def run(self) -> bool:
        """Until the end of input or ``/exit``; ``False`` if left by two interrupts."""
        interrupted = False
        while True:
            try:
                message = self._reader.read()
            except EOFError:
                return True
            except KeyboardInterrupt:
                if interrupted and self._line_is_empty():
                    return False
                interrupted = self._line_is_empty()
                note("(Ctrl-C again, Ctrl-D or /exit to leave)" if interrupted else "")
                continue
            interrupted = False
            if message.strip() in ("/exit", "/quit", "/bye"):
                return True
            self._handle(message)

    def _handle(self, message: str) -> None:
        if not message.strip():
            return
        if message.startswith("/") and not message.startswith("//"):
            name, _, rest = message[1:].partition(" ")
            command = self._commands.get(name.strip())
            if command is None:
                note(f"there is no command /{name}; /help lists them", style="yellow")
                return
            try:
                command(rest.strip())
            except (MoestreamError, OSError) as error:
                note(f"error: {error}", style="red")
            return
        self._ask(message.removeprefix("/") if message.startswith("//") else message)

    def _ask(self, text: str) -> bool:
        def start() -> Generation:
            return self._session.chat(
                self._conversation.asking(text),
                max_tokens=self._max_tokens,
                stop=self._stops,
                sampling=self._sampling,
                enable_thinking=self._thinking,
            )

        try:
            turn = play(
                self._session,
                start,
                recording=self._recording,
                limit=self._max_tokens,
                sampling=self._sampling,
            )
        except MoestreamError as error:  # a template may refuse a conversation, too
            note(f"error: {error}", style="red")
            return False
        if turn.interrupted:
            note("(interrupted)")
        if turn.text:
            self._conversation.add(text, turn.text)
        if self._stats:
            print_summary(self._session)
        return bool(turn.text)

    def _clear(self, _rest: str) -> None:
        self._conversation.clear()
        note("(forgotten)")

    def _system(self, rest: str) -> None:
        self._conversation.system = rest or None
        note("(system message set)" if rest else "(no system message)")

    def _regenerate(self, _rest: str) -> None:
        taken = self._conversation.take_back()
        if taken is None:
            raise ConfigError("there is no answer to take back")
        question, answer = taken
        if not self._ask(question):
            self._conversation.add(question, answer)

    def _save(self, rest: str) -> None:
        path = _path(rest)
        self._conversation.save(path)
        note(f"(saved to {path})")

    def _load(self, rest: str) -> None:
        path = _path(rest)
        self._conversation = Conversation.load(path)
        note(f"(loaded {len(self._conversation.messages) // 2} turns from {path})")

    def _show_stats(self, _rest: str) -> None:
        note(load_line(self._session.load_report))
        print_summary(self._session)

    def _set(self, rest: str) -> None:
        key, _, value = rest.partition(" ")
        if not key:
            self._show_settings()
            return
        key = _ALIASES.get(key.replace("-", "_"), key.replace("-", "_"))
        value = value.strip()
        if key == _TOKENS:
            self._max_tokens = None if value == "none" else _at_least_one(key, value)
        elif key == _THINKING:
            self._thinking = _truth(key, value)
        else:
            changed = _changed(self._sampling, key, value)
            self._session.config.check_greedy(changed)
            self._sampling = changed
        self._show_settings()

    def _show_settings(self) -> None:
        values = [f"{f.name} {getattr(self._sampling, f.name)}" for f in fields(self._sampling)]
        limit = "none" if self._max_tokens is None else str(self._max_tokens)
        values += [f"{_TOKENS} {limit}", f"{_THINKING} {'on' if self._thinking else 'off'}"]
        note("\n".join(values), style="")


def _path(text: str) -> Path:
    if not text:
        raise ConfigError("name a file")
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:  # ~somebody without a home
        raise ConfigError(f"{text}: {error}") from error
    if not path.name or "\0" in text:
        raise ConfigError(f"{text!r} is not the name of a file")
    return path


def _changed(sampling: SamplingConfig, key: str, value: str) -> SamplingConfig:
    known = {f.name: getattr(SamplingConfig(), f.name) for f in fields(SamplingConfig)}
    if key not in known:
        raise ConfigError(f"there is no setting {key}; there are {', '.join(known)}")
    number: float | int | None
    try:
        if key == "seed" and value in ("none", "random"):
            number = None
        else:
            number = float(value) if isinstance(known[key], float) else int(value)
    except ValueError as error:
        raise ConfigError(f"{key} takes a number, not {value!r}") from error
    changed = replace(sampling, **{key: number})  # type: ignore[arg-type]
    changed.validate()
    return changed


def _at_least_one(key: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise ConfigError(f"{key} takes a number of 1 or more, or none, not {value!r}")
    return int(value)


def _truth(key: str, value: str) -> bool:
    if value not in ("on", "off"):
        raise ConfigError(f"{key} takes on or off, not {value!r}")
    return value == "on"
