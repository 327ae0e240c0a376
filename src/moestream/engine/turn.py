"""One generation from prompt to last token."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from time import perf_counter

from moestream.config import SamplingConfig, SpeculationConfig
from moestream.engine.choosing import ChoosingTarget, LogitsObserver
from moestream.engine.evaluator import TurnCancelledError
from moestream.engine.events import (
    FinishReason,
    GenerationSummary,
    SpeculationSummary,
    TokenEvent,
    TokenMetrics,
)
from moestream.engine.loop import DecodeLoop
from moestream.engine.prefix import plan_reuse
from moestream.engine.sampling import make_chooser
from moestream.engine.stops import TextStream
from moestream.engine.tally import MetricsTally
from moestream.llama.batch import TokenArray
from moestream.llama.vocab import Vocab
from moestream.speculation.acceptance import (
    AcceptanceTally,
    accepted_prefix,
    synthetic_acceptance,
)
from moestream.speculation.verify import Verifier

__all__ = ["Turn", "TurnRequest"]


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
        draft: whether to speculate, if the session does.
        shown: control tokens whose names stay in the text.
    """

    prompt: TokenArray
    max_tokens: int | None
    stops: tuple[str, ...]
    sampling: SamplingConfig
    stable: int
    draft: bool = True
    shown: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Said:
    """A token that is part of the answer: where it stands, the text it makes certain, the end."""

    token: int
    position: int
    text: str
    finish: FinishReason | None


class Turn:
    """The events of one generation; runs the model as they are asked for."""

    def __init__(
        self,
        loop: DecodeLoop,
        vocab: Vocab,
        request: TurnRequest,
        *,
        speculation: SpeculationConfig,
        observer: LogitsObserver | None = None,
    ) -> None:
        """Prepare the turn; nothing is evaluated yet."""
        self._loop = loop
        self._vocab = vocab
        self._request = request
        self._speculation = speculation
        self._observer = observer
        self._text = TextStream(request.stops)
        self._limit = loop.context.options.n_ctx
        self._tally = MetricsTally()
        self._width = speculation.draft if request.draft and loop.source is not None else 0
        self._drafts = AcceptanceTally(self._width)
        self._finish: FinishReason | None = None
        self._generated = 0
        #: Position of the next token that is said.
        self._next_position = len(request.prompt)
        self._free = TokenMetrics.free(measured=loop.meter.measures_usage)
        self._reused = 0
        self._prefill_s = 0.0
        self._first_at = 0.0
        self._last_at = 0.0

    def events(self) -> Generator[TokenEvent, None, None]:
        """Yield an event a token; the last one has a finish reason."""
        loop, request = self._loop, self._request
        loop.meter.restart()
        chooser = make_chooser(request.sampling, self._vocab, request.prompt)
        target = ChoosingTarget(loop, chooser, self._observer)
        verifier = self._verifier(target)
        self._drafts = verifier.tally
        try:
            metrics = self._prefill()
            self._first_at = self._last_at = perf_counter()
            said = self._say((target.first(),))
            yield self._event(said[0], metrics)
            while self._finish is None:
                group = verifier.advance(said[-1].token, self._room())
                said = self._say(group.tokens)
                verifier.settle(group, len(said))
                metrics = loop.meter.take(
                    "decode",
                    batch=len(said),
                    drafted=group.drafted,
                    accepted=min(group.accepted, len(said)),
                )
                self._tally.add(metrics)
                self._last_at = perf_counter()
                yield self._event(said[0], metrics)
                for token in said[1:]:
                    if loop.evaluator.cancelled:
                        raise TurnCancelledError(started=False)
                    yield self._event(token, self._free)
        except TurnCancelledError:
            self._finish = "cancelled"
            yield self._closing_event()
        finally:
            chooser.close()

    def _verifier(self, target: ChoosingTarget) -> Verifier:
        forced = self._speculation.synthetic_acceptance
        return Verifier(
            target,
            width=self._width,
            is_end=self._vocab.is_eog,
            accept=accepted_prefix if forced is None else synthetic_acceptance(forced),
        )

    def _room(self) -> int:
        """Most tokens that may still be said: the cap, and places in the context but for one."""
        room = self._limit - len(self._loop.history)
        if self._request.max_tokens is not None:
            room = min(room, self._request.max_tokens - self._generated)
        return room

    def summary(self) -> GenerationSummary:
        """The generation so far as a whole."""
        return self._tally.summary(
            finish_reason=self._finish,
            prompt_tokens=len(self._request.prompt),
            reused_tokens=self._reused,
            generated_tokens=self._generated,
            prefill_s=self._prefill_s,
            decode_s=self._last_at - self._first_at,
            speculation=self._speculated(),
        )

    def _speculated(self) -> SpeculationSummary | None:
        if self._loop.source is None:
            return None
        drafts, tally = self._drafts, self._tally
        return SpeculationSummary(
            source=self._speculation.source,
            width=self._width,
            steps=drafts.steps,
            drafted_steps=drafts.drafted_steps,
            drafted=drafts.drafted,
            accepted=drafts.accepted,
            draft_s=tally.draft_ms / 1e3,
            draft_read_bytes=tally.draft_read_bytes,
            offered_at=tuple(drafts.offered_at),
            accepted_at=tuple(drafts.accepted_at),
            synthetic=self._speculation.synthetic_acceptance is not None,
        )

    def _prefill(self) -> TokenMetrics:
        loop, request = self._loop, self._request
        started = perf_counter()
        prompt = request.prompt
        loop.recover()
        reuse = plan_reuse(
            loop.history.tokens,
            prompt,
            can_trim=loop.can_trim,
            checkpoint=loop.checkpoint,
            needs_hidden=loop.needs_hidden,
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

    def _say(self, tokens: Sequence[int]) -> list[_Said]:
        """Turn confirmed tokens into text, up to the one that ends the generation."""
        said: list[_Said] = []
        start = self._next_position
        for position, token in enumerate(tokens, start=start):
            generated = self._generated + len(said) + 1
            text, finish = self._read(token, position, generated)
            said.append(_Said(token, position, text, finish))
            if finish is not None:
                break
        self._next_position = start + len(said)
        return said

    def _read(self, token: int, position: int, generated: int) -> tuple[str, FinishReason | None]:
        finish: FinishReason | None = None
        text = ""
        if self._vocab.is_eog(token):
            finish = "stop"
        else:
            special = token in self._request.shown
            text = self._text.push(self._vocab.piece(token, special=special))
            if self._text.stopped:
                finish = "stop"
            elif generated == self._request.max_tokens or position >= self._limit:
                finish = "length"
        if finish is not None:
            text += self._text.finish()
            if self._text.stopped:
                finish = "stop"
        return text, finish

    def _event(self, said: _Said, metrics: TokenMetrics) -> TokenEvent:
        index = self._generated
        self._generated += 1
        self._finish = said.finish
        return TokenEvent(
            text=said.text,
            token_id=said.token,
            index=index,
            position=said.position,
            finish_reason=said.finish,
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
