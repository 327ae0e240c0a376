"""``/metrics``, in Prometheus' text format.

The counters of speculation have vLLM's names, prefix included, so that dashboards made for it
show them. Mean acceptance length is ``1 + accepted / drafts``: the free token counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from moestream.server.naming import Names
from moestream.server.worker import EngineClient
from moestream.server.worker.counters import Histogram

__all__ = ["render", "router"]

_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_MIB: Final = 2**20


def router(engine: EngineClient, names: Names) -> APIRouter:
    """The route."""
    routes = APIRouter()

    @routes.get("/metrics", tags=["operations"], response_model=None)
    async def metrics() -> Response:
        """Counters and gauges for Prometheus."""
        return Response(render(engine, names.name(engine.state)), media_type=_TYPE)

    return routes


def render(engine: EngineClient, model: str | None) -> str:
    """All numbers as text."""
    return "\n".join([*_engine(engine), *_turns(engine, model), *_speculation(engine, model), ""])


def _engine(engine: EngineClient) -> Iterator[str]:
    state, queue, counters = engine.state, engine.queue, engine.counters
    memory = engine.memory()
    yield from _one("moestream_up", "gauge", "Whether a model is ready.", state.phase == "ready")
    yield from _one("moestream_requests_running", "gauge", "Turns that run.", queue.running)
    yield from _one("moestream_requests_waiting", "gauge", "Requests that wait.", queue.waiting)
    yield from _one(
        "moestream_requests_rejected_total", "counter", "Requests refused because too many waited.",
        counters.rejected,
    )  # fmt: skip
    yield from _one(
        "moestream_engine_crashes_total", "counter", "How often the engine's process died.",
        counters.crashes,
    )  # fmt: skip
    for key, help_text in (
        ("budget", "Memory that experts may take."),
        ("used", "Resident memory of the engine's process."),
        ("available", "Memory of the machine that can be taken without swapping."),
    ):
        value = memory[f"{key}_mib"]
        if value is not None:
            yield from _one(f"moestream_memory_{key}_bytes", "gauge", help_text, value * _MIB)


def _turns(engine: EngineClient, model: str | None) -> Iterator[str]:
    counters = engine.counters
    name = "moestream_turns_total"
    yield from _head(name, "counter", "Turns by how they ended.")
    for reason, count in sorted(counters.finished.items()):
        yield _line(name, {"finish_reason": reason}, count)
    for name, help_text, value in (
        ("prompt_tokens", "Tokens of prompts.", counters.prompt_tokens),
        ("cached_tokens", "Tokens of prompts that the context held.", counters.cached_tokens),
        ("generation_tokens", "Tokens generated.", counters.generated_tokens),
        ("expert_read_bytes", "Bytes of experts read.", counters.read_bytes),
        ("expert_hits", "Routed experts found in the cache while decoding.", counters.hits),
        ("expert_misses", "Routed experts read while decoding.", counters.misses),
    ):
        yield from _one(f"moestream_{name}_total", "counter", help_text, value)
    for name, help_text, histogram in (
        ("queue_time", "Time that requests waited.", counters.queue_s),
        ("time_to_first_token", "From taking the engine to the first token.",
         counters.first_token_s),
        ("time_per_output_token", "Mean time per further token, by turn.", counters.per_token_s),
        ("turn_time", "From taking the engine to the end.", counters.turn_s),
    ):  # fmt: skip
        yield from _histogram(f"moestream_{name}_seconds", help_text, histogram)


def _speculation(engine: EngineClient, model: str | None) -> Iterator[str]:
    counters = engine.counters
    labels = {"model_name": model or "", "engine": "0"}
    for name, help_text, value in (
        ("drafts", "Decodes that verified a draft.", counters.drafts),
        ("draft_tokens", "Tokens drafted.", counters.drafted),
        ("accepted_tokens", "Tokens confirmed out of them.", counters.accepted),
    ):
        full = f"vllm:spec_decode_num_{name}_total"
        yield from _head(full, "counter", help_text)
        yield _line(full, labels, value)
    full = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    yield from _head(full, "counter", "Tokens confirmed at each position of a draft.")
    for position, count in sorted(counters.accepted_at.items()):
        yield _line(full, {**labels, "position": str(position)}, count)


def _one(name: str, kind: str, help_text: str, value: float) -> Iterator[str]:
    yield from _head(name, kind, help_text)
    yield _line(name, {}, value)


def _histogram(name: str, help_text: str, histogram: Histogram) -> Iterator[str]:
    yield from _head(name, "histogram", help_text)
    total = 0
    for bound, count in zip((*histogram.bounds, None), histogram.counts, strict=True):
        total += count
        yield _line(f"{name}_bucket", {"le": "+Inf" if bound is None else f"{bound:g}"}, total)
    yield _line(f"{name}_sum", {}, histogram.sum)
    yield _line(f"{name}_count", {}, total)


def _head(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    number = f"{value:.0f}" if float(value).is_integer() else repr(float(value))
    return f"{name}{{{pairs}}} {number}" if pairs else f"{name} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
