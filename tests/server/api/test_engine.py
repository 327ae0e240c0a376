"""State, events, load and unload, with the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moestream.config import EMBEDDED_MODEL
from tests.server.api.serving import Event, Served, served


def until(found: Iterator[Event], phase: str) -> dict[str, Any]:
    """The first state in ``phase``; one that failed on the way is no state to wait behind."""
    for name, data in found:
        if name == "state" and data["phase"] in (phase, "failed"):
            assert data["phase"] == phase, data["error"]
            state: dict[str, Any] = data
            return state
    raise AssertionError(f"the events ended before the engine was {phase}")


def test_the_state_of_a_server_with_a_model(server: Served) -> None:
    state = server.get("/api/state")
    assert state["phase"] == "ready"
    assert state["model"]["name"]
    assert Path(state["model"]["path"]).is_file()
    assert state["model"]["size_bytes"] == Path(state["model"]["path"]).stat().st_size
    assert state["model"]["arch"] == state["report"]["arch"]
    assert state["queue"] == {"running": 0, "waiting": 0, "limit": 4}
    assert state["memory"].keys() >= {"budget_mib", "used_mib", "available_mib"}
    assert state["settings"]["draft_source"] == "none"
    assert state["pending_reload"] == []
    assert state["error"] is None


def test_the_state_of_a_server_without_one(bare: Served) -> None:
    state = bare.get("/api/state")
    assert (state["phase"], state["model"], state["report"]) == ("unloaded", None, None)


def test_events_begin_with_the_state(bare: Served) -> None:
    with bare.stream("GET", "/api/events") as found:
        name, data = next(found)
    assert name == "state"
    assert data == bare.get("/api/state") | {"memory": data["memory"]}


def test_load_change_a_setting_reload_and_unload(tmp_path: Path) -> None:
    with served(tmp_path / "data") as running, running.stream("GET", "/api/events") as found:
        answer = running.call("POST", "/api/engine/load", {"model": EMBEDDED_MODEL})
        assert answer.status == 202
        assert answer.data["phase"] == "loading"
        assert until(found, "ready")["model"]["name"]
        listed = running.get("/api/models")
        assert [model["loaded"] for model in listed if model["source"] == "embedded"] == [True]

        changed = running.call(
            "PUT", "/api/settings", {"values": {"draft_source": "mtp", "temperature": 0.5}}
        )
        assert changed.data["pending_reload"] == ["draft_source"]
        assert running.get("/api/state")["pending_reload"] == ["draft_source"]
        reloaded = running.call("POST", "/api/engine/load", {"settings": {"draft": 2}})
        assert reloaded.status == 202
        until(found, "loading")
        state = until(found, "ready")
        assert state["pending_reload"] == []
        assert state["settings"]["draft"] == 2
        config = running.services.engine.state.config
        assert config is not None
        assert (config.speculation.source, config.speculation.draft) == ("mtp", 2)

        assert running.call("POST", "/api/engine/unload").status == 202
        assert until(found, "unloaded")["model"] is None
        assert running.call("POST", "/api/engine/cancel").data == {"cancelled": False}


@pytest.mark.parametrize("model", ["/etc/passwd", "../x.gguf", "no-such-model", "a/b:Q8_0"])
def test_only_listed_models_are_loaded(bare: Served, model: str) -> None:
    answer = bare.call("POST", "/api/engine/load", {"model": model})
    assert answer.status == 404
    assert answer.error["code"] == "model_not_found"
    assert bare.get("/api/state")["phase"] == "unloaded"


def test_settings_that_cannot_be_taken_load_nothing(bare: Served) -> None:
    answer = bare.call(
        "POST", "/api/engine/load", {"model": EMBEDDED_MODEL, "settings": {"draft": 99}}
    )
    assert answer.status == 400
    assert answer.error["param"] == "draft"
    assert bare.get("/api/state")["phase"] == "unloaded"


def test_a_model_that_cannot_be_loaded_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "bad.gguf").write_bytes(b"GGUF" + bytes(200))
    with (
        served(tmp_path / "data", models_dirs=[folder]) as running,
        running.stream("GET", "/api/events") as found,
    ):
        assert running.call("POST", "/api/engine/load", {"model": "bad"}).status == 202
        failed = next(data for name, data in found if data["phase"] == "failed")
        assert "bad.gguf" in failed["error"]
        reply = running.call("POST", "/api/conversations", {}).data["id"]
        answer = running.call("POST", f"/api/conversations/{reply}/reply", {"content": "hi"})
        assert answer.status == 503
        assert "could not be loaded" in answer.error["message"]
        assert "retry-after" not in answer.headers


def test_live_numbers_of_a_turn(server: Served) -> None:
    conversation = server.call("POST", "/api/conversations", {}).data["id"]
    server.call("PUT", "/api/settings", {"values": {"max_tokens": 200}})
    with server.stream("GET", "/api/events") as found:
        assert next(found)[0] == "state"
        server.reply(conversation, content="The cat")
        turn = next(data for name, data in found if name == "turn")
    assert turn.keys() >= {
        "index", "tok_s", "effective_tok_s", "stall_ms", "compute_ms", "draft_ms", "other_ms",
        "hit_pct", "mib_per_token", "acceptance_pct", "tokens_per_pass", "rss_mib",
        "cache_budget_mib",
    }  # fmt: skip
