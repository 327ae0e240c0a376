"""Models from a hub: find the files, fetch what is missing, find it again without network.

Everything goes through ``huggingface_hub`` and its cache, so its environment (token, endpoint,
offline mode, cache directory) means what it means everywhere. The package is imported only when
something is fetched or looked up there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moestream.errors import DownloadError
from moestream.models.download import download_file, partial_size, repo_folder
from moestream.models.reference import (
    Candidate,
    Reference,
    RepoFile,
    candidates,
    choose,
)

__all__ = ["PullPlan", "cached_references", "fetch", "find_cached", "plan_pull"]

#: Free space to leave on the disk beside the download itself.
_SPACE_MARGIN = 256 * 2**20

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What a pull will fetch, decided before the first byte."""

    reference: Reference
    commit: str
    label: str
    files: tuple[RepoFile, ...]
    cached: frozenset[str]
    cache_dir: Path
    bytes_total: int
    bytes_cached: int
    bytes_partial: int

    @property
    def bytes_to_fetch(self) -> int:
        """Bytes that have to come over the network."""
        return self.bytes_total - self.bytes_cached - self.bytes_partial


def plan_pull(reference: Reference, *, revision: str | None = None) -> PullPlan:
    """List the repository, pick the files and check the disk space.

    Raises:
        DownloadError: the repository cannot be reached or read, holds no such model, or the
            model does not fit on the disk.
    """
    hub = _hub()
    commit, files = _list_repo(hub, reference, revision)
    candidate = choose(candidates(files), reference)
    cache_dir = _cache_dir()
    cached = frozenset(
        file.name for file in candidate.files if _cached_path(hub, reference, file, commit)
    )
    partial = sum(
        partial_size(cache_dir, reference.repo, file)
        for file in candidate.files
        if file.name not in cached
    )
    plan = PullPlan(
        reference=reference,
        commit=commit,
        label=candidate.label,
        files=candidate.files,
        cached=cached,
        cache_dir=cache_dir,
        bytes_total=candidate.size,
        bytes_cached=sum(file.size for file in candidate.files if file.name in cached),
        bytes_partial=partial,
    )
    _check_space(plan)
    return plan


def fetch(plan: PullPlan, progress: Progress | None = None) -> Path:
    """Fetch what is missing; returns the path of the model (its first shard).

    An interrupted fetch goes on where it stopped when it is called again.

    Args:
        progress: called with the bytes done so far, cached ones included.
    """
    hub = _hub()
    report = progress or (lambda _done: None)
    paths: list[Path] = []
    done = 0

    def add(count: int) -> None:
        nonlocal done
        done += count
        report(done)

    for file in plan.files:
        if (path := _cached_path(hub, plan.reference, file, plan.commit)) is None:
            with _hub_errors(f"could not fetch {file.name} of {plan.reference.repo}"):
                path = download_file(
                    hub,
                    repo=plan.reference.repo,
                    commit=plan.commit,
                    file=file,
                    cache_dir=plan.cache_dir,
                    add=add,
                )
        size = path.stat().st_size
        if size != file.size:
            raise DownloadError(
                f"{path} has {size} bytes instead of {file.size}: delete it and pull again"
            )
        paths.append(path)
        done = sum(file.size for file in plan.files[: len(paths)])
        report(done)
    return paths[0]


def find_cached(reference: Reference) -> Path | None:
    """The model of an earlier pull, without network; ``None`` if there is none.

    Raises:
        DownloadError: more than one model of the repository is there, and the reference does not
            say which.
    """
    ambiguous: DownloadError | None = None
    for snapshot in _snapshots(_cache_dir(), reference.repo):
        found = [c for c in candidates(_local_files(snapshot)) if not c.missing]
        if not found:
            continue
        try:
            return snapshot / choose(found, reference).files[0].name
        except DownloadError as error:
            ambiguous = ambiguous or error
    if ambiguous is not None and reference.quant is None:
        raise ambiguous
    return None


def cached_references() -> list[str]:
    """``REPO:QUANT`` of every complete model in the cache."""
    try:
        cache_dir = _cache_dir()
        folders = sorted(cache_dir.glob("models--*--*"))
    except (DownloadError, OSError):
        return []
    names: set[str] = set()
    for folder in folders:
        repo = folder.name.removeprefix("models--").replace("--", "/", 1)
        for snapshot in _snapshots(cache_dir, repo):
            found: tuple[Candidate, ...] = candidates(_local_files(snapshot))
            names.update(f"{repo}:{c.label}" for c in found if not c.missing)
    return sorted(names)


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:  # pragma: no cover - a dependency of the package
        raise DownloadError("huggingface_hub is not installed: pip install huggingface_hub") from (
            error
        )
    return huggingface_hub


def _cache_dir() -> Path:
    _hub()
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _snapshots(cache_dir: Path, repo: str) -> Iterator[Path]:
    """Snapshots of ``repo`` in the cache: what ``main`` points to first, then newest first."""
    folder = repo_folder(cache_dir, repo)
    try:
        found = sorted(
            (path for path in (folder / "snapshots").iterdir() if path.is_dir()),
            key=lambda path: path.stat().st_mtime,
            reverse=True,
        )
    except OSError:
        return
    try:
        main = (folder / "refs" / "main").read_text().strip()
    except (OSError, UnicodeDecodeError):
        main = ""
    yield from sorted(found, key=lambda path: path.name != main)


def _local_files(snapshot: Path) -> Iterator[RepoFile]:
    for path in sorted(snapshot.rglob("*.gguf")):
        try:
            yield RepoFile(path.relative_to(snapshot).as_posix(), path.stat().st_size)
        except OSError:
            continue  # a dangling link: the blob was deleted


def _list_repo(
    hub: Any, reference: Reference, revision: str | None
) -> tuple[str, tuple[RepoFile, ...]]:
    with _hub_errors(f"could not list {reference.repo}"):
        info = hub.HfApi().model_info(reference.repo, revision=revision, files_metadata=True)
    files = tuple(
        RepoFile(
            name=sibling.rfilename,
            size=int(sibling.size or 0),
            digest=getattr(sibling.lfs, "sha256", None) if sibling.lfs else None,
        )
        for sibling in info.siblings or ()
    )
    return str(info.sha), files


def _cached_path(hub: Any, reference: Reference, file: RepoFile, commit: str) -> Path | None:
    path = hub.try_to_load_from_cache(reference.repo, file.name, revision=commit)
    return Path(path) if isinstance(path, str) and Path(path).is_file() else None


def _check_space(plan: PullPlan) -> None:
    folder = plan.cache_dir
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if plan.bytes_to_fetch and plan.bytes_to_fetch + _SPACE_MARGIN > free:
        raise DownloadError(
            f"{plan.reference.repo}:{plan.label} needs {plan.bytes_to_fetch / 2**30:.1f} GiB and "
            f"{free / 2**30:.1f} GiB are free in {plan.cache_dir}: make room, or set HF_HOME to a "
            "larger disk"
        )


@contextmanager
def _hub_errors(doing: str) -> Iterator[None]:
    """Turns what the hub's client raises into ``DownloadError``; interrupts pass."""
    try:
        yield
    except DownloadError:
        raise
    except Exception as error:
        raise DownloadError(f"{doing}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return "access is restricted: accept its terms on the hub's page, and set HF_TOKEN"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "no such repository (or a private one: set HF_TOKEN)"
    if isinstance(error, errors.RevisionNotFoundError):
        return "no such revision"
    if isinstance(error, errors.OfflineModeIsEnabled) or os.environ.get("HF_HUB_OFFLINE") == "1":
        return "offline mode is on (HF_HUB_OFFLINE)"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
