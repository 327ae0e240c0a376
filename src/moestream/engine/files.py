"""Notices that a model's files were changed under an open session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from moestream.errors import StreamReadError

__all__ = ["FileWatch"]


class FileWatch:
    """Remembers size and modification time of files that are read while the session runs.

    A file that was deleted, or replaced by another under its name, is no concern: what is open
    stays what it was.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        """Remember how ``paths`` are now; close it when done."""
        self._known: list[tuple[int, int, int, Path]] = []
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY)
            now = os.fstat(descriptor)
            self._known.append((descriptor, now.st_size, now.st_mtime_ns, path))

    def close(self) -> None:
        """Stop watching."""
        while self._known:
            os.close(self._known.pop()[0])

    def check(self) -> None:
        """Compare with how they are now.

        Raises:
            StreamReadError: a file was changed in place.
        """
        complaint = self.complaint()
        if complaint is not None:
            raise StreamReadError(complaint)

    def complaint(self) -> str | None:
        """What has changed, in words; a system call a file, as it is asked for every token."""
        for descriptor, size, modified, path in self._known:
            now = os.fstat(descriptor)
            if now.st_size != size or now.st_mtime_ns != modified:
                return (
                    f"{path} was changed on disk while the model was open "
                    f"({size} bytes before, {now.st_size} now); open it again"
                )
        return None
