"""One file of a hub repository into the shared cache, resumable across processes.

``hf_hub_download`` throws an interrupted file away. Here the bytes are kept in a partial blob that
the next attempt goes on from; once complete, the blob lies where the client looks for it, and the
client itself then only makes the snapshot entry.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moestream.errors import DownloadError
from moestream.models.reference import RepoFile

__all__ = ["discard_partial", "download_file", "partial_size", "repo_folder"]

#: The hub serves larger files only in its own chunked protocol, which its client speaks.
_MAX_PLAIN_SIZE = 50 * 10**9
_HASH_CHUNK = 4 * 2**20


def repo_folder(cache_dir: Path, repo: str) -> Path:
    """The folder of a model repository in the shared cache."""
    return cache_dir / ("models--" + repo.replace("/", "--"))


def partial_size(cache_dir: Path, repo: str, file: RepoFile) -> int:
    """Bytes of an interrupted download of ``file`` that the next one goes on from."""
    if file.digest is None:
        return 0
    try:
        blob = repo_folder(cache_dir, repo) / "blobs" / file.digest
        return min(_partial_path(blob).stat().st_size, file.size)
    except OSError:
        return 0


def discard_partial(cache_dir: Path, repo: str, file: RepoFile) -> None:
    """Delete what an interrupted download of ``file`` has left; nothing happens if there is none.

    Raises:
        DownloadError: another process is pulling it.
    """
    if file.digest is not None:
        blob = repo_folder(cache_dir, repo) / "blobs" / file.digest
        partial = _partial_path(blob)
        if partial.exists():
            with _only_one(cache_dir, blob, file):
                partial.unlink(missing_ok=True)


def download_file(
    hub: Any,
    *,
    repo: str,
    commit: str,
    file: RepoFile,
    cache_dir: Path,
    add: Callable[[int], None],
) -> Path:
    """Fetch ``file`` at ``commit``; returns its path in the cache.

    Args:
        hub: the ``huggingface_hub`` module.
        add: called with the number of bytes of each piece, a resumed part first.
    """
    bar = _bar_class(add)
    if file.digest is not None and file.size <= _MAX_PLAIN_SIZE:
        url = hub.hf_hub_url(repo, file.name, revision=commit)
        blob = repo_folder(cache_dir, repo) / "blobs" / file.digest
        if not blob.exists():
            with _only_one(cache_dir, blob, file):
                _complete_blob(url, hub.utils.build_hf_headers(), blob, file, bar)
    return Path(hub.hf_hub_download(repo, file.name, revision=commit, tqdm_class=bar))


def _complete_blob(
    url: str, headers: dict[str, str], blob: Path, file: RepoFile, bar: type[Any]
) -> None:
    from huggingface_hub.file_download import http_get

    blob.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial_path(blob)
    if partial.exists() and partial.stat().st_size > file.size:
        partial.unlink()
    with partial.open("ab") as sink:
        start = sink.tell()
        if start < file.size:
            http_get(
                url,
                sink,
                resume_size=start,
                headers=headers,
                expected_size=file.size,
                displayed_filename=file.name,
                tqdm_class=bar,
            )
        else:
            bar(initial=start)
    if start and _sha256(partial) != file.digest:
        partial.unlink()
        raise DownloadError(
            f"{file.name} is damaged: its parts do not match its checksum, so they were deleted; "
            "pull again"
        )
    os.replace(partial, blob)


def _partial_path(blob: Path) -> Path:
    return blob.with_name(f"{blob.name}.incomplete")


@contextmanager
def _only_one(cache_dir: Path, blob: Path, file: RepoFile) -> Iterator[None]:
    """Two processes must not write the same partial blob."""
    from filelock import FileLock, Timeout

    path = cache_dir / ".locks" / blob.parent.parent.name / f"{blob.name}.partial.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(str(path), timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise DownloadError(f"{file.name} is being pulled by another process") from error
    try:
        yield
    finally:
        lock.release()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while chunk := source.read(_HASH_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _bar_class(add: Callable[[int], None]) -> type[Any]:
    """A class with as much of tqdm's interface as the hub's client uses."""

    class Bar:
        def __init__(self, *_: object, initial: int | None = 0, **__: object) -> None:
            add(int(initial or 0))

        def update(self, count: float | None = 1) -> None:
            add(int(count or 0))

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __getattr__(self, _name: str) -> Callable[..., None]:
            return lambda *_, **__: None

    return Bar
