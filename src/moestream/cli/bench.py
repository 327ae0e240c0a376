"""``moestream bench``: cells against each other, results against each other, and plain speed."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import moestream
from moestream.cli.bench_options import (
    CellOptions,
    DirectoryOptions,
    GateOptions,
    RegimeOptions,
)
from moestream.cli.bench_speed import speed
from moestream.cli.console import note, write_json, write_text
from moestream.cli.declare import argument, option
from moestream.cli.default_verb import DefaultVerbGroup
from moestream.cli.expand import verb
from moestream.cli.options import JsonOption, ModelArgument, StreamingOptions
from moestream.config import EngineConfig
from moestream.errors import ConfigError

if TYPE_CHECKING:
    from moestream.bench.campaign import Campaign
    from moestream.bench.campaign_file import CampaignFile
    from moestream.bench.cells import Cell
    from moestream.bench.store import CampaignStore

__all__ = ["bench"]

_ROUNDS = 5
_TOKENS = 128

bench = typer.Typer(
    name="bench",
    cls=DefaultVerbGroup,
    help="Measure cells against each other, honestly: 'bench MODEL --cells ...' is 'bench run'.",
    no_args_is_help=True,
)


@bench.command()
@verb
def run(
    *,
    model: Annotated[
        str | None,
        argument(
            "MODEL",
            help="GGUF file, built-in model or pulled REPO[:QUANT]; not with --resume, and a "
            "--campaign may name it.",
        ),
    ] = None,
    compared: CellOptions,
    gates: GateOptions,
    regime: RegimeOptions,
    directory: DirectoryOptions,
    shape: StreamingOptions,
    json: JsonOption = False,
) -> None:
    """Run cells in turn, round by round, each run in a process of its own, and say what differs.

    The report goes to stdout and, with raw data, results.json and pictures, into a directory.
    Ctrl-C loses the running run only: go on with --resume DIR.
    """
    from moestream.bench.store import CampaignStore

    if directory.resume is not None:
        given = (_without_rounds(compared), gates, regime, shape, directory.output_dir, model)
        nothing = (CellOptions(), GateOptions(), RegimeOptions(), StreamingOptions(), None, None)
        if given != nothing:
            raise ConfigError(
                "--resume goes on with everything that the campaign was begun with; drop MODEL and "
                "all options but --rounds, --retry-failed and --json"
            )
        store = CampaignStore.open(directory.resume)
        try:
            if compared.rounds is not None:
                store.extend(compared.rounds)
            _measure(store, json=json, retry_failed=directory.retry_failed)
        finally:
            store.close()
        return
    file = _campaign_file(compared.campaign)
    _begin(
        _campaign(compared, file),
        _config(model or file.model, file.base, shape),
        gates,
        replace(
            regime,
            memory_limit=regime.memory_limit or (None if regime.ram_ratio else file.memory_limit),
            ram_ratio=regime.ram_ratio or (None if regime.memory_limit else file.ram_ratio),
        ),
        directory,
        json=json,
    )


@bench.command()
@verb
def synthetic(
    *,
    model: ModelArgument,
    gates: GateOptions,
    regime: RegimeOptions,
    directory: DirectoryOptions,
    shape: StreamingOptions,
    acceptances: Annotated[
        str,
        option("--acceptances", metavar="LIST", help="Probabilities that a draft is confirmed."),
    ] = "0.2,0.4,0.6,0.8",
    widths: Annotated[
        str, option("--widths", metavar="LIST", help="Tokens to draft, 1 to 8.")
    ] = "1,2,3,4",
    caches: Annotated[
        str | None,
        option(
            "--caches",
            metavar="LIST",
            help="Memory for experts in MiB, or auto: each makes another hit rate; by default the "
            "one that --cache-mb gives.",
            show_default=False,
        ),
    ] = None,
    draft_source: Annotated[
        str,
        option(
            "--draft-source",
            metavar="mtp|ngram",
            help="Who drafts: mtp includes what the model's own head costs, ngram drafts for "
            "nothing.",
        ),
    ] = "ngram",
    workload: Annotated[
        str, option("--workload", metavar="NAME", help="prose, copy, or a text file.")
    ] = "prose",
    rounds: Annotated[
        int, option("--map-rounds", metavar="N", help="How often every point is measured.")
    ] = 3,
    tokens: Annotated[
        int, option("--map-tokens", metavar="N", help="Tokens to generate for a point.")
    ] = 64,
    json: JsonOption = False,
) -> None:
    """Map acceptance, draft width and hit rate to speed, and find where drafting breaks even.

    Drafts are confirmed by chance, whatever the model says, so the text is not the model's.
    """
    from moestream.bench.campaign import Campaign
    from moestream.bench.synthetic_grid import synthetic_cells
    from moestream.bench.workloads import load_workloads

    if draft_source not in ("mtp", "ngram"):
        raise ConfigError(f"--draft-source is mtp or ngram, got {draft_source!r}")
    if directory.resume is not None:
        raise ConfigError(
            f"go on with a map like with any campaign: moestream bench --resume {directory.resume}"
        )
    campaign = Campaign(
        name="synthetic",
        cells=synthetic_cells(
            [_number(text, "--acceptances") for text in acceptances.split(",")],
            [int(_number(text, "--widths")) for text in widths.split(",")],
            [] if caches is None else [text.strip() for text in caches.split(",")],
            draft_source,
        ),
        workloads=load_workloads([workload]),
        rounds=rounds,
        tokens=tokens,
    )
    _begin(campaign, _config(model, None, shape), gates, regime, directory, json=json)


@bench.command()
@verb
def compare(
    *,
    first: Annotated[Path, argument("A", help="results.json of a campaign, or its directory.")],
    second: Annotated[Path, argument("B", help="The one that is judged against it.")],
    force: Annotated[
        bool, option("--force", help="Compare campaigns of different models all the same.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Compare two campaigns, cell by cell, with intervals."""
    from moestream.bench.compare import compare as compare_results
    from moestream.bench.report import read_results

    comparison = compare_results(read_results(first), read_results(second), force=force)
    if json:
        write_json(comparison.to_json())
    else:
        write_text(comparison.markdown())


bench.command()(speed)


def _without_rounds(compared: CellOptions) -> CellOptions:
    return replace(
        compared,
        rounds=None,
        cell_cmd=compared.cell_cmd or None,
        cell_cmd_regex=compared.cell_cmd_regex or None,
    )


def _campaign_file(path: Path | None) -> CampaignFile:
    from moestream.bench.campaign_file import CampaignFile, read_campaign_file

    return CampaignFile() if path is None else read_campaign_file(path)


def _campaign(compared: CellOptions, file: CampaignFile) -> Campaign:
    from moestream.bench.campaign import Campaign
    from moestream.bench.cell_grammar import parse_cells
    from moestream.bench.cells import command_cells
    from moestream.bench.workloads import BUILT_IN, load_workloads

    cells = parse_cells(compared.cells) if compared.cells is not None else ()
    cells += command_cells(compared.cell_cmd or (), compared.cell_cmd_regex or ())
    cells = cells or file.cells
    if not cells:
        raise ConfigError("nothing to compare: give --cells (such as off,mtp:1-3), or --campaign")
    names = file.workloads or BUILT_IN
    if compared.workloads is not None:
        names = tuple(name.strip() for name in compared.workloads.split(","))
    return Campaign(
        name=file.name or "bench",
        cells=cells,
        workloads=load_workloads(names),
        rounds=_first(compared.rounds, file.rounds, _ROUNDS),
        tokens=_first(compared.tokens, file.tokens, _TOKENS),
    )


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def _config(model: str | None, base: Cell | None, shape: StreamingOptions) -> EngineConfig:
    """What all cells start from; what the command line sets wins over a file's base."""
    if model is None:
        raise ConfigError("no model: give MODEL, or name one in --campaign")
    config = shape.config_of(model)
    if base is None:
        return config
    default = EngineConfig()
    kept = {k: v for k, v in base.overrides.items() if _setting(config, k) == _setting(default, k)}
    return replace(base, overrides=kept).apply(config)


def _setting(config: object, key: str) -> object:
    for name in key.split("."):
        config = getattr(config, name)
    return config


def _number(text: str, flag: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(
            f"{flag} takes numbers separated by commas, {text.strip()!r} is none"
        ) from None


def _begin(
    campaign: Campaign,
    config: EngineConfig,
    gates: GateOptions,
    regime: RegimeOptions,
    directory: DirectoryOptions,
    *,
    json: bool,
) -> None:
    from moestream.bench.regime import limit_bytes
    from moestream.bench.result import ModelFacts
    from moestream.bench.store import CampaignStore, Order
    from moestream.gguf import read_model

    if directory.retry_failed:
        raise ConfigError("--retry-failed has no effect without --resume")
    if gates.run_timeout <= 0:
        raise ConfigError(f"--run-timeout must be above 0, got {gates.run_timeout:g}")
    if regime.read_ahead is not None and regime.read_ahead < 0:
        raise ConfigError(f"--read-ahead must be 0 KiB or more, got {regime.read_ahead}")
    model = read_model(config.model)
    size = sum(model.file_sizes)
    order = Order(
        campaign=campaign,
        config=config,
        model=ModelFacts(path=Path(config.model).name, size_bytes=size, arch=model.architecture),
        version=str(moestream.__version__),
        command=("moestream", *sys.argv[1:]),
        limit=limit_bytes(regime.memory_limit, regime.ram_ratio, size),
        gates=gates.gates(),
        timeout_s=gates.run_timeout,
        warm=regime.warm,
        read_ahead=regime.read_ahead,
    )
    default = Path(f"bench-{datetime.now():%Y%m%d-%H%M%S}")
    store = CampaignStore.create(directory.output_dir or default, order)
    try:
        _measure(store, json=json)
    finally:
        store.close()


def _measure(store: CampaignStore, *, json: bool, retry_failed: bool = False) -> None:
    """Make the runs, and report whatever there is when that ends."""
    from moestream.bench.report import write_report
    from moestream.bench.runner import Runner
    from moestream.cli.bench_watch import CampaignNotes

    runner = Runner(store, CampaignNotes())
    try:
        runner.run(retry_failed=retry_failed)
    except KeyboardInterrupt:
        note(f"interrupted; go on with: moestream bench --resume {store.directory}")
        store.reload()
        write_report(store.directory, store.result(), draw=False)
        raise
    text, notes = write_report(store.directory, store.result())
    if json:
        write_json(store.result().to_json())
    else:
        write_text(text)
    for words in notes:
        note(f"note: {words}")
    note(f"results: {store.directory}")
