"""``moestream plan``: does a model run here, and how fast about."""

from __future__ import annotations

from typing import Annotated

from moestream.cli.console import note, status, table, write_json, write_text
from moestream.cli.declare import option
from moestream.cli.expand import verb
from moestream.cli.inspect import mib
from moestream.cli.options import JsonOption, ModelArgument, ShapeOptions
from moestream.cli.speculation import SpeculationOptions
from moestream.config import EngineConfig, StreamingConfig
from moestream.models.as_json import plan_as_json
from moestream.models.estimate import NEIGHBOUR_OVERLAP
from moestream.models.locate import locate_model
from moestream.models.plan import PlanReport, plan_model

__all__ = ["plan"]

_VERDICTS = {
    "resident": "runs, and everything fits into memory",
    "streams": "runs, with experts streamed from disk",
    "thrashes": "runs, but the cache is below one token's demand, so every routed expert is read "
    "again for every token",
    "too-big": "does not run here: not even one layer's experts fit beside the dense weights",
    "not-streamable": "does not run here: it does not fit into memory and cannot be streamed",
}


@verb
def plan(
    model: ModelArgument,
    shape: ShapeOptions,
    speculation: SpeculationOptions,
    measure_s: Annotated[
        float,
        option(
            "--measure-s",
            metavar="SECONDS",
            help="Time to spend on measuring the disk; 0 measures neither disk nor compute.",
        ),
    ] = 3.0,
    json: JsonOption = False,
) -> None:
    """Say whether a model runs on this machine, in what memory, and how fast about.

    Nothing of the model is loaded; a few seconds go into measuring the disk and the processor.
    """
    config = EngineConfig(
        model=model,
        n_ctx=shape.n_ctx,
        n_ubatch=shape.ubatch,
        threads=shape.thread_count,
        n_expert_used=shape.n_expert_used,
        streaming=StreamingConfig(cache_ceil_mb=shape.cache_ceil_mb),
        speculation=speculation.config(),
    )
    config.validate()
    path = locate_model(model)
    with status("reading the header") as tell:
        report = plan_model(path, config, seconds=measure_s, tell=tell)
    for text in report.notes:
        note(f"note: {text}")
    if json:
        write_json(plan_as_json(report))
        return
    _print(report)


def _print(report: PlanReport) -> None:
    write_text(f"{report.architecture}: {_VERDICTS[report.verdict]}\n")
    memory = report.memory
    rows = [
        (f"available ({memory.source})", mib(memory.available), ""),
        ("left alone", mib(memory.floor), "so that the rest of the machine goes on working"),
        ("dense weights", mib(memory.dense), "always in memory"),
        ("KV", mib(memory.context.kv), f"estimate, {report.n_ctx} tokens of context"),
    ]
    if memory.context.recurrent:
        rows.append(("recurrent state", mib(memory.context.recurrent), "estimate"))
        rows.append(("checkpoint", mib(memory.checkpoint), "to come back to between turns"))
    if memory.snapshots:
        rows.append(("state snapshots", mib(memory.snapshots), "to go back past rejected drafts"))
    if memory.draft_context:
        rows.append(("draft context", mib(memory.draft_context), "estimate, of the MTP head"))
        rows.append(("draft weights", mib(memory.draft_dense), "of the MTP head, dense"))
    rows += [
        ("compute buffers", mib(memory.context.compute), "estimate"),
        ("page tables", mib(memory.page_tables), ""),
    ]
    if report.n_expert:
        rows += [
            ("left for experts", mib(memory.left_for_experts), ""),
            (
                "all experts",
                mib(memory.experts),
                "of the trunk" if not memory.draft_context else "with the MTP head's",
            ),
            ("--cache-mb auto", mib(memory.auto_cache), f"limited by {memory.limited_by}"),
            ("one token, one layer", mib(memory.layer_demand), "the least that works"),
            ("one token, all layers", mib(memory.token_demand), "routed, before the cache"),
            ("hit-rate cliff", mib(memory.cliff), "a smaller cache never hits"),
        ]
    table(rows, header=("memory", "MiB", ""), right=(1,))
    if report.disk is not None:
        kind = "direct" if report.disk.direct else "through the page cache"
        table(
            [
                (f"{rate.lanes}", f"{rate.bytes_per_s / 2**20:,.0f}", str(rate.reads))
                for rate in report.disk.rates
            ],
            header=("lanes", "MiB/s", f"reads of {report.disk.read_bytes // 1024} KiB, {kind}"),
            right=(0, 1),
        )
    if report.compute:
        table(
            [
                (rate.type, f"{rate.bytes_per_s / 2**20:,.0f}", mib(report.used_bytes[rate.type]))
                for rate in report.compute
            ],
            header=("type", "MiB/s", f"MiB a token multiplies by, {report.threads} threads"),
            right=(1, 2),
        )
    for line in _reasoning(report):
        write_text(line)


def _reasoning(report: PlanReport) -> list[str]:
    speed, memory = report.speed, report.memory
    if speed is None or report.verdict in ("too-big", "not-streamable"):
        return []
    floor = (
        f"Multiplying takes {1e3 * speed.compute_s:.0f} ms a token at the measured rates; "
        f"with everything in memory that is at most {_rate(speed.tok_s_resident)} tok/s."
    )
    if speed.hits.low >= 1.0:
        return ["", "Estimate", f"  {floor}", "  All experts fit into the cache."]
    disk = report.disk.best if report.disk is not None else None
    rate = disk.bytes_per_s / 2**20 if disk is not None else 0.0
    lines = ["", "Estimate", f"  {floor}"]
    if speed.hits.high > 0.0:
        share = 100 * memory.auto_cache / memory.experts
        again = 100 * NEIGHBOUR_OVERLAP
        lines += [
            f"  The cache holds {share:.0f} % of the experts. If routing had no memory at all, "
            f"{100 * speed.hits.low:.0f} % would hit;",
            f"  if a token routed {again:.0f} % of the experts of the one before it, "
            f"{100 * speed.hits.high:.0f} %. Popular experts raise both.",
        ]
    else:
        lines.append("  The cache is below the cliff: nothing hits.")
    lines += [
        f"  Reading what misses takes {1e3 * speed.io_s_low:.0f} to {1e3 * speed.io_s_high:.0f} "
        f"ms a token at {rate:,.0f} MiB/s.",
        f"  So {_rate(speed.tok_s_low)} tok/s if reading and computing take turns at the lower hit "
        "rate,",
        f"  {_rate(speed.tok_s_high)} if reading hides behind computing at the higher; "
        f"{_rate(speed.tok_s_no_cache)} taking turns without a cache.",
    ]
    return lines


def _rate(tokens_per_s: float) -> str:
    return f"{tokens_per_s:.0f}" if tokens_per_s >= 100 else f"{tokens_per_s:.2f}"
