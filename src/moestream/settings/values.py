"""Values of the switches: checked, made into a configuration, brought up from older shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from moestream.config import EngineConfig, SamplingConfig
from moestream.errors import ConfigError
from moestream.settings.table import SETTINGS, Setting

__all__ = [
    "BY_KEY",
    "SettingError",
    "Values",
    "applies",
    "check_value",
    "check_values",
    "defaults",
    "engine_config",
    "given_values",
    "reload_keys",
    "sampling_config",
    "upgrade",
]

Values = Mapping[str, Any]

BY_KEY: Final[Mapping[str, Setting]] = {setting.key: setting for setting in SETTINGS}

_MAX_TEXT: Final = 32_000


class SettingError(ConfigError):
    """A value that cannot be taken; ``key`` names the setting."""

    def __init__(self, key: str, message: str) -> None:
        """About the setting ``key``."""
        super().__init__(message)
        self.key = key


def defaults() -> dict[str, Any]:
    """Every setting as it is where nothing was chosen."""
    return {setting.key: setting.default for setting in SETTINGS}


def given_values(config: EngineConfig) -> dict[str, Any]:
    """What a configuration has otherwise than the default: what its author has asked for."""
    found = {s.key: s.of(config) for s in SETTINGS if s.path}
    return {key: value for key, value in found.items() if value != BY_KEY[key].default}


def applies(setting: Setting, values: Values) -> bool:
    """Whether a setting has an effect beside the others."""
    conditions = setting.applies_if or {}
    return all(values[key] in wanted for key, wanted in conditions.items())


def engine_config(values: Values, base: EngineConfig) -> EngineConfig:
    """The configuration that complete ``values`` mean; not validated.

    A setting that does not apply keeps its default there. A session that speculates chooses
    greedily by default: a turn that draws its tokens runs without drafts.

    Args:
        base: gives what is no setting: the model, a template, what only benchmarks use.
    """
    parts: dict[str, dict[str, Any]] = {}
    for setting in SETTINGS:
        if setting.path:
            value = values[setting.key] if _in_effect(setting, values) else setting.default
            if value is None and setting.key == "cache_mb":
                value = "auto"
            parts.setdefault(setting.section, {})[setting.field] = value
    if values["draft_source"] != "none":
        parts["sampling"]["temperature"] = 0.0
    speculation = replace(base.speculation, **parts["speculation"])
    if speculation.source == "none":
        speculation = replace(speculation, synthetic_acceptance=None)
    return replace(
        base,
        **parts[""],
        streaming=replace(base.streaming, **parts["streaming"]),
        sampling=replace(base.sampling, **parts["sampling"]),
        speculation=speculation,
    )


def sampling_config(values: Values) -> SamplingConfig:
    """How the next turn chooses its tokens."""
    return SamplingConfig(**{s.field: values[s.key] for s in SETTINGS if s.section == "sampling"})


def check_values(changes: Values, current: Values, base: EngineConfig) -> dict[str, Any]:
    """``current`` with ``changes``, all of it checked.

    Raises:
        SettingError: a key is unknown, or a value is of the wrong kind, out of range, or
            contradicts another one.
    """
    merged = dict(current)
    for key, value in changes.items():
        merged[key] = check_value(key, value)
    _validate(merged, base, next(iter(changes), ""))
    return merged


def check_value(key: str, value: Any) -> Any:
    """A value as it is kept, checked apart from the other settings.

    A setting that does not apply now is checked as well: it must not wait to surprise.

    Raises:
        SettingError: there is no such setting, or the value is of the wrong kind or out of range.
    """
    setting = BY_KEY.get(key)
    if setting is None:
        raise SettingError(key, f"there is no setting {key!r}; there is {', '.join(BY_KEY)}")
    value = _of_its_kind(setting, value)
    if setting.path:
        applying = {name: wanted[0] for name, wanted in (setting.applies_if or {}).items()}
        if key == "drop_in_prefill":
            applying["drop_cold_experts"] = 0.5
        _validate({**defaults(), **applying, key: value}, EngineConfig(), key)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        least, most = setting.minimum, setting.maximum
        if (least is not None and value < least) or (most is not None and value > most):
            raise SettingError(key, f"{key} must lie in {least}..{most}, got {value}")
    return value


def reload_keys(values: Values, loaded: EngineConfig, base: EngineConfig) -> list[str]:
    """Settings whose change waits for a reload, compared with what was loaded."""
    wanted = engine_config(values, base)
    return [
        s.key for s in SETTINGS if s.path and s.takes == "reload" and s.of(wanted) != s.of(loaded)
    ]


def upgrade(stored: Values) -> dict[str, Any]:
    """Stored values in today's shape.

    The first versions knew one draft source and stored whether it was on, as ``mtp``.
    """
    values = dict(stored)
    if "mtp" in values:
        on = values.pop("mtp")
        if isinstance(on, bool):
            values.setdefault("draft_source", "mtp" if on else "none")
    return values


def _in_effect(setting: Setting, values: Values) -> bool:
    if setting.key == "drop_in_prefill" and not values["drop_cold_experts"]:
        return False
    return applies(setting, values)


def _of_its_kind(setting: Setting, value: Any) -> Any:
    """A value of the right kind; whether it is in range is seen later."""
    key = setting.key
    if value is None or (value == "auto" and setting.null_means == "auto"):
        if setting.nullable:
            return None
        raise SettingError(key, f"{key} needs a value; its default is {setting.default!r}")
    if setting.own is None:
        return value
    wanted, default = setting.own
    if type(value) is not wanted:
        names = {bool: "true or false", int: "a whole number", str: "text"}
        raise SettingError(
            key, f"{key} must be {names[wanted]}, such as {default!r}, got {value!r}"
        )
    if wanted is int and value == 0:
        raise SettingError(key, f"{key} must be 1 or more, or -1 for no limit, got {value}")
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        raise SettingError(key, f"{key} has {len(value)} characters; at most {_MAX_TEXT} are kept")
    if isinstance(value, str) and value != value.encode("utf-8", "replace").decode():
        raise SettingError(key, f"{key} is no text: it holds half of a character")
    return value


def _validate(values: dict[str, Any], base: EngineConfig, key: str) -> None:
    try:
        engine_config(values, base).validate()
        sampling_config(values).validate()
    except ConfigError as error:
        raise SettingError(key, str(error)) from error
