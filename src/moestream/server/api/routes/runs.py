"""Recorded runs: listed, opened, compared, imported and exported."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse

from moestream.errors import ConfigError
from moestream.server.api.importing import receive
from moestream.server.api.run_view import compare, detail
from moestream.server.api.schemas import RenamedRun
from moestream.server.api.services import Services
from moestream.server.store import NotKeptError
from moestream.server.store.runs import Run
from moestream.telemetry.schema import glossary

__all__ = ["add_routes"]

_MOST_COMPARED: Final = 20

_CSV: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"text/csv": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def add_routes(router: APIRouter, services: Services) -> None:
    """Everything about runs."""
    runs = services.runs

    @router.get("/runs", tags=["runs"])
    async def read_all() -> list[dict[str, Any]]:
        """All runs, the latest first."""
        return [_listed(run) for run in await asyncio.to_thread(runs.all)]

    @router.post("/runs", tags=["runs"], status_code=201, openapi_extra=_CSV)
    async def take(
        request: Request, name: Annotated[str | None, Query(max_length=120)] = None
    ) -> dict[str, Any]:
        """Import a CSV with the columns of ours, whoever wrote it; the body is the file."""
        return _listed(await receive(request.stream(), runs, name))

    @router.get("/runs/compare", tags=["runs"])
    async def side_by_side(ids: Annotated[str, Query(max_length=4000)]) -> dict[str, Any]:
        """Two runs or more, `ids` separated by commas."""
        wanted = list(dict.fromkeys(part for part in ids.split(",") if part))
        if not 2 <= len(wanted) <= _MOST_COMPARED:
            raise ConfigError(
                f"{len(wanted)} different runs were named; from 2 to {_MOST_COMPARED} can be "
                "compared"
            )
        found = [await asyncio.to_thread(runs.get, run_id) for run_id in wanted]
        compared = await _reading(compare, [run.path for run in found], found)
        return {"ids": wanted, "names": [run.name for run in found], **compared}

    @router.get("/runs/{run_id}", tags=["runs"])
    async def read(run_id: str) -> dict[str, Any]:
        """One run: settings, rows, curves, and what it comes to."""
        run = await asyncio.to_thread(runs.get, run_id)
        return {**_listed(run), **await _reading(detail, run.path, [run])}

    @router.get("/runs/{run_id}/csv", tags=["runs"], response_class=FileResponse)
    async def export(run_id: str) -> FileResponse:
        """The file as it was recorded."""
        run = await asyncio.to_thread(runs.get, run_id)
        return FileResponse(run.path, media_type="text/csv", filename=f"{run.id}.csv")

    @router.patch("/runs/{run_id}", tags=["runs"])
    async def rename(run_id: str, wanted: RenamedRun) -> dict[str, Any]:
        """Call it something else."""
        return _listed(await asyncio.to_thread(runs.rename, run_id, wanted.name))

    @router.delete("/runs/{run_id}", tags=["runs"], status_code=204, response_class=Response)
    async def delete(run_id: str) -> None:
        """Delete its file."""
        await asyncio.to_thread(runs.delete, run_id)

    @router.get("/glossary", tags=["runs"])
    async def explain() -> list[dict[str, Any]]:
        """What every name in a recording means."""
        return [
            {
                "name": entry.name,
                "json_name": entry.json_name,
                "unit": entry.unit,
                "meaning": entry.meaning,
                "where": {
                    place: {"meaning": column.meaning, "unmeasured": column.unmeasured}
                    for place, column in entry.where.items()
                },
            }
            for entry in glossary().values()
        ]


async def _reading(read: Any, what: Any, runs: list[Run]) -> Any:
    """``read(what)`` in a thread; errors name the runs and not where their files lie."""
    try:
        return await asyncio.to_thread(read, what)
    except FileNotFoundError:
        raise NotKeptError("the run was deleted meanwhile") from None
    except (ConfigError, OSError) as error:
        message = str(error)
        for run in runs:
            message = message.replace(str(run.path), run.name)
        raise ConfigError(message) from error


def _listed(run: Run) -> dict[str, Any]:
    facts = dict(run.facts)
    started = facts.pop("started", None)
    return {
        "id": run.id,
        "name": run.name,
        "created": run.modified,
        "started": started,
        "imported": run.imported,
        "size_bytes": run.size,
        **facts,
    }
