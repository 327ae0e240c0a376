"""Plans one model in a process of its own, which measures without disturbing the server.

Reads a job from stdin and writes the plan to stdout, both as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from moestream.config import EngineConfig
from moestream.errors import MoestreamError
from moestream.models.as_json import plan_as_json
from moestream.models.plan import plan_model
from moestream.settings.values import defaults, engine_config

__all__ = ["main"]


def main() -> int:
    """Do the job; returns the exit code."""
    job = json.load(sys.stdin)
    base = EngineConfig(model=Path(job["path"]))
    try:
        config = engine_config({**defaults(), **job["values"]}, base)
        answer = plan_as_json(plan_model(base.model, config, seconds=job["seconds"]))
    except (MoestreamError, OSError) as error:
        answer = {"error": str(error)}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
