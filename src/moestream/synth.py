"""Entry point of ``python -m moestream.synth``; see :mod:`moestream.models.synth`."""

from __future__ import annotations

import sys

from moestream.models.synth.cli import main

if __name__ == "__main__":
    sys.exit(main())
