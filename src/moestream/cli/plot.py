"""``moestream plot``: pictures and one table of recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from moestream.cli.console import note, table, write_json
from moestream.cli.declare import argument, option
from moestream.cli.expand import verb
from moestream.cli.options import JsonOption
from moestream.errors import ConfigError
from moestream.telemetry.figures import check_picture
from moestream.telemetry.plots import plot_runs
from moestream.telemetry.reading import read_run
from moestream.telemetry.run_labels import run_labels
from moestream.telemetry.run_series import RunSeries

__all__ = ["plot"]

_MOST_FILES = 20


@verb
def plot(
    files: Annotated[list[Path], argument("FILE...", help="What --csv wrote; several to compare.")],
    output: Annotated[
        Path | None,
        option(
            "--output",
            "-o",
            metavar="OUT.png",
            help="The picture: .png, .svg or .pdf. Without this, beside the first file.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Draw recorded runs, and print what they come to.

    One run: tok/s, where each token's time went, hit rate and bytes, token by token. Several: the
    same compared, under labels that say what differs. Needs matplotlib: pip install
    'moestream\\[plot]'.
    """
    if len(files) > _MOST_FILES:
        raise ConfigError(f"{len(files)} files are too many for one picture; give {_MOST_FILES}")
    picture = output if output is not None else files[0].with_suffix(".png")
    check_picture(picture)
    _spare(picture, files)
    runs = [RunSeries(read_run(file)) for file in files]
    for series in runs:
        if series.run.cut:
            note(f"note: the last line of {series.run.path} is unfinished and was left out")
        elif series.run.trailer is None:
            note(f"note: {series.run.path} has no summary: the run did not end by itself")
    labels = run_labels(runs)
    plot_runs(runs, picture)
    if json:
        write_json(as_json(runs, labels, picture))
    else:
        _print(runs, labels)
    note(f"picture: {picture}")


def _spare(picture: Path, files: Sequence[Path]) -> None:
    """Refuse to draw over a recording."""
    for file in files:
        if picture == file or (picture.exists() and file.exists() and picture.samefile(file)):
            raise ConfigError(f"{picture} is one of the files to draw; give another --output")


def _print(runs: Sequence[RunSeries], labels: Sequence[str]) -> None:
    table(
        [_row(series, label) for series, label in zip(runs, labels, strict=True)],
        header=(
            "run", "tokens", "tok/s effective", "decodes alone", "MiB/token", "hit %",
            "majflt/token", "cpu-s/token", "accepted %", "tok/verify", "drafted steps",
        ),
        right=range(1, 11),
    )  # fmt: skip


def _row(series: RunSeries, label: str) -> tuple[str, ...]:
    numbers = series.numbers()
    drafted = f"{series.drafted_steps} of {series.n_decodes}" if series.speculated else "-"
    return (
        label,
        str(series.n_tokens),
        _number(series.tok_s, 2),
        _number(series.decode_tok_s, 2),
        _number(series.mib_per_token, 2),
        _number(series.hit_pct, 1),
        _number(numbers["majflt_per_token"], 1),
        _number(numbers["cpu_s_per_token"], 3),
        _number(series.acceptance_pct, 1),
        _number(series.tokens_per_verify, 2),
        drafted,
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def as_json(runs: Sequence[RunSeries], labels: Sequence[str], picture: Path) -> dict[str, Any]:
    """What was drawn, as plain JSON types."""
    return {
        "picture": str(picture),
        "runs": [
            {
                "path": str(series.run.path),
                "label": label,
                "complete": series.run.trailer is not None,
                **series.numbers(),
            }
            for series, label in zip(runs, labels, strict=True)
        ],
    }
