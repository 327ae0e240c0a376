"""Longer ways through the API: speculation, a killed engine, a model pulled and talked to."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moestream.models.nano import embedded_model_path
from tests.models.hub import Hub
from tests.server.api.conftest import HUB_FILE, HUB_REPO
from tests.server.api.serving import Event, Served, served


def first(found: Iterator[Event], name: str, **wanted: Any) -> Any:
    """The data of the first event of this name that has these values."""
    for other, data in found:
        if other == name and all(data[key] == value for key, value in wanted.items()):
            return data
    raise AssertionError(f"no {name} with {wanted}")


def settle(server: Served, **values: Any) -> None:
    """Take settings, and load with them."""
    with server.stream("GET", "/api/events") as found:
        assert server.call("POST", "/api/engine/load", {"settings": values}).status == 202
        first(found, "state", phase="loading")
        first(found, "state", phase="ready")


def ask(server: Served, content: str) -> tuple[str, dict[str, Any]]:
    """Text and summary of an answer in a new conversation."""
    conversation = server.call("POST", "/api/conversations", {}).data["id"]
    found = server.reply(conversation, content=content)
    assert found[-1][0] == "done", found[-1]
    done = found[-1][1]
    return done["message"]["content"], done["summary"]


def test_the_draft_source_is_switched_and_runs_are_compared(tmp_path: Path) -> None:
    with served(tmp_path, load=True) as server:
        server.call("PUT", "/api/settings", {"values": {"max_tokens": 40, "record_runs": True}})
        _plain, off = ask(server, "The old man and the sea")
        assert off["timings"]["draft_n"] == 0
        settle(server, draft_source="mtp", draft=2)
        _text, mtp = ask(server, "The old man and the sea")
        assert mtp["timings"]["draft_n"] > 0
        # What draws its tokens runs without drafts.
        server.call("PUT", "/api/settings", {"values": {"temperature": 0.9}})
        _drawn, hot = ask(server, "The old man and the sea")
        assert hot["timings"]["draft_n"] == 0
        assert server.get("/api/state")["pending_reload"] == []

        runs = {run["id"]: run for run in server.get("/api/runs")}
        assert runs.keys() == {summary["run"] for summary in (off, mtp, hot)}
        assert runs[mtp["run"]]["speculated"]
        assert runs[mtp["run"]]["spec"] == "mtp"
        assert not runs[off["run"]]["speculated"]
        compared = server.get(f"/api/runs/compare?ids={off['run']},{mtp['run']}")
        assert compared["labels"][0].startswith("spec off")
        assert compared["labels"][1].startswith("mtp 2")
        assert any("accounted per group" in notice for notice in compared["notices"])
        tokens = next(row for row in compared["rows"] if row["key"] == "decoded_tokens")
        assert tokens["values"] == [
            summary["usage"]["completion_tokens"] - 1 for summary in (off, mtp)
        ]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_engine_that_is_killed_comes_back(tmp_path: Path) -> None:
    with served(tmp_path, load=True) as server:
        values = {"max_tokens": -1, "temperature": 1.0, "seed": 3}
        server.call("PUT", "/api/settings", {"values": values})
        conversation = server.call("POST", "/api/conversations", {}).data["id"]
        path = f"/api/conversations/{conversation}"
        body = {"content": "Tell me a long story"}
        with (
            server.stream("GET", "/api/events") as events,
            server.stream("POST", f"{path}/reply", body) as found,
        ):
            token = first(found, "token")
            pid = server.services.engine.worker_pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            name, error = list(found)[-1]
            assert name == "error"
            assert error["code"] == "engine_crashed"
            first(events, "state", phase="restarting")
            first(events, "state", phase="ready")
        user, answer = server.get(path)["messages"]
        assert user["content"] == "Tell me a long story"
        assert answer["state"] == "failed"
        assert answer["content"].startswith(token["text"])
        # Once more, from where it broke off.
        server.call("PUT", "/api/settings", {"values": {"max_tokens": 5}})
        assert server.reply(conversation, after=user["id"])[-1][0] == "done"


def test_a_model_is_pulled_cancelled_resumed_and_talked_to(hub: Hub, tmp_path: Path) -> None:
    hub.files[HUB_FILE] = embedded_model_path().read_bytes()
    size = len(hub.files[HUB_FILE])
    hub.stall_after = size // 2
    reference = f"{HUB_REPO}:Q8_0"
    with served(tmp_path / "data") as server, server.stream("GET", "/api/events") as events:
        pull = server.call("POST", "/api/pulls", {"reference": reference})
        assert pull.status == 202
        path = f"/api/pulls/{pull.data['id']}"
        moving = next(
            data for name, data in events if name == "pull" and data["bytes_done"] > size // 4
        )
        assert moving["bytes_total"] == size
        cancelled = server.call("POST", f"{path}/cancel").data
        assert (cancelled["state"], cancelled["error"]) == ("cancelled", None)
        assert reference not in {model["reference"] for model in server.get("/api/models")}
        answer = server.call("POST", "/api/engine/load", {"model": reference})
        assert answer.status == 404
        assert "pull it first" in answer.error["message"]

        hub.stall_after = None
        assert server.call("POST", f"{path}/resume").status == 202
        done = first(events, "pull", state="done")
        assert done["bytes_done"] == size
        assert hub.fetched()[-1][1] is not None  # it went on where it stopped
        listed = {model["reference"]: model for model in server.get("/api/models")}
        assert listed[reference]["source"] == "hub cache"
        assert server.call("POST", "/api/engine/load", {"model": reference}).status == 202
        state = first(events, "state", phase="ready")
        assert Path(state["model"]["path"]).name == HUB_FILE
        server.call("PUT", "/api/settings", {"values": {"max_tokens": 5}})
        text, _summary = ask(server, "Hello")
        assert text
        loaded = [model for model in server.get("/api/models") if model["loaded"]]
        assert [model["reference"] for model in loaded] == [reference]
        assert server.call("DELETE", path).status == 204
        assert reference in {model["reference"] for model in server.get("/api/models")}
