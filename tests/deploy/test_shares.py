"""Cores and memory of one of several replicas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moestream.config import EngineConfig, StreamingConfig
from moestream.deploy.shares import CpuShare, cpu_share, within_share
from moestream.engine.session import Session
from moestream.errors import MemoryBudgetError
from tests.conftest import ModelMaker

MIB = 2**20
SERVER = 150 * MIB


@pytest.mark.parametrize("cores", range(1, 17))
@pytest.mark.parametrize("per_node", range(1, 9))
def test_replicas_never_ask_for_more_cores_than_there_are(cores: int, per_node: int) -> None:
    share = cpu_share(cores=cores, per_node=per_node, threads=None)
    assert 0 < share.cpus * per_node <= cores
    assert share.threads == max(int(share.cpus), 1)


def test_threads_that_were_asked_for_are_asked_of_ray() -> None:
    assert cpu_share(cores=2, per_node=2, threads=4) == CpuShare(4.0, 4)


def cache_ceiling(config: EngineConfig, share_mb: int) -> int:
    """In MiB."""
    found = within_share(config, share_mb * MIB, server_bytes=SERVER).streaming.cache_ceil_mb
    assert found is not None
    return found


def test_an_auto_cache_stays_within_the_share() -> None:
    config = EngineConfig(threads=1)
    small, large = cache_ceiling(config, 600), cache_ceiling(config, 700)
    assert large - small == pytest.approx(100, abs=1)
    assert small < 600 - 150
    assert cache_ceiling(replace(config, n_ctx=256), 600) > small


def test_the_lower_ceiling_counts() -> None:
    config = EngineConfig(threads=1, streaming=StreamingConfig(cache_ceil_mb=7))
    assert cache_ceiling(config, 1000) == 7


def test_the_engine_obeys_the_share(tiny: ModelMaker) -> None:
    model = tiny("qwen35moe")
    config = EngineConfig(model=model, threads=1, n_ctx=64)
    least = least_share(config)
    with Session(within_share(config, least * MIB, server_bytes=SERVER)) as session:
        report = session.load_report
        assert report.cache_ceiling_bytes is not None
        assert report.cache_bytes <= report.cache_ceiling_bytes < least * MIB - SERVER


def least_share(config: EngineConfig) -> int:
    """The first number of MiB in which the model can run."""

    def fits(share_mb: int) -> bool:
        try:
            within_share(config, share_mb * MIB, server_bytes=SERVER)
        except MemoryBudgetError:
            return False
        return True

    return next(share_mb for share_mb in range(300, 1000) if fits(share_mb))


def test_a_share_that_is_too_small_is_refused() -> None:
    with pytest.raises(MemoryBudgetError, match=r"share of the memory is 300 MiB.*per_node"):
        within_share(EngineConfig(threads=1), 300 * MIB, server_bytes=SERVER)


def test_a_cache_that_was_asked_for_must_fit() -> None:
    config = EngineConfig(threads=1, streaming=StreamingConfig(cache_mb=4))
    assert within_share(config, 1000 * MIB, server_bytes=SERVER) == config
    # Enough for a token's experts of one layer, which is all that an auto cache insists on.
    share = least_share(EngineConfig(threads=1))
    with pytest.raises(MemoryBudgetError, match=r"but 4\.0 MiB are needed"):
        within_share(config, share * MIB, server_bytes=SERVER)


def test_a_cache_larger_than_the_model_takes_no_more_than_the_model() -> None:
    config = EngineConfig(threads=1, streaming=StreamingConfig(cache_mb=100_000))
    assert within_share(config, 1000 * MIB, server_bytes=SERVER) == config


def test_resident_models_have_no_cache() -> None:
    config = EngineConfig(streaming=StreamingConfig(moe_stream=False))
    assert within_share(config, 64 * MIB, server_bytes=SERVER) == config
