"""The models that the server may open: embedded, given at the start, in model folders, pulled.

Only what is listed here is ever opened or looked into, whatever a request names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from moestream.config import EMBEDDED_MODEL
from moestream.errors import ModelError
from moestream.models.nano import embedded_model_path
from moestream.models.pull import cached_references, find_cached
from moestream.models.reference import RepoFile, candidates, parse_reference

__all__ = ["Catalog", "ListedModel", "UnlistedModelError"]

Source = Literal["embedded", "file", "hub cache"]

#: How deep a folder of models is searched, and how many entries of it are looked at.
_DEPTH: Final = 3
_MOST_ENTRIES: Final = 20_000


class UnlistedModelError(ModelError):
    """The server has no such model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """A model that can be loaded.

    Attributes:
        reference: what to call it in requests.
        path: its file; of a split one the first shard.
        size_bytes: of all shards.
        quant: its quantisation, if its name says so.
        problem: why it cannot be loaded; ``None`` if nothing speaks against it.
    """

    reference: str
    name: str
    path: Path
    size_bytes: int
    quant: str | None
    source: Source
    problem: str | None = None


class Catalog:
    """Looks for models anew each time it is asked: files come and go."""

    def __init__(self, folders: Sequence[Path], given: str | Path) -> None:
        """Look in ``folders`` and in the hub's cache.

        Args:
            folders: of models; missing ones are taken for empty.
            given: the model from the command line, wherever it lies.
        """
        self._folders = [folder.expanduser().absolute() for folder in folders]
        self._given = given

    def all(self) -> list[ListedModel]:
        """Every model, each once."""
        found: dict[Path, ListedModel] = {}
        for model in self._found():
            found.setdefault(model.path.resolve(), model)
        return list(found.values())

    def resolve(self, name: str) -> ListedModel:
        """The listed model that ``name`` means: a reference, a path, or a file's name if only one
        has it.

        Raises:
            UnlistedModelError: there is none, or it is incomplete.
        """
        models = self.all()
        matches = [m for m in models if name in (m.reference, str(m.path))]
        if not matches:
            matches = [m for m in models if name in (m.name, m.path.name)]
        if len(matches) != 1:
            raise UnlistedModelError(_which(name, matches))
        if matches[0].problem is not None:
            raise UnlistedModelError(f"{name} cannot be used: {matches[0].problem}")
        return matches[0]

    def _found(self) -> Iterator[ListedModel]:
        yield _file(embedded_model_path(), EMBEDDED_MODEL, "embedded")
        if str(self._given) != EMBEDDED_MODEL:
            path = Path(self._given).expanduser().absolute()
            if path.is_file():
                yield from _in_folder(path.parent, only=path)
        for folder in self._folders:
            for part in _folders_below(folder):
                yield from _in_folder(part)
        yield from _pulled()


def _pulled() -> Iterator[ListedModel]:
    for reference in cached_references():
        parsed = parse_reference(reference)
        path = None
        if parsed is not None:
            try:
                path = find_cached(parsed)
            except ModelError:
                continue  # several of one label: the list of files above has them, if anything
        if path is not None:
            quant = reference.rpartition(":")[2]
            size = sum(model.size_bytes for model in _in_folder(path.parent, only=path))
            yield ListedModel(
                reference=reference, name=reference.rpartition("/")[2], path=path,
                size_bytes=size, quant=quant, source="hub cache",
            )  # fmt: skip


def _in_folder(folder: Path, only: Path | None = None) -> Iterator[ListedModel]:
    files = []
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False):
                if entry.name.lower().endswith(".gguf") and entry.is_file():
                    files.append(RepoFile(entry.name, entry.stat().st_size))
    except OSError:
        return
    for candidate in candidates(files):
        first = folder / candidate.files[0].name
        if only is not None and first.name != only.name:
            continue
        shards = ", ".join(map(str, candidate.missing))
        quant = candidate.label if candidate.label != candidate.stem else None
        yield ListedModel(
            reference=str(first), name=candidate.stem, path=first, size_bytes=candidate.size,
            quant=quant, source="file",
            problem=f"shard {shards} is missing beside it" if shards else None,
        )  # fmt: skip


def _folders_below(folder: Path) -> Iterator[Path]:
    """``folder`` and those in it, not deeper than is sensible."""
    top = len(folder.parts)
    seen = 0
    for root, folders, _files in os.walk(folder):
        yield Path(root)
        seen += 1 + len(folders)
        if len(Path(root).parts) - top >= _DEPTH or seen > _MOST_ENTRIES:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def _file(path: Path, name: str, source: Source) -> ListedModel:
    return ListedModel(
        reference=name, name=name, path=path, size_bytes=path.stat().st_size, quant=None,
        source=source,
    )  # fmt: skip


def _which(name: str, matches: Sequence[ListedModel]) -> str:
    if matches:
        names = ", ".join(model.reference for model in matches)
        return f"{name} may be any of {names}; name one of them"
    return (
        f"the server has no model {name!r}; choose one of its list, put the file into one of its "
        "model folders (--models-dir), or pull it first"
    )
