"""Memory limits: sizes, groups of both versions, and the way out where they are not permitted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moestream.bench.process import run_job
from moestream.bench.regime import (
    Group,
    MemoryRegime,
    drop_caches,
    limit_bytes,
    parse_size,
)
from moestream.errors import ConfigError, PlatformError

MIB = 2**20


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("6GiB", 6 * 2**30),
        ("6g", 6 * 2**30),
        ("1.5 MiB", 3 * 2**19),
        ("500MB", 500_000_000),
        ("4096", 4096),
        ("4096b", 4096),
        ("2T", 2 * 2**40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-1G", "6 giga", "1e9", "6ib", "GiB", "nan"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ConfigError, match="6GiB"):
        parse_size(text)


def test_the_limit() -> None:
    assert limit_bytes(None, None, 10**10) is None
    assert limit_bytes("6GiB", None, 1) == 6 * 2**30
    assert limit_bytes(None, 1.6, 16 * 10**9) == 10**10
    with pytest.raises(ConfigError, match="exclude"):
        limit_bytes("6GiB", 1.6, 1)
    with pytest.raises(ConfigError, match="too small"):
        limit_bytes(None, 1.6, 10 * MIB)
    for ratio in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="above 0"):
            limit_bytes(None, ratio, 10**10)


def test_caches_are_dropped_only_where_permitted(tmp_path: Path) -> None:
    assert not drop_caches(tmp_path / "none")
    target = tmp_path / "drop_caches"
    target.write_text("")
    assert drop_caches(target)
    assert target.read_text() == "3\n"


class FakeTree:
    """Control groups as plain files; removing a group removes its files, as the kernel does."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        real = Path.rmdir

        def rmdir(path: Path) -> None:
            for child in path.iterdir() if path.name.startswith("moestream-bench-") else ():
                child.unlink()
            real(path)

        monkeypatch.setattr(Path, "rmdir", rmdir)


@pytest.fixture
def v1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    FakeTree(tmp_path, monkeypatch)
    (tmp_path / "memory").mkdir()
    return tmp_path


@pytest.fixture
def v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    FakeTree(tmp_path, monkeypatch)
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    return tmp_path


def test_version_1(v1: Path) -> None:
    with MemoryRegime(64 * MIB, root=v1).group() as group:
        assert group.directory.parent == v1 / "memory"
        assert (group.directory / "memory.limit_in_bytes").read_text() == str(64 * MIB)
        assert (group.directory / "memory.memsw.limit_in_bytes").read_text() == str(64 * MIB)
        assert group.peak_bytes() is None
        (group.directory / "memory.max_usage_in_bytes").write_text("1234\n")
        assert group.peak_bytes() == 1234
        assert not group.killed_for_memory()
        (group.directory / "memory.oom_control").write_text("under_oom 0\noom_kill 1\n")
        assert group.killed_for_memory()
    assert not group.directory.exists()


def test_version_2(v2: Path) -> None:
    with MemoryRegime(64 * MIB, root=v2).group() as group:
        assert (v2 / "cgroup.subtree_control").read_text() == "+memory"
        assert (group.directory / "memory.max").read_text() == str(64 * MIB)
        assert (group.directory / "memory.swap.max").read_text() == "0"
        (group.directory / "memory.peak").write_text("1234\n")
        assert group.peak_bytes() == 1234
        (group.directory / "memory.events").write_text("low 0\noom 3\noom_kill 0\n")
        assert not group.killed_for_memory()
    assert not group.directory.exists()


def test_a_group_goes_away_after_an_error(v1: Path) -> None:
    with pytest.raises(KeyboardInterrupt), MemoryRegime(64 * MIB, root=v1).group() as group:
        raise KeyboardInterrupt
    assert not group.directory.exists()


def test_groups_of_the_dead_are_swept(v1: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = v1 / "memory" / f"moestream-bench-{gone.pid}"
    alive = v1 / "memory" / f"moestream-bench-{os.getppid()}"
    for directory in (left, alive):
        directory.mkdir()
    MemoryRegime(64 * MIB, root=v1).check()
    assert not left.exists()
    assert alive.exists()


def test_where_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="no memory control groups"):
        MemoryRegime(64 * MIB, root=tmp_path).check()


def test_where_the_controller_is_missing(v2: Path) -> None:
    (v2 / "cgroup.controllers").write_text("cpu io\n")
    with pytest.raises(PlatformError, match="no memory controller"):
        MemoryRegime(64 * MIB, root=v2).check()


@pytest.mark.parametrize("refused", ["mkdir", "write_text"])
def test_without_permission_the_message_says_so(
    v1: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def refuse(*_args: object, **_more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, refused, refuse)
    with pytest.raises(PlatformError, match=r"Permission denied; run as root"):
        MemoryRegime(64 * MIB, root=v1).check()
    monkeypatch.undo()
    assert not list((v1 / "memory").iterdir())


def real_groups() -> bool:
    try:
        MemoryRegime(64 * MIB).check()
    except PlatformError:
        return False
    return True


@pytest.mark.skipif(not real_groups(), reason="needs permission to make control groups")
def test_a_real_group_limits_and_is_removed() -> None:
    regime = MemoryRegime(64 * MIB)
    hungry = f"exec {sys.executable} -c 'x = b\"1\" * (300 << 20); print(len(x))'"
    fits = f"exec {sys.executable} -c 'x = b\"1\" * (8 << 20); print(len(x))'"
    for command, fails in ((hungry, True), (fits, False)):
        outcome = run_job({"kind": "command", "command": command}, regime=regime, timeout_s=60)
        assert (outcome.failure is not None) == fails, outcome
        if fails:
            assert "more memory than the limit" in str(outcome.failure)
        else:
            assert outcome.output.strip() == str(8 * MIB)
            assert outcome.peak_bytes is not None
            assert 8 * MIB < outcome.peak_bytes <= 64 * MIB
    with regime.group() as group:
        left: Group = group
    assert not left.directory.exists()
