"""Options of ``moestream bench``, by what they are about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from moestream.bench.gates import Gates
from moestream.cli.declare import option

__all__ = ["CellOptions", "DirectoryOptions", "GateOptions", "RegimeOptions"]

CELL_PANEL = "What is compared"
GATE_PANEL = "When a run may begin"
REGIME_PANEL = "Memory"
RESULT_PANEL = "Results"

_GATES = Gates()


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOptions:
    """Cells, workloads, and how often."""

    cells: Annotated[
        str | None,
        option(
            "--cells",
            metavar="LIST",
            help="Cells to compare with the configuration that the other options give (the cell "
            "off): off,mtp:1-4,ngram:3@min=3/5,cache=0/auto/2000,lanes=1/2/4,serial,plain. "
            "plain is llama.cpp with the file mapped. See docs/bench.md.",
            panel=CELL_PANEL,
            show_default=False,
        ),
    ] = None
    cell_cmd: Annotated[
        list[str] | None,
        option(
            "--cell-cmd",
            metavar="NAME=COMMAND",
            help="Another program as a cell, timed by its own output; {model}, {prompt}, "
            "{prompt_file}, {tokens} and {threads} in it are replaced. Repeat for more.",
            panel=CELL_PANEL,
            show_default=False,
        ),
    ] = None
    cell_cmd_regex: Annotated[
        list[str] | None,
        option(
            "--cell-cmd-regex",
            metavar="REGEX",
            help="Finds tokens a second in a program's output, in its first group; the last match "
            "counts. One for all programs, or one each.",
            panel=CELL_PANEL,
            show_default=False,
        ),
    ] = None
    workloads: Annotated[
        str | None,
        option(
            "--workloads",
            "-w",
            metavar="LIST",
            help="What is generated: prose, copy (a source file to be repeated), or text files "
            "with prompts of yours, separated by commas; prose,copy by default.",
            panel=CELL_PANEL,
            show_default=False,
        ),
    ] = None
    rounds: Annotated[
        int | None,
        option(
            "--rounds",
            metavar="N",
            help="How often every cell runs; 5 by default, fewer than 3 say nothing. With "
            "--resume: raise it.",
            panel=CELL_PANEL,
            show_default=False,
        ),
    ] = None
    tokens: Annotated[
        int | None,
        option(
            "--tokens",
            metavar="N",
            help="Tokens to generate in a run; 128 by default.",
            panel=CELL_PANEL,
            show_default=False,
        ),
    ] = None
    campaign: Annotated[
        Path | None,
        option(
            "--campaign",
            metavar="FILE.toml",
            help="Read cells, workloads and the rest from a file; the command line wins over it.",
            panel=CELL_PANEL,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """What :class:`moestream.bench.gates.Gates` holds, and how long a run may take."""

    settle: Annotated[
        float,
        option(
            "--settle",
            metavar="SECONDS",
            help="Rest before each run.",
            panel=GATE_PANEL,
        ),
    ] = _GATES.settle_s
    max_temp: Annotated[
        float | None,
        option(
            "--max-temp",
            metavar="C",
            help="Wait until the processor is as cool as this.",
            panel=GATE_PANEL,
        ),
    ] = None
    min_available: Annotated[
        int | None,
        option(
            "--min-available",
            metavar="MIB",
            help="Wait until so much memory is available.",
            panel=GATE_PANEL,
        ),
    ] = None
    max_load: Annotated[
        float | None,
        option(
            "--max-load",
            metavar="F",
            help="Wait until the load average of the last minute is as low as this.",
            panel=GATE_PANEL,
        ),
    ] = None
    gate_timeout: Annotated[
        float,
        option(
            "--gate-timeout",
            metavar="SECONDS",
            help="Wait no longer than that; the run then begins all the same, and its record says "
            "so.",
            panel=GATE_PANEL,
        ),
    ] = _GATES.timeout_s
    run_timeout: Annotated[
        float,
        option(
            "--run-timeout",
            metavar="SECONDS",
            help="Give a run up after that; it is a row with its reason, and the next one begins.",
            panel=GATE_PANEL,
        ),
    ] = 3600.0

    def gates(self) -> Gates:
        """The gates, checked; a bad value raises ``ConfigError``."""
        gates = Gates(
            settle_s=self.settle,
            max_temp_c=self.max_temp,
            min_available_mib=self.min_available,
            max_load=self.max_load,
            timeout_s=self.gate_timeout,
        )
        gates.validate()
        return gates


@dataclass(frozen=True, slots=True, kw_only=True)
class RegimeOptions:
    """A memory limit for runs."""

    memory_limit: Annotated[
        str | None,
        option(
            "--memory-limit",
            metavar="SIZE",
            help="Run everything in a control group of that much memory, such as 6GiB (Linux, "
            "root).",
            panel=REGIME_PANEL,
        ),
    ] = None
    ram_ratio: Annotated[
        float | None,
        option(
            "--ram-ratio",
            metavar="F",
            help="The same, as how many times the model is bigger than its memory, such as 1.6.",
            panel=REGIME_PANEL,
        ),
    ] = None
    read_ahead: Annotated[
        int | None,
        option(
            "--read-ahead",
            metavar="KIB",
            help="Set the block device's read-ahead while runs are made, and put it back: what a "
            "mapped file (the cell plain) depends on; 128 is fair (Linux, root).",
            panel=REGIME_PANEL,
        ),
    ] = None
    warm: Annotated[
        bool,
        option(
            "--warm",
            help="Leave the page cache as it is between runs, instead of dropping it.",
            panel=REGIME_PANEL,
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryOptions:
    """Where results go."""

    output_dir: Annotated[
        Path | None,
        option(
            "--output-dir",
            "-o",
            metavar="DIR",
            help="Where everything goes: raw data, results.json, report.md, pictures. By default a "
            "new directory bench-DATE-TIME.",
            panel=RESULT_PANEL,
        ),
    ] = None
    resume: Annotated[
        Path | None,
        option(
            "--resume",
            metavar="DIR",
            help="Go on with the campaign in a directory: nothing is measured twice.",
            panel=RESULT_PANEL,
        ),
    ] = None
    retry_failed: Annotated[
        bool,
        option(
            "--retry-failed",
            help="With --resume: make runs that failed again.",
            panel=RESULT_PANEL,
        ),
    ] = False
