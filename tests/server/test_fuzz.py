"""A short run of ``tests.fuzz.api``; the program itself runs for as long as one lets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.process import serving

pytest.importorskip("schemathesis")


def test_no_request_of_the_api_is_a_500(tmp_path: Path) -> None:
    from tests.fuzz.api import fuzz

    with serving(tmp_path, "--ctx", "256") as server:
        found = fuzz(server.ready(), examples=10, only="/v1")
        assert found[400] > 0
        assert "Traceback" not in server.log
