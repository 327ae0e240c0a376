"""From what a user calls a model to its file."""

from __future__ import annotations

from pathlib import Path

from moestream.config import EMBEDDED_MODEL
from moestream.errors import ModelError
from moestream.models.nano import resolve_model
from moestream.models.reference import parse_reference

__all__ = ["locate_model"]


def locate_model(name: str) -> Path:
    """The file of the embedded model, of a path, or of a reference to a pulled model.

    Nothing is fetched: a reference is looked up in the cache, without network.

    Raises:
        ModelError: it is none of these.
    """
    if name == EMBEDDED_MODEL or Path(name).expanduser().exists():
        return resolve_model(name)
    reference = parse_reference(name)
    if reference is None:
        raise ModelError(
            f"no such model: {name} is not a file, not {EMBEDDED_MODEL}, "
            "and not of the form OWNER/NAME[:QUANT]"
        )
    from moestream.models.pull import find_cached

    cached = find_cached(reference)
    if cached is None:
        raise ModelError(
            f"no such model: {name} is not a file, and not pulled yet; "
            f"fetch it with: moestream pull {name}"
        )
    return cached
