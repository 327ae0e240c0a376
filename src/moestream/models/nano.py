"""The embedded model, and from a configured model name to the file it means."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moestream.config import EMBEDDED_MODEL
from moestream.errors import ModelError

__all__ = ["embedded_model_path", "resolve_model"]

_PATH: Final = Path(__file__).parent / "data" / f"{EMBEDDED_MODEL}.gguf"


def embedded_model_path() -> Path:
    """Path of the model that ships inside the package.

    Raises:
        ModelError: it is not there, which means that the installation is incomplete.
    """
    if not _PATH.is_file():
        raise ModelError(
            f"the embedded model {EMBEDDED_MODEL} is missing from {_PATH.parent}; "
            "reinstall moestream"
        )
    return _PATH


def resolve_model(model: str | Path) -> Path:
    """The file that ``model`` means: the embedded one by its name, else a path.

    A file in the working directory that happens to be called like the embedded model is reached
    as ``./moestream-nano``.

    Raises:
        ModelError: there is no such file.
    """
    if str(model) == EMBEDDED_MODEL:
        return embedded_model_path()
    path = Path(model).expanduser()
    if not path.exists():
        raise ModelError(
            f"there is no model file {path}; give the path of a GGUF, or "
            f"{EMBEDDED_MODEL} for the embedded one"
        )
    if path.is_dir():
        raise ModelError(
            f"{path} is a directory; give the GGUF file in it (of a split model: the first shard)"
        )
    return path
