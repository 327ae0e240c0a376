"""``moestream inspect``: what is in a model file."""

from __future__ import annotations

from moestream.cli.console import table, write_json
from moestream.cli.expand import verb
from moestream.cli.options import JsonOption, ModelArgument
from moestream.models.as_json import inspect_as_json
from moestream.models.inspect import ModelReport, inspect_model
from moestream.models.locate import locate_model

__all__ = ["inspect"]


@verb
def inspect(model: ModelArgument, json: JsonOption = False) -> None:
    """Show architecture, layers, experts, sizes and types, from the header alone."""
    report = inspect_model(locate_model(model))
    if json:
        write_json(inspect_as_json(report))
        return
    table(_facts(report))
    table(
        [
            (
                share.type,
                str(share.tensors),
                mib(share.dense_bytes),
                mib(share.expert_bytes),
                f"{100 * share.bytes / max(sum(s.bytes for s in report.types), 1):.1f} %",
            )
            for share in report.types
        ],
        header=("type", "tensors", "dense MiB", "expert MiB", "share"),
        right=(1, 2, 3, 4),
    )


def mib(size: float) -> str:
    """``size`` bytes in MiB, with as many digits as are worth reading."""
    value = size / 2**20
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _facts(report: ModelReport) -> list[tuple[str, str]]:
    facts = [
        ("name", report.name or "-"),
        ("architecture", report.architecture),
        ("parameters", f"{_count(report.n_parameters)} in {report.n_tensors} tensors"),
        ("files", f"{len(report.shards)}, {mib(report.file_bytes)} MiB"),
        *[("", str(shard.path)) for shard in report.shards],
        ("layers", str(report.n_layer)),
        ("context length", _number(report.context_length)),
        ("embedding", _number(report.embedding_length)),
        ("vocabulary", _number(report.vocabulary)),
        ("chat template", "yes" if report.has_chat_template else "no"),
        ("nextn head", _nextn(report)),
    ]
    if report.experts is None:
        return [*facts, ("streams", f"no: {report.not_streamable}")]
    experts = report.experts
    size = mib(experts.expert_bytes_min)
    if experts.expert_bytes_max != experts.expert_bytes_min:
        size += f" to {mib(experts.expert_bytes_max)}"
    return [
        *facts,
        ("streams", "yes"),
        (
            "experts",
            f"{experts.n_expert} in each of {len(experts.moe_layers)} layers, "
            f"{experts.n_expert_used} used per token",
        ),
        ("dense weights", f"{mib(report.dense_bytes)} MiB"),
        ("expert weights", f"{mib(experts.total_bytes)} MiB"),
        ("one expert", f"{size} MiB"),
        ("one token, one layer", f"{mib(experts.layer_demand_bytes)} MiB"),
        ("one token, all layers", f"{mib(experts.token_demand_bytes)} MiB"),
    ]


def _count(number: int) -> str:
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:,}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _nextn(report: ModelReport) -> str:
    nextn = report.nextn
    if not nextn.claimed_layers:
        return "no"
    if nextn.missing:
        return f"claimed, but tensors are missing: {', '.join(nextn.missing)}"
    return f"yes, {nextn.claimed_layers} layer{'s' if nextn.claimed_layers > 1 else ''}"
