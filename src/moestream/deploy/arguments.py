"""What the builder of replicas is told, from a command line (text) or a file (values)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from moestream.config import EMBEDDED_MODEL, EngineConfig
from moestream.errors import ConfigError
from moestream.server.config import ServerConfig
from moestream.settings import Setting
from moestream.settings.values import BY_KEY, check_values, defaults, engine_config

__all__ = ["ReplicaArguments"]

_TRUTH: Final[Mapping[str, bool]] = {"true": True, "false": False, "on": True, "off": False}
#: Settings that say how the engine runs; the app's own have no meaning without the app.
_ENGINE_KEYS: Final = tuple(key for key, setting in BY_KEY.items() if setting.path)
#: Serve does not schedule more replicas of a deployment on a node.
_MOST_PER_NODE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaArguments:
    """How many replicas there are, and what each of them serves.

    Attributes:
        replicas: engines altogether.
        per_node: most of them on one machine, which they share its cores and memory between.
        memory_mb: memory of one replica in MiB; ``None`` for an equal part of what Ray says the
            machine has for its workers.
        served_name: what clients call the model.
        queue_limit: requests that may wait for one engine.
        allow_host: names by which the service may be called, besides addresses.
        cors_origin: web pages from elsewhere that may ask.
        shutdown_s: seconds that running answers have when a replica is told to end.
        restart_wait_s: seconds that a request waits for an engine that is being started again.
        engine: what each engine runs with; threads ``None`` for an equal part of the cores.
    """

    replicas: int = 2
    per_node: int = 2
    memory_mb: int | None = None
    served_name: str | None = None
    queue_limit: int = 32
    allow_host: tuple[str, ...] = ()
    cors_origin: tuple[str, ...] = ()
    shutdown_s: float = 10.0
    restart_wait_s: float = 30.0
    engine: EngineConfig

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> ReplicaArguments:
        """Arguments by name: ``model``, the fields above, and every setting of the engine.

        Without ``per_node`` all replicas may end up on one machine, and share it.

        Raises:
            ConfigError: a name is unknown, or a value is of the wrong kind or out of range.
        """
        own = ("model", "replicas", *_READERS)
        unknown = sorted(set(given) - {*own, *_ENGINE_KEYS})
        if unknown:
            raise ConfigError(
                f"there is no argument {unknown[0]!r}; there is {', '.join((*own, *_ENGINE_KEYS))}"
            )
        replicas = _whole(given.get("replicas", 2), "replicas", least=1, most=10_000)
        known: dict[str, Any] = {
            "replicas": replicas,
            "per_node": min(replicas, _MOST_PER_NODE),
            "engine": _engine(given),
        }
        for key, read in _READERS.items():
            if key in given:
                known[key] = read(given[key], key)
        return cls(**known)

    def server(self, *, api_keys: tuple[str, ...]) -> ServerConfig:
        """How each replica serves: Ray's proxy listens, on whatever address it was told to.

        Raises:
            ConfigError: a key or an origin is malformed.
        """
        config = ServerConfig(
            host="0.0.0.0",
            api_keys=api_keys,
            cors_origins=self.cors_origin,
            allowed_hosts=self.allow_host,
            queue_limit=self.queue_limit,
            served_name=self.served_name,
            shutdown_s=self.shutdown_s,
        )
        config.validate()
        return config


def _engine(given: Mapping[str, Any]) -> EngineConfig:
    base = EngineConfig(model=_text(given.get("model"), "model") or EMBEDDED_MODEL)
    changes = {key: _setting(BY_KEY[key], given[key]) for key in _ENGINE_KEYS if key in given}
    config = engine_config(check_values(changes, defaults(), base), base)
    config.validate()
    return config


def _setting(setting: Setting, value: Any) -> Any:
    """What text from a command line means for a setting; other values stay as they are."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if setting.nullable and text.lower() in ("", "auto", "none", "null"):
        return None
    try:
        if setting.kind == "int":
            return int(text)
        if setting.kind == "float":
            return float(text)
    except ValueError as error:
        raise ConfigError(f"{setting.key} must be a number, got {value!r}") from error
    if setting.kind == "bool":
        if text.lower() not in _TRUTH:
            raise ConfigError(f"{setting.key} must be true or false, got {value!r}")
        return _TRUTH[text.lower()]
    return text


def _whole(value: Any, key: str, *, least: int, most: int) -> int:
    try:
        number = int(value) if isinstance(value, (str, int)) else None
    except ValueError:
        number = None
    if number is None or isinstance(value, bool):
        raise ConfigError(f"{key} must be a whole number, got {value!r}")
    if not least <= number <= most:
        raise ConfigError(f"{key} must lie in {least}..{most}, got {number}")
    return number


def _seconds(value: Any, key: str) -> float:
    try:
        number = float(value) if isinstance(value, (str, int, float)) else -1.0
    except ValueError:
        number = -1.0
    if isinstance(value, bool) or not 0.0 <= number <= 3600.0:
        raise ConfigError(f"{key} must be a number of seconds in 0..3600, got {value!r}")
    return number


def _memory(value: Any, key: str) -> int | None:
    return None if value in (None, "", "auto") else _whole(value, key, least=64, most=1 << 30)


def _text(value: Any, key: str) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ConfigError(f"{key} must be text, got {value!r}")
    return value


def _words(value: Any, key: str) -> tuple[str, ...]:
    """Several values: a list, or words with spaces between."""
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise ConfigError(f"{key} must be a list of texts, or words in one, got {value!r}")
    return tuple(words)


_READERS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "per_node": partial(_whole, least=1, most=_MOST_PER_NODE),
    "memory_mb": _memory,
    "served_name": _text,
    "queue_limit": partial(_whole, least=0, most=10_000),
    "allow_host": _words,
    "cors_origin": _words,
    "shutdown_s": _seconds,
    "restart_wait_s": _seconds,
}
