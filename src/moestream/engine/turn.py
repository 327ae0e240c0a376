"""One generation from prompt to last token."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from time import perf_counter

from moestream.config import SamplingConfig
from moestream.engine.events import (
    FinishReason,
    GenerationSummary,
    TokenEvent,
    TokenMetrics,
)
from moestream.engine.loop import DecodeLoop, TurnCancelledError
from moestream.engine.prefix import plan_reuse
from moestream.engine.sampling import Chooser, make_chooser
from moestream.engine.stops import TextStream
from moestream.llama.batch import TokenArray
from moestream.llama.context import Logits
from moestream.llama.vocab import Vocab

__all__ = ["LogitsObserver", "Turn", "TurnRequest"]

#: Told the position of the row's token and a view of its logits, which the next decode overwrites.
LogitsObserver = Callable[[int, Logits], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What to generate.

    Attributes:
        prompt: tokens; at least one, and room for one more in the context.
        max_tokens: how many at most; ``None`` until the context is full.
        stops: strings that end the generation, and are not part of it.
        sampling: how to choose.
        stable: length of the beginning of the prompt that the next turn's prompt is sure to
            share: where a recurrent state is worth a checkpoint.
    """

    prompt: TokenArray
    max_tokens: int | None
    stops: tuple[str, ...]
    sampling: SamplingConfig
    stable: int


class Turn:
    """The events of one generation; runs the model as they are asked for."""

    def __init__(
        self,
        loop: DecodeLoop,
        vocab: Vocab,
        request: TurnRequest,
        *,
        observer: LogitsObserver | None = None,
    ) -> None:
        """Prepare the turn; nothing is evaluated yet."""
        self._loop = loop
        self._vocab = vocab
        self._request = request
        self._observer = observer
        self._text = TextStream(request.stops)
        self._limit = loop.context.options.n_ctx
        self._tally = _Tally()
        self._finish: FinishReason | None = None
        self._generated = 0
        self._reused = 0
        self._prefill_s = 0.0
        self._first_at = 0.0
        self._last_at = 0.0

    def events(self) -> Generator[TokenEvent, None, None]:
        """Yield an event a token; the last one has a finish reason."""
        loop, request = self._loop, self._request
        loop.meter.restart()
        chooser = make_chooser(request.sampling, self._vocab, request.prompt)
        try:
            metrics = self._prefill()
            self._first_at = self._last_at = perf_counter()
            while True:
                token = self._choose(chooser)
                event = self._event(token, metrics)
                yield event
                if self._finish is not None:
                    return
                loop.step(token)
                metrics = loop.meter.take("decode")
                self._tally.add(metrics)
                self._last_at = perf_counter()
        except TurnCancelledError:
            self._finish = "cancelled"
            yield self._closing_event()
        finally:
            chooser.close()

    def summary(self) -> GenerationSummary:
        """The generation so far as a whole."""
        tally, prefill = self._tally, self._tally.prefill
        return GenerationSummary(
            finish_reason=self._finish,
            prompt_tokens=len(self._request.prompt),
            reused_tokens=self._reused,
            generated_tokens=self._generated,
            prefill_s=self._prefill_s,
            decode_s=self._last_at - self._first_at,
            read_bytes=tally.read_bytes,
            prefill_read_bytes=prefill.read_bytes if prefill is not None else 0,
            hits=tally.hits,
            misses=tally.misses,
            dropped=tally.dropped,
            routed=tally.routed,
            evictions=tally.evictions,
            rereads=tally.rereads,
            stall_s=tally.stall_ms / 1e3,
            io_s=tally.io_ms / 1e3,
            loop_overhead_s=tally.loop_overhead_ms / 1e3,
            cpu_s=tally.cpu_ms / 1e3 if tally.measured else None,
            majflt=tally.majflt if tally.measured else None,
            guard_loads=tally.guard_loads + (prefill.guard_loads if prefill is not None else 0),
        )

    def _prefill(self) -> TokenMetrics:
        loop, request = self._loop, self._request
        started = perf_counter()
        prompt = request.prompt
        loop.recover()
        reuse = plan_reuse(
            loop.history.tokens, prompt, can_trim=loop.can_trim, checkpoint=loop.checkpoint
        )
        start = self._reused = loop.rewind(reuse)
        try:
            if start < request.stable < len(prompt) and not loop.can_trim:
                loop.prefill(prompt[start : request.stable])
                loop.save_checkpoint()
                start = request.stable
            loop.prefill(prompt[start:])
            if request.stable == len(prompt):
                loop.save_checkpoint()
        finally:
            metrics = loop.meter.take("prefill")
            self._tally.prefill = metrics
            self._prefill_s = perf_counter() - started
        return metrics

    def _choose(self, chooser: Chooser) -> int:
        context = self._loop.context
        logits = context.logits()
        if self._observer is not None:
            self._observer(len(self._loop.history) - 1, logits)
        return chooser.choose(context, logits)

    def _event(self, token: int, metrics: TokenMetrics) -> TokenEvent:
        request = self._request
        index = self._generated
        position = len(self._loop.history)
        self._generated += 1
        text = ""
        if self._vocab.is_eog(token):
            self._finish = "stop"
        else:
            text = self._text.push(self._vocab.piece(token))
            if self._text.stopped:
                self._finish = "stop"
            elif self._generated == request.max_tokens or position >= self._limit:
                self._finish = "length"
        if self._finish is not None:
            text += self._text.finish()
            if self._text.stopped:
                self._finish = "stop"
        return TokenEvent(
            text=text,
            token_id=token,
            index=index,
            position=position,
            finish_reason=self._finish,
            metrics=metrics,
            tok_s=self._rate(index),
        )

    def _closing_event(self) -> TokenEvent:
        return TokenEvent(
            text=self._text.finish(),
            token_id=None,
            index=self._generated,
            position=len(self._loop.history),
            finish_reason="cancelled",
            metrics=self._loop.meter.take("decode" if self._generated else "prefill"),
            tok_s=self._rate(self._generated - 1),
        )

    def _rate(self, decoded: int) -> float | None:
        elapsed = self._last_at - self._first_at
        return decoded / elapsed if decoded > 0 and elapsed > 0.0 else None


class _Tally:
    """Running sums over decodes, so that a long generation keeps no list of its past."""

    __slots__ = (
        "cpu_ms", "dropped", "evictions", "guard_loads", "hits", "io_ms", "loop_overhead_ms",
        "majflt", "measured", "misses", "prefill", "read_bytes", "rereads", "routed", "stall_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.prefill: TokenMetrics | None = None
        self.measured = True
        self.majflt = self.read_bytes = self.hits = self.misses = self.dropped = 0
        self.routed = self.evictions = self.rereads = self.guard_loads = 0
        self.cpu_ms = self.io_ms = self.loop_overhead_ms = self.stall_ms = 0.0

    def add(self, metrics: TokenMetrics) -> None:
        self.read_bytes += metrics.read_bytes
        self.hits += metrics.hits
        self.misses += metrics.misses
        self.dropped += metrics.dropped
        self.routed += metrics.routed
        self.evictions += metrics.evictions
        self.rereads += metrics.rereads
        self.guard_loads += metrics.guard_loads
        self.io_ms += metrics.io_ms
        self.loop_overhead_ms += metrics.loop_overhead_ms
        self.stall_ms += metrics.stall_ms
        if metrics.cpu_ms is None or metrics.majflt is None:
            self.measured = False
        else:
            self.cpu_ms += metrics.cpu_ms
            self.majflt += metrics.majflt
