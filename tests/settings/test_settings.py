"""The table of switches says what the configuration says."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from moestream.config import EngineConfig, SamplingConfig, SpeculationConfig, StreamingConfig
from moestream.errors import ConfigError
from moestream.settings import HELP, SETTINGS, Setting
from moestream.settings.values import (
    BY_KEY,
    SettingError,
    applies,
    check_value,
    check_values,
    defaults,
    engine_config,
    given_values,
    reload_keys,
    sampling_config,
    upgrade,
)

IN_CONFIG = [setting for setting in SETTINGS if setting.path]
NUMBERS = [setting for setting in SETTINGS if setting.kind in ("int", "float")]


def test_every_field_of_the_configuration_is_a_setting() -> None:
    paths = {setting.path for setting in SETTINGS}
    apart = {"model", "chat_template", "streaming", "sampling", "speculation"}
    apart |= {"speculation.ngram_max_match", "speculation.synthetic_acceptance"}
    parts: dict[str, type] = {
        "": EngineConfig, "streaming.": StreamingConfig, "sampling.": SamplingConfig,
        "speculation.": SpeculationConfig,
    }  # fmt: skip
    every = {prefix + field.name for prefix, part in parts.items() for field in fields(part)}
    assert every - apart == paths - {""}


def test_every_setting_has_a_line_of_help_and_every_line_a_use() -> None:
    assert all(setting.help and setting.label for setting in SETTINGS)
    assert set(HELP) == set(BY_KEY) | set(BY_KEY["draft_source"].choices or ())


def test_kinds_come_from_the_configuration() -> None:
    assert {s.key: s.kind for s in SETTINGS if s.kind == "choice"} == {
        "draft_source": "choice",
        "dense_weights": "choice",
    }
    assert BY_KEY["draft_source"].choices == ("none", "mtp", "ngram")
    assert (BY_KEY["overlap"].kind, BY_KEY["overlap"].nullable) == ("bool", True)
    assert (BY_KEY["cache_mb"].kind, BY_KEY["cache_mb"].default) == ("int", None)
    assert BY_KEY["mtp_p_min"].kind == "float"
    assert BY_KEY["system_prompt"].kind == "text"


@pytest.mark.parametrize("setting", IN_CONFIG, ids=lambda s: s.key)
def test_none_is_taken_exactly_where_the_table_says(setting: Setting) -> None:
    if setting.nullable:
        assert check_value(setting.key, None) is None
    else:
        with pytest.raises(SettingError, match=f"{setting.key} needs a value"):
            check_value(setting.key, None)


@pytest.mark.parametrize("setting", NUMBERS, ids=lambda s: s.key)
def test_ranges_are_those_of_the_configuration(setting: Setting) -> None:
    if setting.minimum is not None:
        with pytest.raises(SettingError) as refused:
            check_value(setting.key, int(setting.minimum) - 1)
        assert refused.value.key == setting.key
    if setting.maximum is not None:
        with pytest.raises(SettingError):
            check_value(setting.key, int(setting.maximum) + 1)
    inside = setting.maximum if setting.maximum is not None else (setting.minimum or 0) + 8
    if setting.key != "min_p":  # 1 itself is not in its range
        check_value(setting.key, int(inside))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.key)
@pytest.mark.parametrize(
    "value", [True, 1, -(10**30), 10**30, 1.5, float("nan"), "x", "\ud800", [], {}, [1], "auto", ""]
)
def test_any_value_is_taken_or_refused_in_words(setting: Setting, value: Any) -> None:
    refused: SettingError | None = None
    taken: Any = None
    try:
        taken = check_value(setting.key, value)
    except SettingError as error:
        refused = error
    if refused is not None:
        assert refused.key == setting.key
        assert str(refused).isprintable()
    else:
        assert json.loads(json.dumps(taken)) == taken
        assert str(taken).encode("utf-8").decode() == str(taken)
        assert isinstance(taken, str) or taken is None or abs(taken) < 2**40


def test_an_unknown_setting() -> None:
    with pytest.raises(SettingError, match="no setting 'cache'; there is draft_source") as refused:
        check_values({"cache": 1}, defaults(), EngineConfig())
    assert refused.value.key == "cache"


def test_defaults_mean_the_default_configuration() -> None:
    assert engine_config(defaults(), EngineConfig()) == EngineConfig()
    assert sampling_config(defaults()) == SamplingConfig()


def test_values_become_a_configuration() -> None:
    changes = {
        "draft_source": "mtp", "draft": 5, "mtp_p_min": 0.25, "cache_mb": 700, "threads": 2,
        "overlap": False, "temperature": 0.8,
    }  # fmt: skip
    values = check_values(changes, defaults(), EngineConfig())
    config = engine_config(values, EngineConfig(model="other"))
    assert config == EngineConfig(
        model="other",
        threads=2,
        streaming=StreamingConfig(cache_mb=700, overlap=False),
        speculation=SpeculationConfig(source="mtp", draft=5, mtp_p_min=0.25),
    )
    # A session that speculates is greedy by default; the turn itself draws.
    assert sampling_config(values).temperature == 0.8
    assert given_values(config).keys() == changes.keys() - {"temperature"}


def test_what_does_not_apply_waits() -> None:
    values = {**defaults(), "draft": 6, "mtp_p_min": 0.5, "drop_in_prefill": True}
    assert engine_config(values, EngineConfig()) == EngineConfig()
    assert not applies(BY_KEY["draft"], values)
    ngram = {**values, "draft_source": "ngram"}
    assert applies(BY_KEY["draft"], ngram)
    assert not applies(BY_KEY["mtp_p_min"], ngram)
    assert engine_config(ngram, EngineConfig()).speculation == SpeculationConfig(
        source="ngram", draft=6
    )


def test_contradictions_are_refused() -> None:
    with pytest.raises(SettingError, match="prefetch"):
        check_values({"cache_mb": 0, "prefetch": 1}, defaults(), EngineConfig())
    with pytest.raises(ConfigError, match="micro-batch"):
        check_values({"draft_source": "mtp", "n_ubatch": 2}, defaults(), EngineConfig())


def test_what_waits_for_a_reload() -> None:
    loaded = EngineConfig()
    values = {**defaults(), "temperature": 0.5, "draft": 4, "max_tokens": 7}
    assert reload_keys(values, loaded, EngineConfig()) == []
    values |= {"draft_source": "ngram", "cache_mb": 100}
    assert reload_keys(values, loaded, EngineConfig()) == ["draft_source", "draft", "cache_mb"]
    assert reload_keys(values, engine_config(values, loaded), EngineConfig()) == []


def test_upgrading_leaves_the_rest_alone() -> None:
    assert upgrade({"mtp": "nonsense", "draft": 2}) == {"draft": 2}
    assert upgrade({"draft": 2}) == {"draft": 2}
