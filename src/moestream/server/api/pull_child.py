"""Fetches one model in a process of its own: ``python -m moestream.server.api.pull_child REF``.

Says what it does as lines of JSON on stdout. It goes on until it is done, or until its stdin ends:
whoever started it cancels it that way, and takes it along when he dies. What was fetched so far
stays, and the next one goes on from there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from moestream.errors import ConfigError, MoestreamError
from moestream.models.pull import fetch, plan_pull
from moestream.models.reference import parse_reference

__all__ = ["main"]

#: Bytes that the hub's client takes at a time. Its own are too many to see progress on a slow line.
_PIECE: Final = 1 << 18
_BETWEEN_LINES_S: Final = 0.2
_PATIENCE_S: Final = 5.0
_INTERRUPTED: Final = 130


def main(reference: str) -> int:
    """Fetch the model; returns the exit code."""
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        _small_pieces()
        path = _pull(reference)
    except (MoestreamError, OSError) as error:
        _say(error=str(error))
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    _say(path=str(path))
    return 0


def _pull(reference: str) -> Path:
    parsed = parse_reference(reference)
    if parsed is None:
        raise ConfigError(f"{reference!r} is not of the form OWNER/NAME[:QUANT]")
    plan = plan_pull(parsed)
    done = plan.bytes_cached + plan.bytes_partial
    files = [[file.name, file.size, file.digest] for file in plan.files]
    _say(files=files, total=plan.bytes_total, done=done)
    with _telling(done) as progress:
        path = fetch(plan, progress)
    _say(done=plan.bytes_total)
    return path


@contextmanager
def _telling(done: int) -> Iterator[Callable[[int], None]]:
    """Tells how far it has come, a few times a second, also while nothing more arrives."""
    ended = threading.Event()
    now = done

    def progress(count: int) -> None:
        nonlocal now
        now = count

    def tell() -> None:
        told = done
        while not ended.wait(_BETWEEN_LINES_S):
            if now != told:
                told = now
                _say(done=told)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield progress
    finally:
        ended.set()
        teller.join()


def _small_pieces() -> None:
    from huggingface_hub import constants

    if hasattr(constants, "DOWNLOAD_CHUNK_SIZE"):
        constants.DOWNLOAD_CHUNK_SIZE = min(constants.DOWNLOAD_CHUNK_SIZE, _PIECE)


def _follow_parent() -> None:
    # Not through sys.stdin: a thread that holds its lock would spoil the end of the process.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_PATIENCE_S)
    os._exit(_INTERRUPTED)  # a name that does not resolve, say, cannot be interrupted


def _say(**line: Any) -> None:
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except OSError:
        os._exit(_INTERRUPTED)  # nobody listens any more


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
