"""``moestream trace``: what a route trace says about the routing, and about the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from moestream.cli.console import note, printable, status, table, write_json, write_text
from moestream.cli.declare import argument, option
from moestream.cli.expand import verb
from moestream.cli.inspect import mib
from moestream.cli.options import JsonOption
from moestream.telemetry.figures import check_picture
from moestream.telemetry.reading import read_route_trace
from moestream.telemetry.trace_counts import LayerRouting, PhaseRouting
from moestream.telemetry.trace_plots import plot_trace
from moestream.telemetry.trace_report import TraceReport, trace_report

__all__ = ["trace"]

MIB = 2**20
_MOST_SIZES = 100


def _sizes(value: str | None) -> str | None:
    """Refuse what is no list of sizes."""
    words = [] if value is None else value.split(",")
    good = all(w.isascii() and w.isdigit() and len(w) < 10 and int(w) > 0 for w in words)
    if not good or len(words) > _MOST_SIZES:
        raise typer.BadParameter(f"{value!r} is no list of sizes in MiB, such as 500,1000,2000")
    return value


@verb
def trace(
    file: Annotated[Path, argument("FILE", help="What --route-trace wrote.")],
    sizes: Annotated[
        str | None,
        option(
            "--sizes",
            metavar="MIB,MIB,...",
            help="Cache sizes to give hit rates for, instead of a range up to all experts.",
            callback=_sizes,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        option(
            "--plot",
            metavar="OUT.png",
            help="Draw a picture as well: .png, .svg or .pdf. Needs moestream\\[plot].",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show how a model routes, and what hit rates caches of other sizes would have had.

    By layer: hit rate, bytes read, experts dropped, experts shared with the token before, and how
    popular the most popular experts are. Then the hit rate of an exact LRU cache by its size,
    which is what to choose --cache-mb by.
    """
    if plot is not None:
        check_picture(plot)
    with status(f"reading {file}") as tell:
        content = read_route_trace(file)
        tell("counting")
        wanted = [int(word) * MIB for word in sizes.split(",")] if sizes else []
        report = trace_report(content, sizes=wanted)
    if content.cut:
        note("note: the last line is unfinished and was left out")
    if report.lost:
        note(f"note: the trace says that it misses {report.lost} routings")
    if plot is not None:
        plot_trace(report, plot)
    if json:
        write_json(as_json(report))
    else:
        _print(report)
    if plot is not None:
        note(f"picture: {plot}")


def _print(report: TraceReport) -> None:
    named = ", ".join(text for text in (report.model, report.arch) if text)
    turns = f"{report.turns} turn{'s' if report.turns > 1 else ''}"
    write_text(printable(f"{named or 'unknown model'}: {report.rows:,} routings in {turns}\n"))
    table(
        [_phase_row(phase) for phase in report.phases],
        header=("phase", "tokens", "routings", "hit %", "MiB/token", "dropped %", "reuse %"),
        right=range(1, 7),
    )
    main = report.phases[-1]
    write_text(f"\n{main.phase}, by layer:")
    table(
        [_layer_row(layer, main.tokens) for layer in main.layers + main.draft_layers],
        header=(
            "layer", "experts used", "hit %", "MiB/token", "dropped %", "reuse %",
            "top 10 % get %", "",
        ),
        right=range(7),
    )  # fmt: skip
    write_text("")
    _print_cache(report)


def _print_cache(report: TraceReport) -> None:
    if not report.cache or report.all_expert_bytes is None:
        write_text("How big experts are is not in the trace, so nothing can be said about caches.")
        return
    total = report.all_expert_bytes
    table(
        [
            (
                f"{point.cache_bytes / MIB:,.0f}",
                f"{100 * point.cache_bytes / total:.1f}",
                _percent(point.hit_rate),
                f"{point.mib_per_token:,.2f}",
            )
            for point in report.cache
        ],
        header=("--cache-mb", "% of all experts", "hit %", "MiB/token"),
        right=range(4),
    )
    lines = [
        "",
        f"Hit rates ({report.cache_phase}) of an exact LRU cache of that many MiB of experts,",
        "empty when the trace begins; read lanes need up to two experts each on top.",
    ]
    if report.token_bytes is not None:
        lines.append(
            f"One token routes {mib(report.token_bytes)} MiB; a cache that holds less than a "
            "decode routes hits next to nothing."
        )
    if report.ceiling is not None:
        lines.append(f"First uses miss at any size, so {_percent(report.ceiling)} % is the most.")
    if any(phase.dropped for phase in report.phases):
        lines.append("Dropped routings count as lookups here: they are what was asked for.")
    write_text("\n".join(lines))


def _phase_row(phase: PhaseRouting) -> tuple[str, ...]:
    return (
        phase.phase,
        f"{phase.tokens:,}",
        f"{phase.routings:,}",
        _percent(phase.hit_rate),
        "-" if phase.mib_per_token is None else f"{phase.mib_per_token:,.2f}",
        _percent(phase.dropped),
        _percent(phase.reuse),
    )


def _layer_row(layer: LayerRouting, tokens: int) -> tuple[str, ...]:
    of = "" if layer.n_expert is None else f" of {layer.n_expert}"
    return (
        str(layer.layer),
        f"{layer.touched}{of}",
        _percent(layer.hit_rate),
        f"{layer.read_bytes / MIB / max(tokens, 1):,.3f}",
        _percent(layer.dropped),
        _percent(layer.reuse),
        _percent(layer.top_share),
        "draft context" if layer.draft else "",
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def as_json(report: TraceReport) -> dict[str, Any]:
    """The report as plain JSON types; sizes in bytes, shares in 0..1."""
    return {
        "model": report.model,
        "arch": report.arch,
        "n_layer": report.n_layer,
        "n_expert_used": report.n_expert_used,
        "turns": report.turns,
        "routings": report.rows,
        "lost": report.lost,
        "unfinished": report.cut,
        "all_expert_bytes": report.all_expert_bytes,
        "token_bytes": report.token_bytes,
        "phases": [_phase_json(phase) for phase in report.phases],
        "cache": {
            "phase": report.cache_phase,
            "ceiling": report.ceiling,
            "sizes": [
                {
                    "cache_bytes": point.cache_bytes,
                    "hit_rate": point.hit_rate,
                    "mib_per_token": point.mib_per_token,
                }
                for point in report.cache
            ],
        },
    }


def _phase_json(phase: PhaseRouting) -> dict[str, Any]:
    return {
        "phase": phase.phase,
        "tokens": phase.tokens,
        "routings": phase.routings,
        "hit_rate": phase.hit_rate,
        "read_bytes": phase.read_bytes,
        "mib_per_token": phase.mib_per_token,
        "dropped": phase.dropped,
        "reuse": phase.reuse,
        "layers": [_layer_json(layer) for layer in phase.layers + phase.draft_layers],
    }


def _layer_json(layer: LayerRouting) -> dict[str, Any]:
    return {
        "layer": layer.layer,
        "draft": layer.draft,
        "tokens": layer.tokens,
        "routings": layer.routings,
        "touched": layer.touched,
        "n_expert": layer.n_expert,
        "expert_bytes": layer.expert_bytes,
        "accesses": layer.accesses,
        "hits": layer.hits,
        "prefetched": layer.prefetched,
        "hit_rate": layer.hit_rate,
        "read_bytes": layer.read_bytes,
        "dropped": layer.dropped,
        "reuse": layer.reuse,
        "top_share": layer.top_share,
        "popularity": list(layer.popularity),
    }
