"""``python -m moestream.server.worker``: the engine's process; started by the server only."""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main"]


def main() -> int:
    """Talk on what were stdin and stdout; whatever prints goes to stderr."""
    # The server says when it is time to go: a Ctrl-C or a stop of the whole group is meant for it,
    # and the running answer may still be finished.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    commands, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)

    from moestream.server.worker.service import Service

    # Never closed: a thread may still wait in it.
    code = Service(os.fdopen(commands, "rb"), answers).run()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    # Not sys.exit, for the same reason.
    os._exit(main())
