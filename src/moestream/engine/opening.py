"""Opens a model: every decision of a session's start, in the order in which they depend."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from moestream.config import EngineConfig
from moestream.engine import threads as thread_choice
from moestream.engine.evaluator import Evaluator
from moestream.engine.files import FileWatch
from moestream.engine.loop import DecodeLoop
from moestream.engine.memory import (
    Contexts,
    Fitting,
    check_fits,
    resident_bytes,
    speculation_costs,
    warnings_about,
)
from moestream.engine.meter import Meter
from moestream.engine.report import LoadReport, ThreadTiming
from moestream.errors import ConfigError, ModelError, PlatformError, StreamReadError
from moestream.gguf import GGUFModel, check_model, read_model
from moestream.llama.batch import Batch
from moestream.llama.chat import ChatTemplate
from moestream.llama.context import Context
from moestream.llama.model import LoadProgress, Model
from moestream.llama.runtime import runtime
from moestream.models.nano import resolve_model
from moestream.speculation.draft import DraftSource
from moestream.speculation.lookup import NgramDraft
from moestream.speculation.mtp import MtpDraft
from moestream.speculation.support import check_mtp
from moestream.speculation.synthetic import FilledDraft
from moestream.streaming.budget import MIB
from moestream.streaming.layout import ExpertLayout
from moestream.streaming.source import (
    ExpertSource,
    choose_layout,
    expert_count_used,
    resolve_overlap,
)
from moestream.telemetry.system import available_cpus, bytes_read_by_process

__all__ = ["Opened", "open_model"]

_DEFAULT_N_CTX = 4096
_MAX_N_CTX = 1 << 22


@dataclass(slots=True)
class Opened:
    """The parts of an open session, and how to take them down again."""

    model: Model
    source: ExpertSource
    context: Context
    loop: DecodeLoop
    chat_source: str | None
    report: LoadReport
    resources: ExitStack
    files: FileWatch


def open_model(
    config: EngineConfig, *, cancelled: threading.Event, progress: LoadProgress | None = None
) -> Opened:
    """Open the model of ``config``; what was built is taken down again if a step fails.

    Raises:
        MoestreamError: see the error tree; every refusal names its reason.
    """
    with ExitStack() as stack:
        opened = _Opening(config, stack, cancelled, progress).run()
        opened.resources = stack.pop_all()
        return opened


class _Opening:
    def __init__(
        self,
        config: EngineConfig,
        stack: ExitStack,
        cancelled: threading.Event,
        progress: LoadProgress | None,
    ) -> None:
        config.validate()
        self.config = config
        self.stack = stack
        self.cancelled = cancelled
        self.progress = progress
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.started = perf_counter()

    def run(self) -> Opened:
        config, streaming = self.config, self.config.streaming
        path = resolve_model(config.model)
        gguf = read_model(path)
        check_model(gguf)
        n_expert, n_used = expert_count_used(gguf, config.n_expert_used)
        chat_source = _read_template(config.chat_template)
        self.notes += runtime().notes
        layout = choose_layout(gguf, streaming.moe_stream, self.notes)
        if layout is not None:
            layout = replace(layout, n_expert_used=n_used)
            overlap = resolve_overlap(streaming.overlap)
            if overlap.note is not None:
                self.notes.append(overlap.note)
            overlapped = overlap.enabled
        else:
            self._note_unused_settings()
            overlapped = False
        n_ctx = self._resolve_n_ctx(gguf.get_int("context_length", 0))
        load_mtp = config.speculation.source == "mtp"
        self._check(gguf, layout, n_ctx)

        source = ExpertSource(gguf, layout, streaming, load_mtp=load_mtp)
        self.stack.callback(source.close)
        read_before = bytes_read_by_process()
        model = source.load(
            path, metadata=_metadata(gguf, config.n_expert_used), progress=self.progress
        )
        self.stack.callback(model.close)
        read_after = bytes_read_by_process()
        load_s = perf_counter() - self.started
        load_expert_bytes = source.store.counters()["read_bytes"]
        if model.has_encoder:
            raise ModelError(f"{path} is an encoder model; it cannot generate text")

        contexts, cache = Fitting(config, model, source, n_ctx=n_ctx).make_contexts()
        self.stack.callback(contexts.close)
        context = contexts.target
        if layout is not None:
            source.start(
                budget=cache.budget,
                overlap=overlapped,
                n_ubatch=context.n_ubatch,
                n_expert_used=n_used,
            )
            self.notes += source.store.notes
            self.warnings += warnings_about(config, source, cache)
        timings = self._choose_threads(model, source, context)
        files = FileWatch(gguf.paths if source.maps_files else ())
        self.stack.callback(files.close)
        loop = self._drive(model, source, contexts, files, overlapped)
        costs = speculation_costs(contexts, gguf, layout)
        chat_source = chat_source if chat_source is not None else model.chat_template
        sizes = _layout_sizes(layout, gguf)
        report = LoadReport(
            model=gguf.name,
            paths=gguf.paths,
            arch=gguf.architecture,
            description=model.description,
            n_layer=model.n_layer,
            n_layer_nextn=gguf.get_int("nextn_predict_layers", 0),
            n_expert=n_expert,
            n_expert_used=n_used,
            n_vocab=model.vocab.n_tokens,
            n_ctx_train=model.n_ctx_train,
            n_ctx=n_ctx,
            n_ubatch=context.n_ubatch,
            threads=context.threads,
            thread_timings=timings,
            streamed=source.streamed,
            overlap=overlapped,
            mover=source.store.mover if source.streamed else "",
            direct_io=source.streamed and source.store.direct_io,
            io_threads=streaming.io_threads,
            prefetch=streaming.prefetch if source.streamed else 0,
            drop_cold_experts=streaming.drop_cold_experts if source.streamed else 0.0,
            dense_weights=streaming.dense_weights,
            repack=streaming.repack,
            cache_bytes=cache.budget,
            cache_retains=streaming.cache_mb != 0,
            cache_auto=streaming.cache_mb == "auto",
            cache_limited_by=cache.limited_by,
            cache_ceiling_bytes=(
                None if streaming.cache_ceil_mb is None else streaming.cache_ceil_mb * MIB
            ),
            available_bytes=None if cache.usable is None else cache.usable.available,
            floor_bytes=0 if cache.usable is None else cache.usable.floor,
            reserved_bytes=cache.reserved,
            dense_bytes=sizes.dense,
            expert_bytes=sizes.experts,
            expert_max_bytes=sizes.largest,
            token_demand_bytes=sizes.token,
            layer_demand_bytes=sizes.layer,
            kv_bytes=context.buffers.kv,
            recurrent_bytes=context.buffers.recurrent - costs.snapshots,
            compute_bytes=context.buffers.compute + context.buffers.output + context.late_bytes,
            snapshot_bytes=costs.snapshots,
            draft_kv_bytes=costs.draft_kv,
            draft_compute_bytes=costs.draft_compute,
            draft_dense_bytes=costs.draft_dense,
            load_s=load_s,
            open_s=perf_counter() - self.started,
            load_read_bytes=(
                None if read_before is None or read_after is None else read_after - read_before
            ),
            load_expert_bytes=load_expert_bytes,
            notes=tuple(self.notes),
            warnings=tuple(self.warnings),
        )
        return Opened(
            model=model,
            source=source,
            context=context,
            loop=loop,
            chat_source=chat_source,
            report=report,
            resources=self.stack,
            files=files,
        )

    def _check(self, gguf: GGUFModel, layout: ExpertLayout | None, n_ctx: int) -> None:
        """Refuse before the load what cannot run after it."""
        speculation = self.config.speculation
        if speculation.source == "mtp":
            check_mtp(gguf)
        warning = check_fits(
            gguf,
            layout,
            n_ctx=n_ctx,
            mapped=self.config.streaming.dense_weights in ("mmap", "warm"),
            load_mtp=speculation.source == "mtp",
            n_snapshots=speculation.draft if speculation.source != "none" else 0,
        )
        if warning is not None:
            self.warnings.append(warning)

    def _drive(
        self,
        model: Model,
        source: ExpertSource,
        contexts: Contexts,
        files: FileWatch,
        overlapped: bool,
    ) -> DecodeLoop:
        evaluator = Evaluator(
            source.store,
            cancelled=self.cancelled,
            lost_weights=lambda: source.lost_weights() or files.complaint(),
        )
        speculates = self.config.speculation.source != "none"
        if speculates and model.keeps_state and not contexts.target.n_snapshots:
            self.notes.append(
                f"llama.cpp keeps no snapshots of a {source.gguf.architecture} state, so a step "
                "with a rejected draft costs a copy of it and a second decode"
            )
        return DecodeLoop(
            contexts.target,
            evaluator,
            keeps_state=model.keeps_state,
            meter=Meter(source.store, streamed=source.streamed, overlap=overlapped),
            source=self._draft_source(contexts, evaluator),
        )

    def _note_unused_settings(self) -> None:
        """Settings that only a streamed model has a use for are not ignored in silence."""
        streaming = self.config.streaming
        unused = [
            name
            for name, given in (
                ("overlap", streaming.overlap is True),
                ("prefetch", streaming.prefetch > 0),
                ("drop-cold-experts", streaming.drop_cold_experts > 0.0),
                ("cache size", streaming.cache_mb != "auto"),
                ("cache ceiling", streaming.cache_ceil_mb is not None),
            )
            if given
        ]
        if unused:
            self.warnings.append(
                f"this model is kept resident, so these settings do nothing: {', '.join(unused)}"
            )

    def _draft_source(self, contexts: Contexts, evaluator: Evaluator) -> DraftSource | None:
        speculation = self.config.speculation
        source: DraftSource
        if speculation.source == "none":
            return None
        if contexts.draft is not None:
            contexts.draft.set_threads(contexts.target.threads)
            source = MtpDraft(contexts.draft, evaluator.draft, p_min=speculation.mtp_p_min)
        else:
            source = NgramDraft(
                min_match=speculation.ngram_min_match, max_match=speculation.ngram_max_match
            )
        return source if speculation.synthetic_acceptance is None else FilledDraft(source)

    def _resolve_n_ctx(self, trained: int) -> int:
        wanted = self.config.n_ctx
        if wanted is None:
            return min(trained, _DEFAULT_N_CTX) if trained > 0 else _DEFAULT_N_CTX
        if wanted > _MAX_N_CTX:
            raise ConfigError(f"the context must hold at most {_MAX_N_CTX} tokens, got {wanted}")
        if 0 < trained < wanted:
            self.warnings.append(
                f"a context of {wanted} tokens is more than the {trained} this model was "
                "trained for; text beyond that may be poor"
            )
        return wanted

    def _choose_threads(
        self, model: Model, source: ExpertSource, context: Context
    ) -> tuple[ThreadTiming, ...]:
        if self.config.threads is not None:
            if not thread_choice.can_start(self.config.threads):
                raise PlatformError(
                    f"the system does not let this process start {self.config.threads} threads; "
                    "use fewer, or raise the limit on processes (ulimit -u, or the pids cgroup)"
                )
            return ()
        counts = tuple(
            count
            for count in thread_choice.candidates(available_cpus())
            if thread_choice.can_start(count)
        )
        if len(counts) <= 1:
            context.set_threads(1)
            return ()
        batch = Batch(1)
        token = model.vocab.bos if model.vocab.bos is not None else 0

        def decode(count: int) -> None:
            if context.threads != count:
                context.set_threads(count)
            context.clear()
            batch.fill_one(token, 0)
            source.store.begin_decode()
            try:
                context.decode(batch)
            finally:
                error = source.store.end_decode()
            if error is not None:
                raise StreamReadError(f"expert weights could not be read: {error}")

        timings = thread_choice.measure(counts, decode)
        context.set_threads(thread_choice.choose(timings))
        context.clear()
        return timings


@dataclass(frozen=True, slots=True)
class _Sizes:
    dense: int
    experts: int
    largest: int
    token: int
    layer: int


def _layout_sizes(layout: ExpertLayout | None, gguf: GGUFModel) -> _Sizes:
    if layout is None:
        return _Sizes(resident_bytes(gguf), 0, 0, 0, 0)
    return _Sizes(
        dense=layout.dense_bytes,
        experts=layout.expert_bytes,
        largest=layout.layer_demand(1, 1),
        token=layout.token_demand(),
        layer=layout.layer_demand(1),
    )


def _metadata(gguf: GGUFModel, n_expert_used: int | None) -> dict[str, int]:
    if n_expert_used is None:
        return {}
    return {f"{gguf.architecture}.expert_used_count": n_expert_used}


def _read_template(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise ConfigError(f"the chat template {path} cannot be read: {err}") from err
    if not source.strip():
        raise ConfigError(f"the chat template {path} is empty")
    # Compiled now, so that a mistake in it shows at the start and not at the first message.
    ChatTemplate(source, bos_token="", eos_token="")
    return source
