"""``moestream bench speed``: plain speed, as llama-bench reports it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from moestream.cli.bench_options import RegimeOptions
from moestream.cli.console import note, status, write
from moestream.cli.declare import option
from moestream.cli.expand import verb
from moestream.cli.options import ModelArgument, StreamingOptions
from moestream.errors import ConfigError, GenerationError

__all__ = ["speed"]

_TIMEOUT_S = 24 * 3600.0


@verb
def speed(
    *,
    model: ModelArgument,
    regime: RegimeOptions,
    shape: StreamingOptions,
    n_prompt: Annotated[
        str,
        option(
            "--n-prompt", "-p", metavar="LIST",
            help="Tokens of prompts to evaluate, separated by commas; 0 is none.",
        ),
    ] = "512",
    n_gen: Annotated[
        str,
        option(
            "--n-gen", "-n", metavar="LIST",
            help="Tokens to generate, separated by commas; 0 is none.",
        ),
    ] = "128",
    repetitions: Annotated[
        int, option("--repetitions", "-r", metavar="N", help="How often each test is counted.")
    ] = 5,
    form: Annotated[
        Literal["md", "csv", "json"],
        option("--format", "-o", metavar="md|csv|json", help="How the results are printed."),
    ] = "md",
    plain: Annotated[
        bool,
        option("--plain", help="Test llama.cpp with the file mapped as well, in the same table."),
    ] = False,
) -> None:  # fmt: skip
    """Plain speed by llama-bench's conventions: pp512, tg128, mean ± standard deviation.

    Experts are streamed, with a cache that the test before has warmed. To compare settings, use
    'bench run': it interleaves them and knows its noise.
    """
    from moestream.bench.plain_speed import Facts, Speed, counts, render, speeds
    from moestream.bench.process import run_job
    from moestream.bench.read_ahead import read_ahead
    from moestream.bench.regime import MemoryRegime, drop_caches, limit_bytes
    from moestream.bench.settings import config_to_json
    from moestream.models.inspect import inspect_model

    prompts, gens = counts(n_prompt, "--n-prompt"), counts(n_gen, "--n-gen")
    if not prompts and not gens:
        raise ConfigError("nothing to test: give --n-prompt or --n-gen a number above 0")
    if repetitions < 1:
        raise ConfigError(f"--repetitions must be 1 or more, got {repetitions}")
    config = shape.config_of(model)
    report = inspect_model(config.model)
    limit = limit_bytes(regime.memory_limit, regime.ram_ratio, report.file_bytes)
    limited = None if limit is None else MemoryRegime(limit)
    if limited is not None:
        limited.check()
    tests: list[Speed] = []
    for backend in ("moestream", "llama.cpp") if plain else ("moestream",):
        if not regime.warm:
            drop_caches()
        job = {
            "kind": "speed",
            "config": config_to_json(config),
            "backend": backend,
            "n_prompt": prompts,
            "n_gen": gens,
            "repetitions": repetitions,
        }
        with (
            status(f"testing {backend}"),
            read_ahead(Path(config.model), regime.read_ahead),
        ):
            outcome = run_job(job, regime=limited, timeout_s=_TIMEOUT_S)
        if outcome.value is None:
            raise GenerationError(f"the test of {backend} failed: {outcome.failure}")
        tests += speeds(outcome.value, backend)
        if outcome.peak_bytes is not None:
            note(f"{backend}: {outcome.peak_bytes / 2**20:.0f} MiB charged at most")
    facts = Facts(
        file=Path(config.model).name,
        kind=report.name or report.architecture,
        size=report.file_bytes,
        parameters=report.n_parameters,
    )
    write(render(form, tests, facts))
    sys.stdout.flush()
