"""One server for the tests that do no harm to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moestream import EngineConfig, Session
from tests.server.process import ServerProcess, serving


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """nano, speculating with its own head."""
    with serving(tmp_path_factory.mktemp("server"), "--mtp", "--ctx", "512") as found:
        yield found.ready()
        assert "Traceback" not in found.log


@pytest.fixture(scope="package")
def session() -> Iterator[Session]:
    """The same model in this process, to compare with; it does not speculate."""
    with Session(EngineConfig(threads=1, n_ctx=512)) as found:
        yield found
