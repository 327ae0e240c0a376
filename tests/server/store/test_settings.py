"""Stored settings: older shapes, values that no longer fit, and the command line above them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moestream.config import EngineConfig, SamplingConfig, SpeculationConfig, StreamingConfig
from moestream.server.store import StoreFullError
from moestream.server.store.database import Database
from moestream.server.store.settings import StoredSettings
from moestream.settings.values import SettingError, defaults


def store(database: Database, **values: Any) -> None:
    for key, value in values.items():
        database.execute("INSERT INTO settings VALUES (?, ?)", key, json.dumps(value))


def stored(database: Database) -> dict[str, Any]:
    rows = database.rows("SELECT * FROM settings")
    return {row["key"]: json.loads(row["value"]) for row in rows}


@pytest.mark.parametrize(("old", "new"), [(True, "mtp"), (False, "none")])
def test_a_boolean_of_the_first_versions_becomes_a_draft_source(
    database: Database, old: bool, new: str
) -> None:
    store(database, mtp=old, draft=5)
    settings = StoredSettings(database, EngineConfig())
    assert settings.values["draft_source"] == new
    assert settings.values["draft"] == 5
    assert settings.notices == []
    # It is written back in today's shape, and read so the next time.
    assert stored(database) == {"draft_source": new, "draft": 5}
    assert StoredSettings(database, EngineConfig()).values["draft_source"] == new


def test_a_boolean_beside_todays_shape_is_dropped(database: Database) -> None:
    store(database, mtp=True, draft_source="ngram")
    assert StoredSettings(database, EngineConfig()).values["draft_source"] == "ngram"
    assert stored(database) == {"draft_source": "ngram"}


def test_only_what_was_chosen_is_kept(database: Database) -> None:
    settings = StoredSettings(database, EngineConfig())
    assert settings.values == defaults()
    settings.put({"temperature": 0.7, "cache_mb": 500})
    assert stored(database) == {"temperature": 0.7, "cache_mb": 500}
    settings.put({"cache_mb": None})
    again = StoredSettings(database, EngineConfig())
    assert again.values == {**defaults(), "temperature": 0.7}


def test_a_value_that_does_not_fit_changes_nothing(database: Database) -> None:
    settings = StoredSettings(database, EngineConfig())
    with pytest.raises(SettingError, match="draft width") as refused:
        settings.put({"temperature": 0.5, "draft": 99})
    assert refused.value.key == "draft"
    assert settings.values == defaults()
    assert stored(database) == {}


def test_stored_values_that_do_not_fit_are_said(database: Database) -> None:
    store(database, draft=99, no_such_setting=1, temperature=0.5, threads="many")
    database.execute("INSERT INTO settings VALUES ('top_k', '{')")
    settings = StoredSettings(database, EngineConfig())
    assert settings.values == {**defaults(), "temperature": 0.5}
    said = " | ".join(settings.notices)
    for key in ("draft", "no_such_setting", "threads", "top_k"):
        assert key in said


def test_stored_values_that_contradict_each_other_are_said(database: Database) -> None:
    store(database, prefetch=2, cache_mb=0, temperature=0.5)
    settings = StoredSettings(database, EngineConfig())
    assert settings.values == defaults()
    assert "contradict each other" in settings.notices[0]


def test_the_command_line_wins(database: Database) -> None:
    store(database, draft_source="ngram", temperature=0.5, io_threads=4)
    base = EngineConfig(
        streaming=StreamingConfig(io_threads=3),
        speculation=SpeculationConfig(source="mtp", draft=2),
    )
    settings = StoredSettings(database, base)
    assert settings.values["draft_source"] == "mtp"
    assert settings.values["draft"] == 2
    assert settings.values["io_threads"] == 3
    assert settings.values["temperature"] == 0.5
    assert "set on the command line: Draft source, Draft width, Read lanes" in settings.notices
    # It is above what is stored, not in its place.
    assert StoredSettings(database, EngineConfig()).values["io_threads"] == 4


def test_the_command_line_against_what_is_stored(database: Database) -> None:
    store(database, prefetch=2)
    settings = StoredSettings(database, EngineConfig(streaming=StreamingConfig(cache_mb=0)))
    assert settings.values["cache_mb"] == 0
    assert settings.values["prefetch"] == 0
    assert "contradict the command line" in settings.notices[0]


def test_sampling_from_the_command_line(database: Database) -> None:
    settings = StoredSettings(database, EngineConfig(sampling=SamplingConfig(temperature=0.3)))
    assert settings.values["temperature"] == 0.3


def test_a_full_disk_changes_nothing(database: Database) -> None:
    settings = StoredSettings(database, EngineConfig())
    pages = database.row("PRAGMA page_count")
    assert pages is not None
    database.execute(f"PRAGMA max_page_count = {pages[0]}")
    with pytest.raises(StoreFullError):
        settings.put({"system_prompt": "x" * 30_000})
    assert settings.values == defaults()
