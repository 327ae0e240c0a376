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
        """Remember how ``paths`` are now."""
        self._known = {path: os.stat(path) for path in paths}

    def check(self) -> None:
        """Compare with how they are now.

        Raises:
            StreamReadError: a file was changed in place.
        """
        complaint = self.complaint()
        if complaint is not None:
            raise StreamReadError(complaint)

    def complaint(self) -> str | None:
        """What has changed, in words; a few microseconds a file."""
        for path, known in self._known.items():
            try:
                now = os.stat(path)
            except OSError:
                continue
            if (now.st_dev, now.st_ino) != (known.st_dev, known.st_ino):
                continue
            if now.st_size != known.st_size or now.st_mtime_ns != known.st_mtime_ns:
                return (
                    f"{path} was changed on disk while the model was open "
                    f"({known.st_size} bytes before, {now.st_size} now); open it again"
                )
        return None
