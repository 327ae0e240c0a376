"""The command line, ``moestream VERB``: one file per verb, no logic beyond parse, call, print."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        from moestream.cli.app import main as run_app
    except KeyboardInterrupt:
        return 130  # Ctrl-C before anything has begun

    return run_app(arguments)
