"""What ``inspect`` and ``plan`` say, as JSON: for the command line and for the server."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from moestream.models.inspect import ModelReport
from moestream.models.plan import PlanReport

__all__ = ["inspect_as_json", "plan_as_json"]


def inspect_as_json(report: ModelReport) -> dict[str, Any]:
    """The report as plain JSON types; sizes in bytes."""
    experts = report.experts
    return {
        "name": report.name,
        "architecture": report.architecture,
        "files": [{"path": str(shard.path), "bytes": shard.size} for shard in report.shards],
        "file_bytes": report.file_bytes,
        "n_parameters": report.n_parameters,
        "n_tensors": report.n_tensors,
        "n_layer": report.n_layer,
        "context_length": report.context_length,
        "embedding_length": report.embedding_length,
        "vocabulary": report.vocabulary,
        "has_chat_template": report.has_chat_template,
        "nextn": {
            "claimed_layers": report.nextn.claimed_layers,
            "usable": report.nextn.usable,
            "missing": list(report.nextn.missing),
        },
        "streamable": experts is not None,
        "not_streamable": report.not_streamable,
        "dense_bytes": report.dense_bytes,
        "experts": None
        if experts is None
        else {
            "n_expert": experts.n_expert,
            "n_expert_used": experts.n_expert_used,
            "moe_layers": list(experts.moe_layers),
            "total_bytes": experts.total_bytes,
            "expert_bytes_min": experts.expert_bytes_min,
            "expert_bytes_max": experts.expert_bytes_max,
            "layer_demand_bytes": experts.layer_demand_bytes,
            "token_demand_bytes": experts.token_demand_bytes,
        },
        "types": [
            {
                "type": share.type,
                "tensors": share.tensors,
                "dense_bytes": share.dense_bytes,
                "expert_bytes": share.expert_bytes,
            }
            for share in report.types
        ],
    }


def plan_as_json(report: PlanReport) -> dict[str, Any]:
    """The report as plain JSON types; sizes in bytes, rates in bytes a second."""
    disk, speed = report.disk, report.speed
    return {
        "architecture": report.architecture,
        "verdict": report.verdict,
        "files": [str(path) for path in report.paths],
        "file_bytes": report.file_bytes,
        "n_ctx": report.n_ctx,
        "threads": report.threads,
        "n_expert": report.n_expert,
        "n_expert_used": report.n_expert_used,
        "memory": asdict(report.memory),
        "used_bytes": {name: round(size) for name, size in report.used_bytes.items()},
        "compute": {rate.type: round(rate.bytes_per_s) for rate in report.compute},
        "disk": None
        if disk is None
        else {
            "read_bytes": disk.read_bytes,
            "direct": disk.direct,
            "note": disk.note,
            "rates": [
                {"lanes": rate.lanes, "reads": rate.reads, "bytes_per_s": round(rate.bytes_per_s)}
                for rate in disk.rates
            ],
        },
        "estimate": None
        if speed is None
        else {
            "hit_rate": [speed.hits.low, speed.hits.high],
            "compute_s": speed.compute_s,
            "io_s": [speed.io_s_low, speed.io_s_high],
            "tok_s": [speed.tok_s_low, speed.tok_s_high],
            "tok_s_resident": speed.tok_s_resident,
            "tok_s_no_cache": speed.tok_s_no_cache,
        },
        "notes": list(report.notes),
    }
