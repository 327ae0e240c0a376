"""What clients call the model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from moestream.config import EMBEDDED_MODEL
from moestream.server.errors import ApiError
from moestream.server.worker import EngineState

__all__ = ["Names"]

_SHARD: Final = re.compile(r"-\d{5}-of-\d{5}$")


class Names:
    """The name of the model that was given at the start, and of any other."""

    def __init__(self, model: str | Path, served_name: str | None) -> None:
        """``served_name`` is for ``model`` only."""
        self._model = str(model)
        self._served = served_name

    def name(self, state: EngineState) -> str | None:
        """The name of what is open or being opened; ``None`` if that is nothing."""
        config = state.config
        if config is None:
            return None
        model = str(config.model)
        if self._served is not None and model == self._model:
            return self._served
        return model if model == EMBEDDED_MODEL else _SHARD.sub("", Path(model).stem)

    def check(self, asked: str | None, state: EngineState) -> str:
        """The name to answer with.

        Args:
            asked: what the client calls the model; nothing, or ``default``, is whatever is open.
            state: of the engine.

        Raises:
            ApiError: another model is open.
        """
        name = self.name(state) or EMBEDDED_MODEL
        if asked is None or asked == "default" or state.config is None:
            return name
        known = {name.lower(), str(state.config.model).lower(), (state.model or "").lower()}
        if asked.lower() not in known:
            raise ApiError(
                f"the model {asked!r} is not open here; ask for {name!r}",
                status=404,
                code="model_not_found",
                param="model",
            )
        return name
