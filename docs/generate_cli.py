"""Writes docs/cli.md from the command tree: ``python docs/generate_cli.py``.

A test fails where the file and the tree differ.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import typer

from moestream.cli.app import app

TARGET = Path(__file__).parent / "cli.md"

HEAD = """\
# The command line

<!-- Written by docs/generate_cli.py; change the help texts in src/moestream/cli instead. -->

`moestream VERB [OPTIONS]`, or `python -m moestream VERB [OPTIONS]`. `moestream VERB --help` shows
what this page shows; `moestream --install-completion` installs shell completion.

- **Environment.** Every option has a variable, named in the tables. The option wins. Truth values
  are `1`/`0`, `true`/`false`, `yes`/`no` or `on`/`off`.
- **Output.** Answers and data go to stdout, everything else (progress, notes, warnings, the
  summary) to stderr. Without a terminal there are no colours and no moving bars.
- **Models.** `MODEL` is a GGUF file (of a split model the first shard), `moestream-nano` (the
  model inside the package), or `OWNER/NAME[:QUANT]`, fetched before with `moestream pull`; a
  reference is looked up in the cache without network.
- **Exit codes.** 0: done. 1: an error at run time, or whoever read the output went away. 2: wrong
  usage, or settings that are out of range or contradict each other. 130: interrupted with Ctrl-C.
- **Errors** are one line, `moestream: error: ...`. `MOESTREAM_DEBUG=1` adds the traceback.
"""

CHAT = """\
Inside a chat:

```text
{help}
```
"""


def render() -> str:
    """The page."""
    root: Any = typer.main.get_command(app)
    parts = [HEAD]
    for name in root.list_commands(None):
        command = root.commands[name]
        members = getattr(command, "commands", {})
        parts.append(_group(name, command) if members else _verb(name, command))
        parts += [_verb(f"{name} {part}", member) for part, member in members.items()]
    return "\n".join(parts)


def _group(name: str, command: Any) -> str:
    return "\n".join([f"## {name}", "", inspect.cleandoc(command.help), ""])


def _verb(name: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    usage = " ".join(["moestream", name, *(param.metavar for param in arguments), "[OPTIONS]"])
    parts = [f"## {name}", "", f"`{usage}`", "", inspect.cleandoc(command.help), ""]
    if arguments:
        parts += [*(f"- `{param.metavar}`: {param.help}" for param in arguments), ""]
    panels: dict[str, list[Any]] = {}
    for param in options:
        panels.setdefault(param.rich_help_panel, []).append(param)
    for panel, members in panels.items():
        parts += [f"### {name}: {panel.lower()}" if len(panels) > 1 else "", ""]
        parts += ["| option | what it does | variable | default |", "|---|---|---|---|"]
        parts += [*(_row(param) for param in members), ""]
    if name == "chat":
        from moestream.cli.repl import HELP

        parts.append(CHAT.format(help=HELP))
    return "\n".join(parts).replace("\n\n\n", "\n\n")


def _row(param: Any) -> str:
    names = [*param.opts, *param.secondary_opts]
    takes = "" if param.is_flag else f" {param.metavar}"
    flags = ", ".join(f"`{name}{takes}`" for name in names).replace("|", "\\|")
    return f"| {flags} | {param.help} | `{param.envvar}` | {_default(param)} |"


def _default(param: Any) -> str:
    if param.default is None or param.show_default is False:
        return ""
    if param.is_flag:
        if not param.secondary_opts:
            return ""
        return f"`{(param.opts if param.default else param.secondary_opts)[0]}`"
    return f"`{param.default}`"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
