"""A forked child inherits a session it must not touch: letting go of it is all it can do."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from moestream import Session, SessionStateError, StreamingConfig
from tests.conftest import ModelMaker
from tests.engine.helpers import open_session

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    # The threads are the very point.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning"),
]

PROMPT = [20, 21, 22, 23]


def in_child(action: Callable[[], Any]) -> int:
    """Exit code of a child that does ``action``; negative for a signal."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("dense", ["anon", "mmap"])
def test_a_child_can_let_go_of_a_session_and_not_use_it(tiny: ModelMaker, dense: Any) -> None:
    held: list[Session] = []

    def use() -> None:
        with pytest.raises(SessionStateError, match="fork"):
            list(held[0].generate(PROMPT, max_tokens=2))

    def drop() -> None:
        held[0].close()
        held.clear()
        gc.collect()

    with open_session(tiny("qwen35moe"), StreamingConfig(dense_weights=dense)) as session:
        before = [event.token_id for event in session.generate(PROMPT, max_tokens=5)]
        held.append(session)
        assert in_child(use) == 0
        assert in_child(drop) == 0
        session.reset()
        assert [event.token_id for event in session.generate(PROMPT, max_tokens=5)] == before


def test_a_child_leaves_in_peace(tiny: ModelMaker) -> None:
    script = (
        "import os, sys\n"
        "from moestream import Session\n"
        "session = Session(sys.argv[1])\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    sys.exit(0)\n"  # the whole way out, finalizers included
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
        "session.close()\n"
    )
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", script, str(tiny("qwen3moe"))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
