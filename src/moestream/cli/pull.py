"""``moestream pull``: fetch a model from a hub into the shared cache."""

from __future__ import annotations

from typing import Annotated

from moestream.cli.console import note, progress_bytes, status, write_json, write_text
from moestream.cli.declare import argument, option
from moestream.cli.expand import verb
from moestream.cli.options import JsonOption
from moestream.errors import ConfigError
from moestream.models.pull import fetch, plan_pull
from moestream.models.reference import parse_reference

__all__ = ["pull"]


@verb
def pull(
    reference: Annotated[
        str, argument("REPO[:QUANT]", help="As in OWNER/NAME:Q4_K_M; case does not matter.")
    ],
    revision: Annotated[
        str | None,
        option("--revision", metavar="REV", help="Branch, tag or commit instead of main."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Fetch a GGUF model (all its shards) through huggingface_hub and print its path.

    Goes on where an interrupted pull stopped. HF_TOKEN, HF_HOME, HF_ENDPOINT and HF_HUB_OFFLINE
    mean what they mean everywhere.
    """
    parsed = parse_reference(reference)
    if parsed is None:
        raise ConfigError(f"{reference!r} is not of the form OWNER/NAME[:QUANT]")
    with status(f"looking at {parsed.repo}"):
        plan = plan_pull(parsed, revision=revision)
    shards = f"{len(plan.files)} shards, " if len(plan.files) > 1 else ""
    note(f"{parsed.repo}:{plan.label}: {shards}{plan.bytes_total / 2**30:.2f} GiB")
    if plan.bytes_to_fetch:
        with progress_bytes(plan.label, plan.bytes_total) as progress:
            path = fetch(plan, progress)
    else:
        path = fetch(plan)
        note("already here")
    if json:
        write_json(
            {
                "path": str(path),
                "repo": parsed.repo,
                "label": plan.label,
                "commit": plan.commit,
                "files": [{"name": file.name, "bytes": file.size} for file in plan.files],
                "bytes_total": plan.bytes_total,
                "bytes_fetched": plan.bytes_to_fetch,
            }
        )
    else:
        write_text(str(path))
