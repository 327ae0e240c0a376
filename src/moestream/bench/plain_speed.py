"""Plain speed by the conventions of llama-bench: ``pp512``, ``tg128``, ``mean ± std``.

``ppN`` evaluates a prompt of N random tokens, ``tgN`` generates N tokens from an empty context.
Each is done once without being counted, then so many times; the deviation is the sample's.
"""

from __future__ import annotations

import csv
import io
import json
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, Final, Literal, Protocol

from moestream.config import EngineConfig
from moestream.engine.events import GenerationSummary, TokenEvent
from moestream.engine.report import LoadReport
from moestream.errors import ConfigError, GenerationError

__all__ = ["FORMATS", "Facts", "Format", "Speed", "counts", "measure_speed", "render", "speeds"]

Format = Literal["md", "csv", "json"]
FORMATS: Final = ("md", "csv", "json")

_SEED: Final = 20
#: A generation may end by itself; so many in a row that make nothing say that it will not work.
_PATIENCE: Final = 64
#: Tokens of context beyond what a test needs.
_SPARE: Final = 16


class _Session(Protocol):
    load_report: LoadReport

    @property
    def last_summary(self) -> GenerationSummary | None: ...

    def reset(self) -> None: ...

    def generate(self, prompt: Sequence[int], *, max_tokens: int) -> Iterator[TokenEvent]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One test of one backend.

    Attributes:
        backend: ``moestream``, or ``llama.cpp`` for the mapped file.
        n_prompt: tokens of the prompt; 0 for a test of generation.
        n_gen: tokens generated; 0 for a test of the prompt.
        seconds: of each repetition.
        load: numbers of the session, as :func:`moestream.telemetry.summary.load_numbers` has them.
        time: UTC, ISO 8601: when it was measured.
    """

    backend: str
    n_prompt: int
    n_gen: int
    seconds: tuple[float, ...]
    load: Mapping[str, Any]
    time: str

    @property
    def test(self) -> str:
        """``pp512`` or ``tg128``."""
        return f"pp{self.n_prompt}" if self.n_prompt else f"tg{self.n_gen}"

    @property
    def rates(self) -> tuple[float, ...]:
        """Tokens a second of each repetition."""
        return tuple((self.n_prompt or self.n_gen) / seconds for seconds in self.seconds)


def counts(text: str, flag: str) -> tuple[int, ...]:
    """Token counts out of ``512`` or ``128,512``; 0 is none.

    Raises:
        ConfigError: it is no such list.
    """
    found = []
    for part in text.split(","):
        if not part.strip().isascii() or not part.strip().isdigit():
            raise ConfigError(
                f"{flag} takes numbers of tokens separated by commas, such as 128,512; got {text!r}"
            )
        found.append(int(part))
    return tuple(dict.fromkeys(count for count in found if count))


def measure_speed(config: EngineConfig, job: Mapping[str, Any]) -> dict[str, Any]:
    """Do the tests in this process; the result is what :func:`speeds` reads."""
    from moestream.telemetry.summary import load_numbers

    prompts, gens, repetitions = job["n_prompt"], job["n_gen"], job["repetitions"]
    if config.n_ctx is None:
        config = replace(config, n_ctx=max([*prompts, *gens]) + _SPARE)
    tests: list[dict[str, Any]] = []
    with _opened(config, job["backend"]) as session:
        tokens = random.Random(_SEED)
        n_vocab = session.load_report.n_vocab

        def some(count: int) -> list[int]:
            return [tokens.randrange(n_vocab) for _ in range(count)]

        for n in prompts:
            seconds = _repeat(partial(_prompt, session, some, n), repetitions)
            tests.append({"n_prompt": n, "n_gen": 0, "seconds": seconds, "time": _now()})
        for n in gens:
            seconds = _repeat(partial(_generate, session, some, n), repetitions)
            tests.append({"n_prompt": 0, "n_gen": n, "seconds": seconds, "time": _now()})
        return {"tests": tests, "load": load_numbers(session.load_report)}


def _opened(config: EngineConfig, backend: str) -> Any:
    if backend == "llama.cpp":
        from moestream.bench.baseline import PlainSession

        return PlainSession(config)
    from moestream.engine.session import Session

    return Session(config)


def _repeat(test: Callable[[], float], repetitions: int) -> list[float]:
    test()
    return [test() for _ in range(repetitions)]


def _prompt(session: _Session, some: Callable[[int], list[int]], count: int) -> float:
    return _answer(session, some(count), 1).prefill_s


def _generate(session: _Session, some: Callable[[int], list[int]], count: int) -> float:
    """Seconds for ``count`` tokens; where the model ends, another beginning goes on."""
    made, seconds, empty = 0, 0.0, 0
    while made < count:
        summary = _answer(session, some(1), count - made + 1)
        made += summary.decoded_tokens
        seconds += summary.decode_s
        empty = 0 if summary.decoded_tokens else empty + 1
        if empty == _PATIENCE:
            raise GenerationError(
                f"the model ended {empty} texts in a row at their first token, so the speed of "
                "generation cannot be measured; give another model"
            )
    return seconds


def _answer(session: _Session, tokens: Sequence[int], count: int) -> GenerationSummary:
    session.reset()
    for _ in session.generate(tokens, max_tokens=count):
        pass
    summary = session.last_summary
    assert summary is not None
    return summary


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def speeds(value: Mapping[str, Any], backend: str) -> list[Speed]:
    """The tests that :func:`measure_speed` did in another process."""
    return [
        Speed(
            backend=backend,
            n_prompt=test["n_prompt"],
            n_gen=test["n_gen"],
            seconds=tuple(test["seconds"]),
            load=value["load"],
            time=test["time"],
        )
        for test in value["tests"]
    ]


# ---- what it looks like --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a table says of the model: its name, bytes in all files, and parameters."""

    file: str
    kind: str
    size: int
    parameters: int


def render(form: Format, tests: Sequence[Speed], facts: Facts) -> str:
    """The tests as a Markdown table, as CSV with a header, or as a JSON array."""
    if form == "md":
        return _markdown(tests, facts)
    rows = [_row(test, facts) for test in tests]
    if form == "json":
        return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
    text = io.StringIO()
    names = [name for name in rows[0] if not name.startswith("samples_")]
    writer = csv.DictWriter(text, names, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: "" if row[name] is None else row[name] for name in names})
    return text.getvalue()


def _row(test: Speed, facts: Facts) -> dict[str, Any]:
    """Under the names that llama-bench has for them, and ours behind."""
    nanoseconds = [round(1e9 * seconds) for seconds in test.seconds]
    load = test.load
    streamed = bool(load["moe_stream"])
    return {
        "backends": test.backend,
        "model_filename": facts.file,
        "model_type": facts.kind,
        "model_size": facts.size,
        "model_n_params": facts.parameters,
        "n_ubatch": load["n_ubatch"],
        "n_threads": load["threads"],
        "n_prompt": test.n_prompt,
        "n_gen": test.n_gen,
        "test_time": test.time,
        "avg_ns": round(statistics.mean(nanoseconds)),
        "stddev_ns": round(_deviation(nanoseconds)),
        "avg_ts": statistics.mean(test.rates),
        "stddev_ts": _deviation(test.rates),
        "samples_ns": nanoseconds,
        "samples_ts": list(test.rates),
        "moe_stream": streamed,
        "cache_mib": load["cache_bytes"] / 2**20 if streamed else None,
        "io_threads": load["io_threads"] if streamed else None,
        "overlap": load["overlap"] if streamed else None,
    }


def _markdown(tests: Sequence[Speed], facts: Facts) -> str:
    header = ("model", "size", "params", "backend", "threads", "cache", "test", "t/s")
    rows = [
        (
            " ".join(facts.kind.split()).replace("|", "\\|"),
            f"{facts.size / 2**30:.2f} GiB" if facts.size >= 2**30
            else f"{facts.size / 2**20:.2f} MiB",
            f"{facts.parameters / 1e9:.2f} B" if facts.parameters >= 1e9
            else f"{facts.parameters / 1e6:.2f} M",
            test.backend,
            str(test.load["threads"]),
            f"{test.load['cache_bytes'] / 2**20:.0f} MiB" if test.load["moe_stream"] else "",
            test.test,
            f"{statistics.mean(test.rates):.2f} ± {_deviation(test.rates):.2f}",
        )
        for test in tests
    ]  # fmt: skip
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    left = (0, 3)

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    ruler = "|".join(
        f" {'-' * width} " if i in left else f" {'-' * (width - 1)}: "
        for i, width in enumerate(widths)
    )
    return "\n".join([line(header), f"|{ruler}|", *map(line, rows)]) + "\n"


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0
