"""Replicas behind Ray Serve, each with an engine of its own.

    serve run moestream.deploy.ray_serve:app model=/models/some-moe.gguf replicas=2

:func:`app` builds the application from such arguments; in a program:

    from ray import serve
    from moestream.deploy.ray_serve import app

    serve.run(app({"model": "/models/some-moe.gguf", "replicas": 2}))

Needs ``pip install 'moestream[ray]'``; Ray is imported only when :func:`app` is called.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from moestream.errors import ConfigError, PlatformError
from moestream.telemetry.system import available_cpus, process_memory

if TYPE_CHECKING:
    from fastapi import FastAPI

    from moestream.deploy.arguments import ReplicaArguments

__all__ = ["app"]

_LOG: Final = logging.getLogger("moestream.deploy")

_MIB: Final = 2**20
#: Memory of a replica's own process, where the system does not say.
_SERVER_BYTES: Final = 256 * _MIB
#: Requests beside those that the engine's queue holds: health, metrics, and what is refused.
_SPARE_REQUESTS: Final = 32
#: Seconds; a replica that has given its engine up is replaced after three of them.
_HEALTH_PERIOD_S: Final = 5.0
_HEALTH_TIMEOUT_S: Final = 10.0
#: Seconds beyond what running answers have: freeing a model, ending a process.
_CLOSING_S: Final = 15.0


def app(args: Mapping[str, Any]) -> Any:
    """Build the application; the name that ``serve run`` and ``serve deploy`` are given.

    An API key is no argument, for arguments can be read by everybody who sees the cluster: it is
    taken from ``MOESTREAM_API_KEY`` (several separated by spaces), here, where this is called.

    Args:
        args: by name, as text or values: ``model``, ``replicas``, ``per_node``, ``memory_mb``,
            ``served_name``, ``queue_limit``, ``allow_host``, ``cors_origin``, ``shutdown_s``,
            ``restart_wait_s``, and every setting of the engine, such as ``threads``, ``cache_mb``,
            ``n_ctx`` and ``draft_source``; see :class:`ReplicaArguments`.

    Returns:
        What ``serve.run`` takes.

    Raises:
        PlatformError: Ray Serve, or what the server needs, is not installed.
        ConfigError: an argument is unknown, of the wrong kind or out of range.
    """
    ray, serve = _modules()
    from moestream.deploy.arguments import ReplicaArguments
    from moestream.deploy.shares import cpu_share

    arguments = ReplicaArguments.parse(args)
    api_keys = tuple(os.environ.get("MOESTREAM_API_KEY", "").split())
    arguments.server(api_keys=api_keys)  # what is malformed is better said here than by a replica
    share = cpu_share(
        cores=_cores(ray), per_node=arguments.per_node, threads=arguments.engine.threads
    )
    resources: dict[str, Any] = {"num_cpus": share.cpus}
    if arguments.memory_mb is not None:
        resources["memory"] = arguments.memory_mb * _MIB
    deployment = serve.deployment(
        serve.ingress()(_Replica),
        name="moestream",
        num_replicas=arguments.replicas,
        max_replicas_per_node=arguments.per_node,
        ray_actor_options=resources,
        max_ongoing_requests=1 + arguments.queue_limit + _SPARE_REQUESTS,
        health_check_period_s=_HEALTH_PERIOD_S,
        health_check_timeout_s=_HEALTH_TIMEOUT_S,
        graceful_shutdown_wait_loop_s=0.5,
        graceful_shutdown_timeout_s=arguments.shutdown_s + _CLOSING_S,
    )
    return deployment.bind(arguments, share.threads, api_keys)


class _Replica:
    """One engine and its application. Its health is the engine's."""

    # Ray Serve waits for constructors that are coroutines; nobody else may make one of these.
    async def __init__(  # type: ignore[misc]
        self, arguments: ReplicaArguments, threads: int, api_keys: tuple[str, ...]
    ) -> None:
        """Open the model; until it is ready the replica is sent nothing.

        Raises:
            MoestreamError: it cannot be opened, in the engine's words.
        """
        from dataclasses import replace

        from moestream.deploy.replica_app import make_replica_app
        from moestream.deploy.shares import within_share
        from moestream.server.worker import EngineClient

        ray, serve = _modules()
        share, own = _memory_share(ray, arguments), process_memory()
        config = within_share(
            replace(arguments.engine, threads=threads),
            share,
            server_bytes=_SERVER_BYTES if own is None else own.rss,
        )
        server = arguments.server(api_keys=api_keys)
        self._engine = EngineClient(queue_limit=server.queue_limit)
        self._application = make_replica_app(
            self._engine,
            server,
            config,
            replica=serve.get_replica_context().replica_id.unique_id,
            restart_wait_s=arguments.restart_wait_s,
        )
        await self._engine.load(config)
        _LOG.info(
            "%s is ready, with %d threads and %.0f MiB of memory",
            self._engine.state.model, threads, share / _MIB,
        )  # fmt: skip

    def __serve_build_asgi_app__(self) -> FastAPI:
        """What Ray Serve sends requests to."""
        return self._application

    async def check_health(self) -> None:
        """Fail once the engine has been given up, so that the replica is replaced.

        An engine that is being started again is none of Ray's business: that takes less time than
        a new replica.
        """
        state = self._engine.state
        if state.phase in ("failed", "unloaded"):
            raise RuntimeError(f"the engine is gone: {state.error or state.phase}")


def _modules() -> tuple[Any, Any]:
    """Ray and Ray Serve.

    Raises:
        PlatformError: they are not installed, or what the server needs is not.
    """
    for name in ("fastapi", "ray", "ray.serve"):
        try:
            import_module(name)
        except ImportError as error:
            raise PlatformError(
                f"replicas need {error.name or name}, which is not installed: "
                "pip install 'moestream[ray]'"
            ) from error
    return import_module("ray"), import_module("ray.serve")


def _cores(ray: Any) -> int:
    """Cores of the smallest machine that runs replicas, as Ray counts them; else of this one.

    ``serve run`` builds the application before it connects, on a machine of the cluster.
    """
    if ray.is_initialized():
        counts = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node.get("Alive")]
        counts = [count for count in counts if count > 0]
        if counts:
            return min(counts)
    return available_cpus()


def _memory_share(ray: Any, arguments: ReplicaArguments) -> int:
    """Bytes of memory for this replica.

    Ray looked at the memory when it started, before any replica took some of it, so every replica
    comes to the same number, whichever starts first.

    Raises:
        ConfigError: Ray does not say how much there is.
    """
    if arguments.memory_mb is not None:
        return arguments.memory_mb * _MIB
    from moestream.deploy.shares import memory_share

    here = ray.get_runtime_context().get_node_id()
    for node in ray.nodes():
        if node["NodeID"] == here and node["Resources"].get("memory"):
            return memory_share(int(node["Resources"]["memory"]), per_node=arguments.per_node)
    raise ConfigError(
        "Ray does not say how much memory this machine has for its workers; say how much a "
        "replica may take with memory_mb"
    )
