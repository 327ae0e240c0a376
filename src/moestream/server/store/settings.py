"""Settings as they were chosen in the app; only what was chosen is kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from moestream.config import EngineConfig
from moestream.server.store.database import Database
from moestream.settings.values import (
    BY_KEY,
    SettingError,
    check_value,
    check_values,
    defaults,
    given_values,
    upgrade,
)

__all__ = ["StoredSettings"]


class StoredSettings:
    """The settings of a server: what the command line gave, else what was stored, else a default.

    Attributes:
        base: the configuration from the command line.
        values: every setting, by key.
        notices: what was not taken as it was stored, in words.
    """

    def __init__(self, database: Database, base: EngineConfig) -> None:
        """Read what is stored, bring it to today's shape, and put the command line above it."""
        self._database = database
        self.base = base
        self.notices: list[str] = []
        stored = self._read()
        current = upgrade(stored)
        if current != stored:
            self._write(current, gone=stored.keys() - current.keys())
        self.values = self._checked(current)
        given = given_values(base)
        if given:
            self.values = self._with_given(given)

    def put(self, changes: Mapping[str, Any]) -> None:
        """Take and keep ``changes``.

        Raises:
            SettingError: a value cannot be taken; nothing has changed.
            StoreError: it could not be stored; nothing has changed.
        """
        values = check_values(changes, self.values, self.base)
        self._write({key: values[key] for key in changes})
        self.values = values

    def _checked(self, stored: dict[str, Any]) -> dict[str, Any]:
        """The stored values as far as this version can take them."""
        values = defaults()
        for key, value in stored.items():
            if key not in BY_KEY:
                self.notices.append(f"the stored setting {key} is not known to this version")
                continue
            try:
                values[key] = check_value(key, value)
            except SettingError as error:
                self.notices.append(f"the stored value of {key} cannot be taken: {error}")
        try:
            return check_values({}, values, EngineConfig())
        except SettingError as error:
            self.notices.append(f"the stored settings contradict each other: {error}")
            return defaults()

    def _with_given(self, given: dict[str, Any]) -> dict[str, Any]:
        try:
            values = check_values(given, self.values, self.base)
        except SettingError as error:
            self.notices.append(f"the stored settings contradict the command line: {error}")
            values = check_values(given, defaults(), self.base)
        labels = (BY_KEY[key].label for key in given)
        self.notices.append(f"set on the command line: {', '.join(labels)}")
        return values

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for row in self._database.rows("SELECT key, value FROM settings ORDER BY key"):
            try:
                found[row["key"]] = json.loads(row["value"])
            except ValueError:
                self.notices.append(f"the stored value of {row['key']} cannot be read")
        return found

    def _write(self, values: Mapping[str, Any], gone: Iterable[str] = ()) -> None:
        with self._database.writing() as database:
            for key in sorted(gone):
                database.execute("DELETE FROM settings WHERE key = ?", key)
            for key, value in values.items():
                database.execute(
                    "INSERT INTO settings VALUES (?, ?) "
                    "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    key, json.dumps(value),
                )  # fmt: skip
