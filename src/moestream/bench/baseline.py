"""Plain llama.cpp, measured like a session: the same clocks, the same records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Final

from moestream.config import EngineConfig
from moestream.engine.events import (
    FinishReason,
    GenerationSummary,
    Phase,
    TokenEvent,
    TokenMetrics,
)
from moestream.engine.report import LoadReport
from moestream.engine.tally import MetricsTally
from moestream.errors import ContextOverflowError
from moestream.llama.plain import PlainLoop
from moestream.telemetry.system import available_cpus, cpu_time_and_major_faults

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["PlainSession"]

_MS: Final = 1e-6
#: llama.cpp's own default, for nothing of ours limits it here.
_N_UBATCH: Final = 512


class PlainSession:
    """As much of :class:`moestream.Session` as a measurement needs. Close it."""

    def __init__(self, config: EngineConfig) -> None:
        """Map the model; of the settings, context, micro-batch and threads count.

        Raises:
            MoestreamError: the model cannot be opened.
        """
        self.config = config
        threads = config.threads or available_cpus()
        started = perf_counter()
        self._loop = PlainLoop(
            Path(config.model),
            n_ctx=config.n_ctx,
            n_ubatch=config.n_ubatch or _N_UBATCH,
            threads=threads,
        )
        self.load_report = _report(self._loop, perf_counter() - started)
        self.last_summary: GenerationSummary | None = None

    def tokenize(self, text: str) -> list[int]:
        """Token ids of ``text``."""
        return self._loop.model.vocab.tokenize(text)

    def reset(self) -> None:
        """Nothing is carried from one generation to the next anyway."""

    def generate(self, prompt: str | Sequence[int], *, max_tokens: int) -> Iterator[TokenEvent]:
        """Continue ``prompt`` greedily; :attr:`last_summary` is set when it has ended.

        Raises:
            ContextOverflowError: the prompt does not fit.
        """
        loop, vocab = self._loop, self._loop.model.vocab
        tokens = self.tokenize(prompt) if isinstance(prompt, str) else list(prompt)
        limit = loop.context.n_ctx
        if len(tokens) >= limit:
            raise ContextOverflowError(
                f"the prompt has {len(tokens)} tokens, and a context of {limit} leaves no room to "
                f"answer; shorten it, or give a context above {len(tokens)}"
            )
        meter = _Meter()
        tally = MetricsTally()
        started = perf_counter()
        meter.begin()
        token = loop.prefill(tokens)
        metrics = tally.prefill = meter.end("prefill", len(tokens))
        prefill_s = perf_counter() - started
        first = last = perf_counter()
        finish: FinishReason | None = None
        index = 0
        while True:
            text = ""
            if vocab.is_eog(token):
                finish = "stop"
            else:
                text = vocab.piece(token).decode("utf-8", "replace")
                if index + 1 == max_tokens or loop.position >= limit - 1:
                    finish = "length"
            if finish is not None:
                self.last_summary = tally.summary(
                    finish_reason=finish,
                    prompt_tokens=len(tokens),
                    reused_tokens=0,
                    generated_tokens=index + 1,
                    prefill_s=prefill_s,
                    decode_s=last - first,
                )
            yield TokenEvent(
                text=text,
                token_id=token,
                index=index,
                position=loop.position,
                finish_reason=finish,
                metrics=metrics,
                tok_s=index / (last - first) if index and last > first else None,
            )
            if finish is not None:
                return
            meter.begin()
            token = loop.step(token)
            metrics = meter.end("decode", 1)
            tally.add(metrics)
            last = perf_counter()
            index += 1

    def close(self) -> None:
        """Free everything."""
        self._loop.close()

    def __enter__(self) -> PlainSession:
        """The session itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Free everything."""
        self.close()


class _Meter:
    """What :class:`moestream.engine.meter.Meter` measures, where there is no expert store."""

    def __init__(self) -> None:
        self._ended = perf_counter_ns()
        self.begin()

    def begin(self) -> None:
        self._usage = cpu_time_and_major_faults()
        self._started = perf_counter_ns()

    def end(self, phase: Phase, rows: int) -> TokenMetrics:
        now = perf_counter_ns()
        overhead, self._ended = self._started - self._ended, now
        usage, before = cpu_time_and_major_faults(), self._usage
        measured = usage is not None and before is not None
        wall_ms = (now - self._started) * _MS
        return TokenMetrics(
            phase=phase, rows=rows, wall_ms=wall_ms, stall_ms=0.0, compute_ms=wall_ms, io_ms=0.0,
            loop_overhead_ms=max(overhead, 0) * _MS,
            cpu_ms=1e3 * (usage[0] - before[0]) if measured and usage and before else None,
            majflt=usage[1] - before[1] if measured and usage and before else None,
            read_bytes=0, hits=0, misses=0, dropped=0, routed=0, evictions=0, rereads=0,
            guard_loads=0,
        )  # fmt: skip


def _report(loop: PlainLoop, load_s: float) -> LoadReport:
    model, context = loop.model, loop.context
    buffers = context.buffers
    arch = model.metadata("general.architecture") or ""
    return LoadReport(
        model=model.metadata("general.name") or model.path.name,
        paths=(model.path,),
        arch=arch,
        description=f"{model.description}, mapped by llama.cpp",
        n_layer=model.n_layer,
        n_layer_nextn=model.n_layer_nextn,
        n_expert=int(model.metadata(f"{arch}.expert_count") or 0),
        n_expert_used=int(model.metadata(f"{arch}.expert_used_count") or 0),
        n_vocab=model.vocab.n_tokens,
        n_ctx_train=model.n_ctx_train,
        n_ctx=context.n_ctx,
        n_ubatch=context.n_ubatch,
        threads=context.threads,
        thread_timings=(),
        streamed=False,
        overlap=False,
        mover="",
        direct_io=False,
        io_threads=0,
        prefetch=0,
        drop_cold_experts=0.0,
        dense_weights="mmap",
        repack=False,
        cache_bytes=0,
        cache_retains=False,
        cache_auto=False,
        cache_limited_by=None,
        cache_ceiling_bytes=None,
        available_bytes=None,
        floor_bytes=0,
        reserved_bytes=0,
        dense_bytes=0,
        expert_bytes=0,
        expert_max_bytes=0,
        token_demand_bytes=0,
        layer_demand_bytes=0,
        kv_bytes=buffers.kv,
        recurrent_bytes=buffers.recurrent,
        compute_bytes=buffers.compute + buffers.output,
        snapshot_bytes=0,
        draft_kv_bytes=0,
        draft_compute_bytes=0,
        draft_dense_bytes=0,
        load_s=load_s,
        open_s=load_s,
        load_read_bytes=None,
        load_expert_bytes=0,
        notes=(),
        warnings=(),
    )
