"""``OWNER/NAME[:QUANT]``: which files of a repository make up the model that is meant (pure)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from moestream.errors import DownloadError

__all__ = ["Candidate", "Reference", "RepoFile", "candidates", "choose", "parse_reference"]

_REFERENCE = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?::(?P<quant>[\w./-]+))?", re.ASCII
)
_SHARD = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})$")
_QUANT = re.compile(
    r"(?:^|(?<=[-._]))"
    r"(?:UD-)?(?:I?Q\d+(?:_[0-9A-Z]+)*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32)"
    r"(?=$|[-.])",
    re.IGNORECASE,
)
#: Files in GGUF format that are not language models: image projectors, importance matrices.
_COMPANION = re.compile(r"(?:^|[-_.])(?:mmproj|imatrix)(?:$|[-_.])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reference:
    """A repository and, if given, the quantisation (or file) in it."""

    repo: str
    quant: str | None = None

    def __str__(self) -> str:
        return self.repo if self.quant is None else f"{self.repo}:{self.quant}"


@dataclass(frozen=True, slots=True)
class RepoFile:
    """A file of a repository; ``name`` is its path there, ``size`` is in bytes."""

    name: str
    size: int
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One model in a repository: a file, or all shards of a split one, in order."""

    label: str
    stem: str
    files: tuple[RepoFile, ...]
    missing: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def parse_reference(text: str) -> Reference | None:
    """``text`` as a reference, or ``None`` if it cannot be one (a path, say)."""
    match = _REFERENCE.fullmatch(text)
    if match is None or match["repo"].lower().endswith(".gguf") or ".." in text:
        return None
    return Reference(match["repo"], match["quant"])


def candidates(files: Iterable[RepoFile]) -> tuple[Candidate, ...]:
    """The models among ``files``, smallest first; shards are brought together."""
    groups: dict[str, list[tuple[int, int, RepoFile]]] = {}
    for file in files:
        path = PurePosixPath(file.name)
        if path.suffix.lower() != ".gguf" or _COMPANION.search(path.stem):
            continue
        stem, number, count = str(path.with_suffix("")), 1, 1
        if match := _SHARD.match(stem):
            stem, number, count = match["stem"], int(match["number"]), int(match["count"])
            stem = f"{stem}-of-{count}" if stem in groups and groups[stem][0][1] != count else stem
        groups.setdefault(stem, []).append((number, count, file))
    labels = {stem: _label(stem) for stem in groups}
    uses = Counter(labels.values())
    found = []
    for stem, shards in groups.items():
        shards.sort(key=lambda shard: shard[0])
        present = {number for number, _count, _file in shards}
        found.append(
            Candidate(
                label=labels[stem] if uses[labels[stem]] == 1 else stem,
                stem=stem,
                files=tuple(file for _number, _count, file in shards),
                missing=tuple(n for n in range(1, shards[0][1] + 1) if n not in present),
            )
        )
    return tuple(sorted(found, key=lambda candidate: (candidate.size, candidate.label)))


def _label(stem: str) -> str:
    name = PurePosixPath(stem).name
    matches = list(_QUANT.finditer(name))
    return matches[-1].group().upper() if matches else name


def choose(found: Sequence[Candidate], reference: Reference) -> Candidate:
    """The one candidate that ``reference`` means; ``DownloadError`` says what there is."""
    if not found:
        raise DownloadError(f"{reference.repo} holds no GGUF model")
    if reference.quant is None:
        matches = list(found)
    else:
        matches = _matching(found, reference.quant.casefold())
        if not matches:
            raise DownloadError(
                f"{reference.repo} has no {reference.quant}; there is {_listing(found)}"
            )
    if len(matches) > 1:
        what = "several models" if reference.quant is None else f"several {reference.quant}"
        raise DownloadError(
            f"{reference.repo} holds {what}: {_listing(matches)}; "
            f"name one, as in {reference.repo}:{matches[0].label}"
        )
    (match,) = matches
    if match.missing:
        numbers = ", ".join(map(str, match.missing))
        raise DownloadError(
            f"{reference.repo}: {match.label} is incomplete: shard {numbers} of "
            f"{len(match.files) + len(match.missing)} is missing"
        )
    return match


def _matching(found: Sequence[Candidate], wanted: str) -> list[Candidate]:
    """Candidates that ``wanted`` (case-folded) names, by the strictest reading that fits any."""
    readings = (
        lambda c: c.label.casefold() == wanted,
        lambda c: wanted in {name.casefold() for name in _names(c)},
        lambda c: c.label.casefold().removeprefix("ud-") == wanted,
        lambda c: wanted in re.split(r"[-./]", c.stem.casefold()),
    )
    for reading in readings:
        if matches := [candidate for candidate in found if reading(candidate)]:
            return matches
    return []


def _names(candidate: Candidate) -> set[str]:
    path = PurePosixPath(candidate.stem)
    files = {file.name for file in candidate.files}
    return {candidate.stem, path.name} | files | {PurePosixPath(name).name for name in files}


def _listing(found: Sequence[Candidate], most: int = 12) -> str:
    shown = [f"{candidate.label} ({candidate.size / 2**30:.1f} GiB)" for candidate in found[:most]]
    more = [f"and {len(found) - most} more"] if len(found) > most else []
    return ", ".join([*shown, *more])
