"""What to call runs that are shown together: what differs between them, and who drafted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from moestream.telemetry.run_series import RunSeries

__all__ = ["draft_source", "run_labels", "settings_line"]

#: Settings that may tell runs apart, in the order in which they are named, and how.
_NAMES: Final[Mapping[str, str]] = {
    "model": "{}",
    "moe_stream": "streamed {}",
    "cache_mb": "cache {} MiB",
    "n_expert_used": "{} experts used",
    "drop_cold_frac": "drop {}",
    "drop_in_prefill": "drop in prefill {}",
    "mtp_p_min": "p-min {}",
    "ngram_min_match": "min match {}",
    "ngram_max_match": "max match {}",
    "threads": "{} threads",
    "io_threads": "{} lanes",
    "overlap": "overlap {}",
    "prefetch": "prefetch {}",
    "o_direct": "direct I/O {}",
    "dense_weights": "dense {}",
    "repack": "repack {}",
    "mover": "{}",
    "n_ctx": "context {}",
    "n_ubatch": "ubatch {}",
    "temp": "temp {}",
    "top_k": "top-k {}",
    "top_p": "top-p {}",
    "min_p": "min-p {}",
    "repeat_penalty": "penalty {}",
    "seed": "seed {}",
    "model_file": "{}",
    "arch": "{}",
    "engine_version": "moestream {}",
    "llama_cpp_python": "llama-cpp-python {}",
}
_FLAGS: Final = (
    "moe_stream", "overlap", "o_direct", "repack", "drop_in_prefill",
)  # fmt: skip
#: Named for a single run.
_SETTINGS: Final = (
    "cache_mb", "drop_cold_frac", "mtp_p_min", "ngram_min_match", "threads", "io_threads",
    "overlap", "prefetch", "dense_weights", "temp",
)  # fmt: skip
_OFF: Final = ("0", "")
_MOST_PARTS: Final = 4


def draft_source(series: RunSeries) -> str:
    """Who drafted, and how many tokens at most: the one thing that every label says."""
    preamble = series.run.preamble
    source = preamble.get("spec") or ("drafted" if series.speculated else "off")
    off = source in ("off", "none")
    words = ["spec off"] if off else [source, preamble.get("spec_draft_max", ""), _forced(preamble)]
    return " ".join(word for word in [*words, _traced(preamble)] if word)


def _forced(preamble: Mapping[str, str]) -> str:
    share = _short(preamble.get("synthetic_acceptance", ""))
    return f"(acceptance forced to {share})" if share else ""


def _traced(preamble: Mapping[str, str]) -> str:
    return "(traced)" if preamble.get("traced") == "1" else ""


def run_labels(runs: Sequence[RunSeries]) -> list[str]:
    """Short labels, all different: the draft source, and whatever else the preambles differ in."""
    preambles = [series.run.preamble for series in runs]
    differing = [
        key
        for key in _NAMES
        if len({_short(p[key]) for p in preambles if p.get(key, "") != ""}) > 1
    ]
    labels = []
    for series, preamble in zip(runs, preambles, strict=True):
        named = [_named(key, preamble) for key in differing]
        parts = [draft_source(series), *[part for part in named if part][:_MOST_PARTS]]
        labels.append(", ".join(parts))
    if len(set(labels)) < len(labels):
        times = Counter(labels)
        stems = [series.run.path.stem for series in runs]
        labels = [
            f"{label} ({stem})" if times[label] > 1 else label
            for label, stem in zip(labels, stems, strict=True)
        ]
    if len(set(labels)) < len(labels):
        labels = [f"{label} #{i}" for i, label in enumerate(labels, 1)]
    return labels


def settings_line(series: RunSeries) -> str:
    """The settings of one run that decide its speed."""
    preamble = series.run.preamble
    named = [
        _named(key, preamble) for key in _SETTINGS if _short(preamble.get(key, "")) not in _OFF
    ]
    return " · ".join([draft_source(series), *[part for part in named if part]])


def _named(key: str, preamble: Mapping[str, str]) -> str:
    value = _short(preamble.get(key, ""))
    if value == "":
        return ""
    if key in _FLAGS:
        value = {"0": "off", "1": "on"}.get(value, value)
    if key == "cache_mb" and preamble.get("cache_auto") == "1":
        value = f"auto {value}"
    if key == "cache_mb" and value == "0":
        return "no cache"
    name = _NAMES[key].format(value)
    return name.removesuffix("s") if value == "1" and name.startswith("1 ") else name


def _short(value: str) -> str:
    """A number without digits that say nothing; anything else as it is."""
    try:
        number = float(value)
    except ValueError:
        return value
    return f"{number:g}" if abs(number) < 1e5 else f"{number:.0f}"
