"""What the builder and the replicas take from what Ray says of the machines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from moestream.deploy.arguments import ReplicaArguments
from moestream.deploy.ray_serve import _cores, _memory_share
from moestream.errors import ConfigError
from moestream.telemetry.system import available_cpus

MIB = 2**20
NODES = [
    {"NodeID": "head", "Alive": True, "Resources": {"memory": 1000.0 * MIB}},
    {"NodeID": "small", "Alive": True, "Resources": {"CPU": 4.0, "memory": 4000.0 * MIB}},
    {"NodeID": "large", "Alive": True, "Resources": {"CPU": 64.0, "memory": 64000.0 * MIB}},
    {"NodeID": "dead", "Alive": False, "Resources": {"CPU": 1.0}},
]


def ray(here: str = "small", *, running: bool = True) -> Any:
    """As much of Ray as is asked."""
    return SimpleNamespace(
        is_initialized=lambda: running,
        nodes=lambda: NODES,
        get_runtime_context=lambda: SimpleNamespace(get_node_id=lambda: here),
    )


def test_the_smallest_machine_that_computes_counts() -> None:
    assert _cores(ray()) == 4


def test_without_ray_this_machine_counts() -> None:
    assert _cores(ray(running=False)) == available_cpus()


@pytest.mark.parametrize(("here", "floor"), [("small", 512), ("large", 3200)])
@pytest.mark.parametrize("per_node", [1, 2, 3])
def test_replicas_divide_what_their_machine_has(here: str, floor: int, per_node: int) -> None:
    (whole,) = [node["Resources"]["memory"] for node in NODES if node["NodeID"] == here]
    arguments = ReplicaArguments.parse({"replicas": 3, "per_node": per_node})
    share = _memory_share(ray(here), arguments)
    assert share == (whole - floor * MIB) // per_node


def test_memory_that_was_asked_for_is_taken() -> None:
    assert _memory_share(ray(), ReplicaArguments.parse({"memory_mb": 700})) == 700 * MIB


def test_a_machine_of_unknown_memory_needs_a_word() -> None:
    with pytest.raises(ConfigError, match="memory_mb"):
        _memory_share(ray("elsewhere"), ReplicaArguments.parse({}))
