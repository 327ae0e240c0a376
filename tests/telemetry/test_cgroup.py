from __future__ import annotations

from pathlib import Path

from moestream.telemetry.cgroup import cpu_quota, memory_levels

MIB = 2**20


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def v2(tmp_path: Path, group: str, files: dict[str, str]) -> tuple[Path, Path]:
    root = tmp_path / "cgroup"
    write(root, {"cgroup.controllers": "cpu memory"} | files)
    membership = tmp_path / "self"
    membership.write_text(f"0::{group}\n")
    return root, membership


def test_version_2_counts_every_level_and_gives_page_cache_back(tmp_path: Path) -> None:
    stat = f"anon 5\nactive_file {10 * MIB}\ninactive_file {20 * MIB}\nslab_reclaimable {MIB}"
    root, membership = v2(
        tmp_path,
        "/a/b",
        {
            "a/memory.max": str(100 * MIB),
            "a/memory.current": str(90 * MIB),
            "a/memory.stat": stat,
            "a/b/memory.max": "max",
            "a/b/memory.high": str(80 * MIB),
            "a/b/memory.current": str(40 * MIB),
            "a/b/memory.stat": "active_file 0",
        },
    )
    inner, outer = memory_levels(root=root, membership=membership)
    assert inner.limit == 80 * MIB
    assert inner.available == 40 * MIB
    assert outer.limit == 100 * MIB
    assert outer.available == (100 - (90 - 31)) * MIB


def test_no_limit_is_no_level(tmp_path: Path) -> None:
    root, membership = v2(
        tmp_path, "/a", {"a/memory.max": "max", "a/memory.current": "5", "a/memory.stat": ""}
    )
    assert memory_levels(root=root, membership=membership) == ()


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    root, membership = v2(
        tmp_path,
        "/docker/0123/../deep",
        {"memory.max": "1000", "memory.current": "400", "memory.stat": "inactive_file 100"},
    )
    (level,) = memory_levels(root=root, membership=membership)
    assert level.available == 700


def test_usage_above_the_limit_leaves_nothing(tmp_path: Path) -> None:
    root, membership = v2(tmp_path, "/", {"memory.max": "100", "memory.current": "300"})
    assert memory_levels(root=root, membership=membership)[0].available == 0


def test_version_1(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    write(
        root,
        {
            "memory/a/memory.limit_in_bytes": str(64 * MIB),
            "memory/a/memory.usage_in_bytes": str(32 * MIB),
            "memory/a/memory.stat": f"total_inactive_file {8 * MIB}\ntotal_active_file 0",
            "memory/memory.limit_in_bytes": "9223372036854771712",
            "memory/memory.usage_in_bytes": "1",
            "cpu/a/cpu.cfs_quota_us": "150000",
            "cpu/a/cpu.cfs_period_us": "100000",
            "cpu/cpu.cfs_quota_us": "-1",
            "cpu/cpu.cfs_period_us": "100000",
        },
    )
    membership = tmp_path / "self"
    membership.write_text("5:memory:/a\n4:cpu,cpuacct:/a\n")
    (level,) = memory_levels(root=root, membership=membership)
    assert level.available == 40 * MIB
    assert cpu_quota(root=root, membership=membership) == 1.5


def test_the_tightest_quota_counts(tmp_path: Path) -> None:
    root, membership = v2(
        tmp_path, "/a/b", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}
    )
    assert cpu_quota(root=root, membership=membership) == 3.0


def test_nothing_there_is_no_limit(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert memory_levels(root=missing, membership=missing) == ()
    assert cpu_quota(root=missing, membership=missing) is None
