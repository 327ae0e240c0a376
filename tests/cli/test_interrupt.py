"""Ctrl-C while a model loads, and streams that were closed by the shell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moestream.cli.interrupt import LoadInterrupt
from tests.conftest import ModelMaker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and shell")


def test_interrupt_is_kept_until_asked_for() -> None:
    previous = signal.getsignal(signal.SIGINT)
    with LoadInterrupt() as interrupt:
        interrupt.check()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()
    assert signal.getsignal(signal.SIGINT) is previous


# Sends the signal from inside llama.cpp's log callback, where an exception would be lost.
_LOADING = """
import os, signal, sys
from moestream.cli import main
from moestream.llama.logs import LogBuffer

append = LogBuffer.append
def interrupt(self, level, text):
    append(self, level, text)
    if not interrupt.sent:
        interrupt.sent = True
        os.kill(os.getpid(), signal.SIGINT)
interrupt.sent = False
LogBuffer.append = interrupt
sys.exit(main(sys.argv[1:]))
"""


def test_interrupted_load_ends(tiny: ModelMaker) -> None:
    words = [sys.executable, "-c", _LOADING, "run", "-p", "hi", "-n", "3", "-m"]
    done = subprocess.run([*words, tiny("qwen3moe")], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, b"")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("closed", "code"),
    [("<&-", 0), (">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0), (">/dev/full", 1)],
)
def test_closed_streams(tiny: ModelMaker, tmp_path: Path, closed: str, code: int) -> None:
    command = f'"$0" -m moestream run -q -p hi -n 2 -m "$1" {closed}'
    words = ["/bin/sh", "-c", command, sys.executable, str(tiny("qwen3moe"))]
    done = subprocess.run(words, capture_output=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"bug" not in done.stderr


def test_prompt_from_closed_stdin(tiny: ModelMaker) -> None:
    command = '"$0" -m moestream run -m "$1" <&-'
    words = ["/bin/sh", "-c", command, sys.executable, str(tiny("qwen3moe"))]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert b"prompt" in done.stderr
