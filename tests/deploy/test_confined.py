"""What docs/deploy.md says of containers that forbid ``userfaultfd``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.confined import UNKNOWN_MACHINE

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")
def test_without_userfaultfd_reads_are_waited_for() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.deploy.confined"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == UNKNOWN_MACHINE:
        pytest.skip("the number of the system call is not known here")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["streamed"]
    assert found["text"]
    assert (found["overlap"], found["mover"]) == (False, "inplace")
    (note,) = [note for note in found["notes"] if "do not overlap" in note]
    assert "userfaultfd" in note
    assert "userfaultfd" in found["refusal"]
    assert "overlap is not possible here" in found["refusal"]
