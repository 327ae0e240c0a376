"""A ``moestream serve`` of its own for a measurement."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["served"]


@contextmanager
def served(model: str, *arguments: str) -> Iterator[tuple[int, int]]:
    """Process id and port of a server that listens; whether a model is ready, ``/health`` says."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "moestream", "serve", "--model", model, "--port", "0"]
        process = subprocess.Popen(
            [*command, "--data-dir", folder, *arguments], stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        try:
            port = None
            for line in process.stderr:
                if found := re.search(r"serving at http://[^ ]*:(\d+)", line):
                    port = int(found[1])
                    break
                print(line, end="", file=sys.stderr)
            if port is None:
                raise SystemExit("the server did not start")
            # Whatever else it says must not fill the pipe.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield process.pid, port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
