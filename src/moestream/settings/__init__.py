"""Every switch as data: one help line each, for the command line, the app and the documentation.

Pure and light: the command line imports it for its help.
"""

from __future__ import annotations

from moestream.settings.help import HELP
from moestream.settings.table import SETTINGS, Group, Kind, Setting, Takes

__all__ = ["HELP", "SETTINGS", "Group", "Kind", "Setting", "Takes"]
