"""What a recording says first: the session as it was resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moestream.config import EngineConfig
from moestream.engine.report import LoadReport
from moestream.telemetry.column import Value

__all__ = ["SessionInfo", "preamble_values"]

_MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """An open session, as far as a recording is concerned.

    Attributes:
        report: what was found and decided.
        config: what was asked for.
        version: of moestream.
        llama_cpp_python: its version, if it is known.
        started: when the recording begins: UTC, ISO 8601.
        traced: whether routing is traced as well, which costs time.
    """

    report: LoadReport
    config: EngineConfig
    version: str
    llama_cpp_python: str | None
    started: str
    traced: bool = False


def preamble_values(info: SessionInfo) -> Mapping[str, Value]:
    """The values of :data:`moestream.telemetry.schema.PREAMBLE_KEYS`."""
    values: dict[str, Value] = {
        "engine_version": info.version,
        "llama_cpp_python": info.llama_cpp_python,
        "started": info.started,
        "traced": info.traced,
    }
    values.update(_model(info.report))
    values.update(_memory(info.report))
    if info.report.streamed:
        values.update(_streaming(info.report, info.config))
    values.update(_choosing(info.config))
    return values


def _model(report: LoadReport) -> dict[str, Value]:
    return {
        "model": report.model,
        "model_file": report.paths[0].name if report.paths else None,
        "arch": report.arch,
        "n_layer": report.n_layer,
        "n_layer_nextn": report.n_layer_nextn,
        "n_expert": report.n_expert,
        "n_expert_used": report.n_expert_used,
        "threads": report.threads,
        "n_ctx": report.n_ctx,
        "n_ubatch": report.n_ubatch,
        "moe_stream": report.streamed,
        "dense_weights": report.dense_weights,
        "repack": report.repack,
        "load_s": report.load_s,
        "open_s": report.open_s,
    }


def _memory(report: LoadReport) -> dict[str, Value]:
    return {
        "dense_mib": report.dense_bytes / _MIB,
        "expert_mib": report.expert_bytes / _MIB,
        "kv_mib": report.kv_bytes / _MIB,
        "recurrent_mib": report.recurrent_bytes / _MIB,
        "compute_mib": report.compute_bytes / _MIB,
        "snapshot_mib": report.snapshot_bytes / _MIB,
        "draft_kv_mib": report.draft_kv_bytes / _MIB,
        "draft_compute_mib": report.draft_compute_bytes / _MIB,
        "draft_dense_mib": report.draft_dense_bytes / _MIB,
    }


def _streaming(report: LoadReport, config: EngineConfig) -> dict[str, Value]:
    ceiling = report.cache_ceiling_bytes
    return {
        "cache_mb": report.cache_bytes / _MIB if report.cache_retains else 0.0,
        "cache_auto": report.cache_auto,
        "cache_ceil_mb": None if ceiling is None else ceiling // _MIB,
        "io_threads": report.io_threads,
        "o_direct": report.direct_io,
        "overlap": report.overlap,
        "prefetch": report.prefetch,
        "drop_cold_frac": report.drop_cold_experts,
        "drop_in_prefill": config.streaming.drop_in_prefill,
        "mover": report.mover,
        "token_demand_mib": report.token_demand_bytes / _MIB,
        "layer_demand_mib": report.layer_demand_bytes / _MIB,
    }


def _choosing(config: EngineConfig) -> dict[str, Value]:
    sampling, drafting = config.sampling, config.speculation
    values: dict[str, Value] = {
        "temp": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_penalty": sampling.repeat_penalty,
        "seed": sampling.seed,
        "spec": "off" if drafting.source == "none" else drafting.source,
    }
    if drafting.source != "none":
        values["spec_draft_max"] = drafting.draft
        values["synthetic_acceptance"] = drafting.synthetic_acceptance
    if drafting.source == "mtp":
        values["mtp_p_min"] = drafting.mtp_p_min
    if drafting.source == "ngram":
        values["ngram_min_match"] = drafting.ngram_min_match
        values["ngram_max_match"] = drafting.ngram_max_match
    return values
