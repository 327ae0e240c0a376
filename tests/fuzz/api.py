"""Requests made from the OpenAPI document against a real server: nothing may be a 500.

    python -m tests.fuzz.api --examples 500 [--only /v1]

Starts a `moestream serve` of its own with the embedded model, without network. Exits with 1 if a
response was a 500, or the server died.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis
import requests
import schemathesis
from schemathesis.generation import GenerationMode

from moestream.config import EMBEDDED_MODEL
from tests.server.process import ServerProcess, serving

__all__ = ["fuzz"]

#: What a server that works may answer, whatever it is asked: it says that it cannot, not that it
#: does not know why.
_TELLING = (503, 507)
_SECONDS = 120.0


def fuzz(server: ServerProcess, *, examples: int, only: str = "/") -> Counter[int]:
    """How often each status came; raises where one was a 500.

    Args:
        server: to be asked.
        examples: for each operation.
        only: beginning of the paths to ask for.
    """
    found: Counter[int] = Counter()
    schema: Any = schemathesis.openapi.from_url(
        f"http://127.0.0.1:{server.port}/openapi.json", wait_for_schema=10.0
    )
    for result in schema.get_all_operations():
        operation = result.ok()
        if not operation.path.startswith(only) or _endless(operation.path):
            continue
        _ask(operation, examples, found)
        _recover(server)
    return found


def _recover(server: ServerProcess) -> None:
    """An operation may have changed the settings, or closed the model."""
    schema = server.call("GET", "/api/settings").data["schema"]
    defaults = {setting["key"]: setting["default"] for setting in schema}
    answer = server.call("PUT", "/api/settings", {"values": defaults})
    assert answer.status == 200, answer.data
    if server.call("GET", "/health").status != 200:
        answer = server.call("POST", "/api/engine/load", {"model": EMBEDDED_MODEL, "cancel": True})
        assert answer.status == 202, answer.data
    server.ready()


def _endless(path: str) -> bool:
    """Streams that end when the client goes away."""
    return path == "/api/events"


def _ask(operation: Any, examples: int, found: Counter[int]) -> None:
    right, wrong = (operation.as_strategy(generation_mode=mode) for mode in GenerationMode)

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=right | wrong)
    def test(case: Any) -> None:
        if isinstance(case.body, dict) and case.path.startswith("/v1/"):
            case.body.pop("model", None)  # any other than the one that is open is refused at once
        try:
            response = case.call(timeout=_SECONDS)
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL):
            return  # the client would not even send it
        found[response.status_code] += 1
        status = response.status_code
        assert status < 500 or status in _TELLING, (case.as_curl_command(), response.text)

    test()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--only", default="/")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), "--ctx", "256") as server:
        found = fuzz(server.ready(), examples=args.examples, only=args.only)
        print(dict(sorted(found.items())))
        return 1 if "Traceback" in server.log else 0


if __name__ == "__main__":
    sys.exit(main())
