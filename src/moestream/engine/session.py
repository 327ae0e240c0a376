"""The session: a model kept open, and the conversation it is in."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from moestream.config import EngineConfig, SamplingConfig
from moestream.engine.choosing import LogitsObserver
from moestream.engine.evaluator import DecodeObserver
from moestream.engine.events import GenerationSummary
from moestream.engine.generation import Generation
from moestream.engine.opening import Opened, open_model
from moestream.engine.prefix import common_prefix
from moestream.engine.report import LoadReport
from moestream.engine.turn import Turn, TurnRequest
from moestream.errors import ConfigError, ContextOverflowError, SessionStateError
from moestream.llama.batch import TokenArray
from moestream.llama.chat import ChatTemplate, Message
from moestream.llama.model import LoadProgress
from moestream.streaming.source import ExpertSource

__all__ = ["Generation", "Session"]


class Session:
    """A model kept open. Use as a context manager, or call :meth:`close`.

        with Session("model.gguf") as session:
            for event in session.generate("Once upon a time", max_tokens=64):
                print(event.text, end="", flush=True)

    A session is in one conversation: what a new prompt shares with what is in the context already
    is not evaluated again. One generation at a time; :meth:`cancel` and :meth:`close` may be
    called from any thread.
    """

    def __init__(
        self,
        config: EngineConfig | str | Path | None = None,
        *,
        progress: LoadProgress | None = None,
    ) -> None:
        """Open the model.

        Args:
            config: settings, or just the model; the embedded one if nothing is given.
            progress: told the loaded fraction, 0 to 1.

        Raises:
            MoestreamError: the model cannot be opened; the message says why.
        """
        if config is None:
            config = EngineConfig()
        elif not isinstance(config, EngineConfig):
            config = EngineConfig(model=config)
        self.config = config
        #: Called with position and logits before every choice of a token; for evaluation.
        self.logits_observer: LogitsObserver | None = None
        self._pid = os.getpid()
        self._cancelled = threading.Event()
        # Reentrant: a garbage collection in the middle of it may end an abandoned generation.
        self._cancel_lock = threading.RLock()
        self._turn_lock = threading.Lock()
        # Weak: a generation nobody reads any more must not stay alive through its session.
        self._active: weakref.ref[Generation] | None = None
        self._serial = 0
        self._closed = False
        self._template: ChatTemplate | None = None
        self._last_summary: GenerationSummary | None = None
        opened = open_model(config, cancelled=self._cancelled, progress=progress)
        self._opened = opened
        self._files = opened.files
        self._decode_lock = threading.RLock()
        self._finalizer = weakref.finalize(self, _take_down, opened, self._decode_lock, self._pid)

    def __reduce__(self) -> str:
        """Neither copied nor pickled: there is one context, and one owner of it."""
        raise TypeError("a session cannot be copied or pickled; open another one")

    @property
    def decode_observer(self) -> DecodeObserver | None:
        """Told after every decode in any of the session's contexts; for recording."""
        return self._opened.loop.evaluator.observer

    @decode_observer.setter
    def decode_observer(self, observer: DecodeObserver | None) -> None:
        self._opened.loop.evaluator.observer = observer

    @property
    def expert_source(self) -> ExpertSource:
        """Where expert weights come from; for recording."""
        return self._opened.source

    @property
    def info(self) -> LoadReport:
        """What was found and decided at the start."""
        return self._opened.report

    @property
    def load_report(self) -> LoadReport:
        """The same as :attr:`info`."""
        return self._opened.report

    @property
    def last_summary(self) -> GenerationSummary | None:
        """The last generation as a whole; ``None`` before the first."""
        running = self._running()
        return running.summary if running is not None else self._last_summary

    @property
    def closed(self) -> bool:
        """Whether the session is closed."""
        return self._closed

    def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        """Token ids of ``text``; names of special tokens in it are read as those tokens."""
        self._check_usable()
        return self._opened.model.vocab.tokenize(text, add_special=add_special)

    def detokenize(self, tokens: Sequence[int]) -> str:
        """Text of ``tokens``, without control tokens."""
        self._check_usable()
        vocab = self._opened.model.vocab
        checked = _token_array(tokens, vocab.n_tokens)
        return b"".join(vocab.piece(int(token)) for token in checked).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """Bytes of one token; of a control token its name."""
        self._check_usable()
        vocab = self._opened.model.vocab
        return vocab.piece(int(_token_array([token], vocab.n_tokens)[0]), special=True)

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        sampling: SamplingConfig | None = None,
        draft: bool = True,
    ) -> Generation:
        """Continue ``prompt``, token by token.

        Args:
            prompt: text, or token ids to be taken as they are.
            max_tokens: how many at most; ``None`` until the model stops or the context is full.
            stop: a string or several that end the generation and are not part of it.
            sampling: instead of the session's.
            draft: ``False`` generates without drafts in a session that speculates; needed to draw
                tokens there, for drafts are only verified against the most likely one.

        Returns:
            An iterator of :class:`TokenEvent`; the last one carries the finish reason. Nothing is
            evaluated before the first is asked for.

        Raises:
            ConfigError: an argument is out of range.
            ContextOverflowError: the prompt does not fit; the session is as it was.
            SessionStateError: closed, forked, or another generation is running.
            StreamReadError: the model's file has changed on disk.
        """
        self._check_usable()
        tokens = self._prompt_tokens(prompt)
        return self._begin(
            tokens,
            len(tokens),
            max_tokens=max_tokens,
            stop=stop,
            sampling=sampling,
            draft=draft,
        )

    def chat(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        sampling: SamplingConfig | None = None,
        enable_thinking: bool = True,
        draft: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
        variables: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        markers: Sequence[str] = (),
    ) -> Generation:
        """Answer a conversation, rendered with the model's own chat template.

        Args:
            messages: ``{"role": "user", "content": "..."}`` and so on, oldest first.
            max_tokens: as in :meth:`generate`.
            stop: as in :meth:`generate`.
            sampling: as in :meth:`generate`.
            draft: as in :meth:`generate`.
            enable_thinking: passed to the template; ``False`` asks a model that reasons aloud
                to answer at once.
            tools: passed to the template: what the model may call. The answer's text says what it
                calls, in the words of the model.
            variables: passed to the template, whatever else it understands.
            add_generation_prompt: passed to the template.
            markers: names of control tokens, such as ``<|channel|>``, that stay in the text.

        Raises:
            ConfigError: the template knows no tools.
            UnsupportedModelError: the model has no chat template.
            ModelError: the template refuses the conversation or is broken.
            MoestreamError: whatever :meth:`generate` raises.
        """
        self._check_usable()

        def render(generate: bool) -> TokenArray:
            text = self.render(
                messages,
                enable_thinking=enable_thinking,
                tools=tools,
                variables=variables,
                add_generation_prompt=generate,
            )
            return np.asarray(self._chat_tokens(text), np.int32)

        prompt = render(add_generation_prompt)
        # What the next turn will begin with, whatever the answer turns out to be.
        stable = common_prefix(prompt, render(False))
        return self._begin(
            prompt,
            stable or len(prompt),
            max_tokens=max_tokens,
            stop=stop,
            sampling=sampling,
            draft=draft,
            markers=markers,
        )

    def render(
        self,
        messages: Sequence[Message],
        *,
        enable_thinking: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
        variables: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The text that :meth:`chat` would continue."""
        return self.chat_template.render(
            messages,
            enable_thinking=enable_thinking,
            tools=tools,
            variables=variables,
            add_generation_prompt=add_generation_prompt,
        )

    @property
    def chat_template(self) -> ChatTemplate:
        """What conversations are rendered with.

        Raises:
            UnsupportedModelError: the model has none.
            ModelError: it is broken.
        """
        self._check_usable()
        if self._template is None:
            vocab = self._opened.model.vocab
            self._template = ChatTemplate(
                self._opened.chat_source,
                bos_token=vocab.text(vocab.bos),
                eos_token=vocab.text(vocab.eos),
            )
        return self._template

    def cancel(self) -> None:
        """End the running generation, from any thread; its last event says ``cancelled``.

        Without a running generation it does nothing.
        """
        if not self._closed:
            self._request_cancel()

    def reset(self) -> None:
        """Forget the conversation; the expert cache stays warm."""
        self._check_usable()
        with self._turn_lock:
            self._check_idle()
            with self._decode_lock:
                self._opened.loop.forget()

    def close(self) -> None:
        """Free everything; a running generation ends first. May be called again."""
        if os.getpid() != self._pid:
            return
        with self._turn_lock:
            self._closed = True
        active = self._running()
        if active is not None:
            self._request_cancel()
            if active.runs_in_this_thread:
                raise SessionStateError(
                    "a session cannot be closed from within its own decode; it is closed to new "
                    "generations now, close it again when this one has returned"
                )
        with self._decode_lock:
            if active is not None:
                active.close()
            self._finalizer()

    def __enter__(self) -> Session:
        """The session itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the session."""
        self.close()

    def __repr__(self) -> str:
        """Model and state."""
        state = "closed" if self._closed else "open"
        return f"<Session {self._opened.report.model!r} {state}>"

    def _begin(
        self,
        tokens: TokenArray | list[int],
        stable: int,
        *,
        max_tokens: int | None,
        stop: str | Sequence[str],
        sampling: SamplingConfig | None,
        draft: bool,
        markers: Sequence[str] = (),
    ) -> Generation:
        whole = isinstance(max_tokens, int) and not isinstance(max_tokens, bool)
        if max_tokens is not None and not (whole and max_tokens >= 1):
            raise ConfigError(
                f"the number of tokens to generate must be 1 or more, got {max_tokens!r}"
            )
        if not isinstance(stop, str) and not all(isinstance(text, str) for text in stop):
            raise ConfigError(f"stop must be a string or several, got {stop!r}")
        sampling = self.config.sampling if sampling is None else sampling
        sampling.validate()
        if draft:
            self.config.check_greedy(sampling)
        prompt = np.asarray(tokens, np.int32)
        limit = self._opened.report.n_ctx
        if len(prompt) >= limit:
            raise ContextOverflowError(
                f"the prompt has {len(prompt)} tokens, and a context of {limit} leaves no room to "
                f"answer; shorten it, or open the session with a context above {len(prompt)}"
            )
        request = TurnRequest(
            prompt=prompt,
            max_tokens=max_tokens,
            stops=(stop,) if isinstance(stop, str) else tuple(stop),
            sampling=sampling,
            stable=stable,
            draft=draft,
            shown=self._shown(markers),
        )
        opened = self._opened
        with self._turn_lock:
            self._check_usable()
            self._check_idle()
            self._files.check()
            turn = Turn(
                opened.loop,
                opened.model.vocab,
                request,
                speculation=self.config.speculation,
                observer=self.logits_observer,
            )
            with self._cancel_lock:
                self._serial += 1
                serial = self._serial
                generation = Generation(
                    turn,
                    self._decode_lock,
                    check=self._check_process,
                    ended=lambda summary: self._end(serial, summary),
                )
                self._cancelled.clear()
                self._active = weakref.ref(generation)
        return generation

    def _end(self, serial: int, summary: GenerationSummary) -> None:
        with self._cancel_lock:
            if self._serial == serial and self._active is not None:
                self._last_summary = summary
                self._active = None

    def _running(self) -> Generation | None:
        active = self._active
        return None if active is None else active()

    def _request_cancel(self) -> None:
        # Flag and store together, and only while a generation runs: a late cancel of the store
        # must not meet the next one.
        with self._cancel_lock:
            if self._active is not None:
                self._cancelled.set()
                self._opened.source.store.cancel()

    def _check_usable(self) -> None:
        self._check_process()
        if self._closed:
            raise SessionStateError("the session is closed; open a new one")

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise SessionStateError(
                "this session was opened before a fork and belongs to the parent process; "
                "open a session of its own in the child"
            )

    def _check_idle(self) -> None:
        if self._active is not None:
            raise SessionStateError(
                "a generation is running in this session; read it to its end, close it or cancel "
                "it, or open another session"
            )

    def _prompt_tokens(self, prompt: str | Sequence[int]) -> TokenArray | list[int]:
        vocab = self._opened.model.vocab
        if not isinstance(prompt, str):
            tokens = _token_array(prompt, vocab.n_tokens)
            if not len(tokens):
                raise ConfigError("the prompt has no tokens")
            return tokens
        found = vocab.tokenize(prompt)
        if found:
            return found
        start = vocab.bos if vocab.bos is not None else vocab.eos
        if start is None:
            raise ConfigError("the prompt is empty, and this model has no token to begin with")
        return [start]

    def _chat_tokens(self, text: str) -> list[int]:
        vocab = self._opened.model.vocab
        begin = vocab.text(vocab.bos)
        # Many templates write the begin token themselves; a second one would be noise.
        add_special = not (begin and text.startswith(begin))
        return vocab.tokenize(text, add_special=add_special)

    def _shown(self, markers: Sequence[str]) -> frozenset[int]:
        """The tokens that the ``markers`` are names of; one that is several tokens is text."""
        vocab = self._opened.model.vocab
        found = (vocab.tokenize(marker, add_special=False) for marker in markers)
        return frozenset(tokens[0] for tokens in found if len(tokens) == 1)


def _take_down(opened: Opened, lock: AbstractContextManager[bool], pid: int) -> None:
    # A forked child has none of the threads and must not touch what the parent uses.
    if os.getpid() == pid:
        opened.source.store.cancel()
        with lock:
            opened.resources.close()


def _token_array(tokens: Sequence[int], n_vocab: int) -> TokenArray:
    wanted = f"token ids must be a flat sequence of integers from 0 to {n_vocab - 1}"
    try:
        array = np.asarray(tokens)
    except (TypeError, ValueError, OverflowError) as err:
        raise ConfigError(f"{wanted}: {err}") from err
    if array.size == 0:
        return np.empty(0, np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ConfigError(wanted)
    if not 0 <= int(array.min()) <= int(array.max()) < n_vocab:
        raise ConfigError(f"{wanted}, got {int(array.min())} to {int(array.max())}")
    return array.astype(np.int32)
