"""One turn in the engine's process: from a request to messages about its tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final

from moestream.engine.events import GenerationSummary, TokenEvent
from moestream.engine.session import Generation, Session
from moestream.errors import ConfigError
from moestream.server.worker.live import LiveNumbers
from moestream.server.worker.logprobs import LogprobTable
from moestream.server.worker.outbox import Outbox
from moestream.server.worker.recording import TurnRecording
from moestream.server.worker.turns import TurnRequest
from moestream.telemetry.probes import MemoryProbe
from moestream.telemetry.summary import summary_numbers

__all__ = ["RunningTurn"]

#: Seconds between two messages with live numbers.
_LIVE_EVERY: Final = 0.1
#: Characters of the rendered conversation that tell whether the model is already thinking.
_PROMPT_END: Final = 400


class RunningTurn:
    """A turn; collects tokens on one thread, hands them out on another."""

    def __init__(
        self, session: Session, turn_id: int, request: TurnRequest, *, probe: MemoryProbe
    ) -> None:
        """Prepare the turn; nothing happens yet."""
        self._session = session
        self._id = turn_id
        self._request = request
        self._live = LiveNumbers(session.load_report, probe)
        self._events: deque[TokenEvent] = deque()
        self._logprobs: LogprobTable | None = None
        self._told_at = 0.0

    def run(
        self,
        outbox: Outbox,
        *,
        markers: tuple[str, ...],
        is_cancelled: Callable[[], bool],
        warn: Callable[[str], None],
    ) -> None:
        """Run it to its end.

        Args:
            outbox: told of everything.
            markers: control tokens that stay in the text of a conversation.
            is_cancelled: whether the turn was cancelled before its generation existed.
            warn: told what went wrong with the recording.

        Raises:
            MoestreamError: of the engine.
        """
        request = self._request
        with self._observed():
            generation = self._begin(markers)
            started: dict[str, Any] = {
                "t": "started",
                "id": self._id,
                "n": generation.summary.prompt_tokens,
            }
            if request.messages is not None and markers:
                started["end"] = self._render(request)[-_PROMPT_END:]
            recording = TurnRecording(
                request.record_to,
                self._session,
                limit=request.max_tokens,
                sampling=request.sampling,
                warn=warn,
            )
            try:
                outbox.send(started)
                outbox.attach(self)
                if is_cancelled():
                    self._session.cancel()
                self._pump(generation, outbox, recording)
            finally:
                generation.close()
                recording.close(generation.summary)
                outbox.attach(None)
        outbox.send(self._done(generation.summary))

    def take(self) -> Mapping[str, Any] | None:
        """A message with the tokens since the last one."""
        events: list[TokenEvent] = []
        pending = self._events
        while pending:
            events.append(pending.popleft())
        if not events:
            return None
        last = events[-1]
        message: dict[str, Any] = {
            "t": "tokens",
            "id": self._id,
            "i": events[0].index,
            "s": [event.text for event in events],
            "k": [event.token_id for event in events if event.token_id is not None],
            "r": last.tok_s,
        }
        table = self._logprobs
        if table is not None:
            message["p"] = [table.row(event) for event in events]
        now = monotonic()
        if now - self._told_at >= _LIVE_EVERY or last.finish_reason is not None:
            values = self._live.values(last.index)
            if values is not None:
                message["m"] = values
                self._told_at = now
        return message

    def _pump(self, generation: Generation, outbox: Outbox, recording: TurnRecording) -> None:
        append, ring, add, observe = (
            self._events.append, outbox.ring, self._live.add, recording.observe,
        )  # fmt: skip
        for event in generation:
            add(event.metrics)
            append(event)
            ring()
            observe(event)

    def _begin(self, markers: tuple[str, ...]) -> Generation:
        session, request = self._session, self._request
        sampling = session.config.sampling if request.sampling is None else request.sampling
        # Drafts are only verified against the most likely token.
        draft = request.draft and sampling.temperature == 0.0
        if request.messages is not None:
            return session.chat(
                request.messages,
                max_tokens=request.max_tokens,
                stop=request.stop,
                sampling=sampling,
                enable_thinking=request.enable_thinking,
                draft=draft,
                tools=request.tools,
                variables=request.template_variables,
                add_generation_prompt=request.add_generation_prompt,
                markers=markers,
            )
        if request.prompt is None:
            raise ConfigError("a turn needs a prompt or messages")
        return session.generate(
            request.prompt,
            max_tokens=request.max_tokens,
            stop=request.stop,
            sampling=sampling,
            draft=draft,
        )

    def _render(self, request: TurnRequest) -> str:
        return self._session.render(
            request.messages or (),
            enable_thinking=request.enable_thinking,
            tools=request.tools,
            variables=request.template_variables,
            add_generation_prompt=request.add_generation_prompt,
        )

    @contextmanager
    def _observed(self) -> Iterator[None]:
        """Look at the logits, if log probabilities were asked for."""
        session, count = self._session, self._request.logprobs
        if count is None:
            yield
            return
        self._logprobs = LogprobTable(count, session.token_bytes)
        session.logits_observer = self._logprobs.observe
        try:
            yield
        finally:
            session.logits_observer = None

    def _done(self, summary: GenerationSummary) -> Mapping[str, Any]:
        return {"t": "done", "id": self._id, "summary": summary_numbers(summary)}
