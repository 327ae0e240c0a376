"""One run, in a process of its own: ``python -m moestream.bench.child``, a job as JSON on stdin.

Not meant to be called by hand: the runner does. The result goes to the file that the job names, so
that nothing that is printed can be mistaken for it; a process that dies leaves no such file.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moestream.config import EngineConfig

__all__ = ["main"]

_PR_SET_PDEATHSIG: Final = 1


def main() -> int:
    """Do the job that stdin describes."""
    job: dict[str, Any] = json.loads(sys.stdin.read())
    _die_with(job["parent"])
    _leave_stdin()
    if job["entrance"] is not None:
        # First of all, so that everything from here on is charged to the group.
        Path(job["entrance"]).write_text(str(os.getpid()))
    if job["kind"] == "command":
        os.execv("/bin/sh", ["/bin/sh", "-c", job["command"]])
    from moestream.errors import MoestreamError

    try:
        result = _JOBS[job["kind"]](job)
    except MoestreamError as error:
        result = {"failure": str(error)}
    except MemoryError:
        result = {"failure": "out of memory"}
    except Exception as error:
        traceback.print_exc()
        result = {"failure": f"unexpected {type(error).__name__}: {error}"}
    target = Path(job["result"])
    draft = target.with_suffix(".part")
    draft.write_text(json.dumps(result), encoding="utf-8")
    draft.replace(target)
    return 0


def _die_with(parent: int) -> None:
    """End when the process that started this one ends, however it does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)


def _leave_stdin() -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _config(job: dict[str, Any]) -> EngineConfig:
    from moestream.bench.settings import config_from_json

    config = config_from_json(job["config"])
    config.validate()
    return config


def _streamed(job: dict[str, Any]) -> dict[str, Any]:
    from moestream.engine.session import Session

    with Session(_config(job)) as session:
        return _run(job, session)


def _plain(job: dict[str, Any]) -> dict[str, Any]:
    from moestream.bench.baseline import PlainSession

    with PlainSession(_config(job)) as session:
        return _run(job, session)


def _run(job: dict[str, Any], session: Any) -> dict[str, Any]:
    """Answer every prompt of the workload, each from an empty context."""
    from dataclasses import asdict
    from datetime import datetime, timezone
    from importlib.metadata import version

    import moestream
    from moestream.bench.measure import measure
    from moestream.telemetry.csv_sink import CsvSink
    from moestream.telemetry.preamble import SessionInfo
    from moestream.telemetry.recorder import Recorder
    from moestream.telemetry.summary import load_numbers

    info = SessionInfo(
        report=session.load_report,
        config=session.config,
        version=str(moestream.__version__),
        llama_cpp_python=version("llama-cpp-python"),
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    sinks = [CsvSink(Path(job["csv"]), protected=session.load_report.paths)]
    recorder = Recorder(info, sinks, warn=lambda text: print(text, file=sys.stderr))
    summaries = []
    try:
        for prompt in job["prompts"]:
            session.reset()
            recorder.begin_turn(job["tokens"])
            for event in session.generate(prompt, max_tokens=job["tokens"]):
                recorder.observe(event)
            summary = session.last_summary
            recorder.end_turn(summary)
            summaries.append(summary)
    finally:
        recorder.close()
    measured = measure(summaries, session.load_report)
    return {**asdict(measured), "load": load_numbers(session.load_report)}


def _probe(job: dict[str, Any]) -> dict[str, Any]:
    """Open the model, and say what was found and decided."""
    from moestream.engine.session import Session
    from moestream.telemetry.summary import load_numbers

    with Session(_config(job)) as session:
        return {"load": load_numbers(session.load_report)}


def _speed(job: dict[str, Any]) -> dict[str, Any]:
    from moestream.bench.plain_speed import measure_speed

    return measure_speed(_config(job), job)


_JOBS: Final = {"engine": _streamed, "plain": _plain, "probe": _probe, "speed": _speed}


if __name__ == "__main__":
    sys.exit(main())
