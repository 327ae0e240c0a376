"""The directory that a server keeps everything in; one server at a time."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from moestream.errors import ConfigError
from moestream.server.store.database import Database

__all__ = ["DataDir"]

_DATABASE = "moestream.db"
_RUNS = "runs"


class DataDir:
    """An opened data directory: its database, and the folder of recorded runs.

    Attributes:
        path: the directory.
        database: conversations, settings, pulls, names of runs.
        runs: folder of the recorded CSV files.
    """

    def __init__(self, path: Path) -> None:
        """Make the directory if it is not there, and open what is in it.

        Raises:
            ConfigError: it cannot be used, or another server uses it.
            StoreError: the database cannot be used; the message says why.
        """
        self.path = path.expanduser().absolute()
        self.runs = self.path / _RUNS
        try:
            # Conversations are nobody else's business.
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.runs.mkdir(mode=0o700, exist_ok=True)
            _try_to_write(self.runs)
        except OSError as error:
            raise ConfigError(
                f"the data directory {self.path} cannot be used: {error.strerror or error}; "
                "give another one with --data-dir"
            ) from error
        # Whichever thread closes it.
        self._lock = FileLock(str(self.path / ".lock"), timeout=0, thread_local=False)
        try:
            self._lock.acquire()
        except Timeout:
            raise ConfigError(
                f"another moestream server uses the data directory {self.path}; "
                "stop it, or give this one its own with --data-dir"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"the data directory {self.path} cannot be locked: {error.strerror or error}; "
                "give one on a local disk with --data-dir"
            ) from error
        try:
            self.database = Database(self.path / _DATABASE)
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Close the database and let others in. May be called again."""
        self.database.close()
        self._lock.release()

    def __enter__(self) -> DataDir:
        """The directory itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


def _try_to_write(folder: Path) -> None:
    """Find out now, and not at the first conversation, that nothing can be written here."""
    probe = folder / f".probe-{os.getpid()}"
    probe.write_bytes(b"")
    probe.unlink()
