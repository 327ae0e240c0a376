"""From a model's raw text to its parts: what it thinks, what it says, which tools it calls."""

from __future__ import annotations

from moestream.server.answer.dialect import Dialect, dialect_of
from moestream.server.answer.parts import Call, Parts
from moestream.server.answer.reader import AnswerReader, make_reader

__all__ = ["AnswerReader", "Call", "Dialect", "Parts", "dialect_of", "make_reader"]
