"""Models and pulls over HTTP."""

from __future__ import annotations

import pytest

from moestream.config import EMBEDDED_MODEL
from tests.server.api.serving import Served


def test_models_are_listed(bare: Served) -> None:
    found = {model["name"]: model for model in bare.get("/api/models")}
    assert found[EMBEDDED_MODEL]["source"] == "embedded"
    assert found["tiny-Q8_0"]["quant"] == "Q8_0"
    assert not any(model["loaded"] for model in found.values())


def test_inspect(bare: Served) -> None:
    report = bare.get("/api/models/inspect?model=tiny-Q8_0")
    assert report["architecture"] == "qwen3moe"
    assert report["experts"]["n_expert"] > 0


def test_plan(bare: Served) -> None:
    plan = bare.get(f"/api/models/plan?model={EMBEDDED_MODEL}")
    assert plan["verdict"] in ("resident", "streams")
    assert plan["disk"] is None
    assert plan["memory"]["dense"] > 0


def test_a_plan_takes_the_settings_into_account(bare: Served) -> None:
    def snapshots() -> int:
        return int(bare.get(f"/api/models/plan?model={EMBEDDED_MODEL}")["memory"]["draft_context"])

    assert snapshots() == 0
    bare.call("PUT", "/api/settings", {"values": {"draft_source": "mtp"}})
    try:
        assert snapshots() > 0
        answer = bare.call("GET", "/api/models/plan?model=tiny-Q8_0")
        assert answer.status == 400
        assert answer.error["code"] == "refused_by_model"
    finally:
        bare.call("PUT", "/api/settings", {"values": {"draft_source": "none"}})


@pytest.mark.parametrize("model", ["/etc/passwd", "..%2fx", "%00", "nothing", ""])
@pytest.mark.parametrize("what", ["inspect", "plan"])
def test_only_listed_models_are_looked_into(bare: Served, what: str, model: str) -> None:
    assert bare.call("GET", f"/api/models/{what}?model={model}").status in (400, 404)


@pytest.mark.parametrize("seconds", ["-1", "1e9", "nan", "inf", "soon"])
def test_a_measurement_has_limits(bare: Served, seconds: str) -> None:
    answer = bare.call("GET", f"/api/models/plan?model={EMBEDDED_MODEL}&measure_s={seconds}")
    assert answer.status == 400
    assert answer.error["param"] == "measure_s"


def test_pulls(bare: Served) -> None:
    assert bare.get("/api/pulls") == []
    refused = bare.call("POST", "/api/pulls", {"reference": "../../etc/passwd"})
    assert refused.status == 400
    assert "OWNER/NAME" in refused.error["message"]
    for method, path in (
        ("POST", "/api/pulls/x/cancel"),
        ("POST", "/api/pulls/x/resume"),
        ("DELETE", "/api/pulls/x"),
    ):
        assert bare.call(method, path).status == 404
