"""Models that can be loaded, and what is known about each."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query

from moestream.models.as_json import inspect_as_json
from moestream.models.inspect import inspect_model
from moestream.server.api.catalog import ListedModel
from moestream.server.api.services import Services

__all__ = ["add_routes"]

Model = Annotated[str, Query(min_length=1, max_length=1000)]


def add_routes(router: APIRouter, services: Services) -> None:
    """List, inspect and plan."""

    @router.get("/models", tags=["models"])
    async def read_all() -> list[dict[str, Any]]:
        """The embedded model, those in the model folders, and those in the hub's cache."""
        found = await asyncio.to_thread(services.catalog.all)
        return [_as_json(model, services.loaded_path) for model in found]

    @router.get("/models/inspect", tags=["models"])
    async def inspect(model: Model) -> dict[str, Any]:
        """What is in a file: layers, experts, sizes, types."""
        found = await services.find_model(model)
        return await asyncio.to_thread(lambda: inspect_as_json(inspect_model(found.path)))

    @router.get("/models/plan", tags=["models"])
    async def plan(
        model: Model, measure_s: Annotated[float, Query(ge=0, le=10, allow_inf_nan=False)] = 0.0
    ) -> dict[str, Any]:
        """Whether a model runs here, in what memory, and how fast about, with the settings."""
        found = await services.find_model(model)
        answer = await services.planning.plan(found.path, services.settings.values, measure_s)
        used = services.engine.memory().get("used_mib")
        if used:
            answer["notes"].append(
                f"the model that is loaded holds {used:,.0f} MiB, which is not counted as "
                "available here; unload it first for a plan of the whole machine"
            )
        return answer


def _as_json(model: ListedModel, loaded: Path | None) -> dict[str, Any]:
    return {
        "reference": model.reference,
        "name": model.name,
        "path": str(model.path),
        "size_bytes": model.size_bytes,
        "quant": model.quant,
        "source": model.source,
        "problem": model.problem,
        "loaded": loaded is not None and _same(model.path, loaded),
    }


def _same(a: Path, b: Path) -> bool:
    try:
        return a.samefile(b)
    except OSError:
        return False
