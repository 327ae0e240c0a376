"""Workloads: what a model is asked to go on with while it is measured.

Speculation lives from text that repeats itself, so one workload is not enough: ``prose`` is a story
that goes where it likes, ``copy`` has a source file in the prompt and begins to repeat it with
comments. Both stop in mid-sentence, so that a model without a chat template goes on as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from moestream.errors import ConfigError

__all__ = ["BUILT_IN", "Workload", "load_workloads"]

#: Workloads that come with the package.
BUILT_IN: Final = ("prose", "copy")

_LONGEST_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Workload:
    """A prompt with a name.

    Attributes:
        name: what it is called in tables.
        prompt: the text to go on with.
    """

    name: str
    prompt: str

    @property
    def digest(self) -> str:
        """Short fingerprint of the prompt: equal names need not mean equal texts."""
        return hashlib.sha256(self.prompt.encode()).hexdigest()[:12]


def load_workloads(names: Iterable[str]) -> tuple[Workload, ...]:
    """The workloads of that name; what is no built-in one is the path of a text file.

    Raises:
        ConfigError: a file cannot be read, is empty or no UTF-8, or a name is there twice.
    """
    found: dict[str, Workload] = {}
    for name in names:
        workload = _load(name.strip())
        if workload.name in found:
            raise ConfigError(
                f"workload {workload.name!r} is there twice; "
                "drop one, or give its file another name"
            )
        found[workload.name] = workload
    if not found:
        raise ConfigError(f"no workload given; write {', '.join(BUILT_IN)}, or a text file")
    return tuple(found.values())


def _load(name: str) -> Workload:
    if name in BUILT_IN:
        file = resources.files("moestream.bench") / "data" / f"{name}.txt"
        return Workload(name, file.read_text(encoding="utf-8"))
    path = Path(name)
    hint = f"write {' or '.join(BUILT_IN)}, or the path of a text file"
    try:
        with path.open("rb") as file_:
            raw = file_.read(_LONGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"workload {name!r} cannot be read ({error}); {hint}") from error
    if len(raw) > _LONGEST_BYTES:
        raise ConfigError(f"workload {name!r} is longer than {_LONGEST_BYTES} bytes; shorten it")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"workload {name!r} is no UTF-8 text ({error}); {hint}") from error
    if not text.strip():
        raise ConfigError(f"workload {name!r} is empty; a prompt needs some text")
    return Workload(path.stem, text)
