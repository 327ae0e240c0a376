"""Settings over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from moestream.settings import HELP, SETTINGS
from tests.server.api.serving import Served


def put(server: Served, **values: Any) -> Any:
    return server.call("PUT", "/api/settings", {"values": values})


def test_every_setting_is_described(bare: Served) -> None:
    found = bare.get("/api/settings")
    schema = {entry["key"]: entry for entry in found["schema"]}
    assert list(schema) == [setting.key for setting in SETTINGS]
    assert schema.keys() == found["values"].keys() == found["applies"].keys()
    source = schema["draft_source"]
    assert (source["kind"], source["choices"]) == ("choice", ["none", "mtp", "ngram"])
    assert source["choice_help"]["mtp"] == HELP["mtp"]
    assert schema["mtp_p_min"]["applies_if"] == {"draft_source": ["mtp"]}
    assert schema["draft"]["takes"] == "reload"
    assert schema["temperature"]["takes"] == "next turn"
    assert schema["drop_cold_experts"]["lossy"]
    assert schema["drop_cold_experts"]["experimental"]
    assert schema["cache_mb"]["null_means"] == "auto"
    groups = {"draft", "streaming", "memory", "sampling", "server"}
    assert {entry["group"] for entry in schema.values()} == groups


def test_what_is_changed_stays_changed(bare: Served) -> None:
    answer = put(bare, draft_source="ngram", draft=4, system_prompt="Be brief. ✓")
    assert answer.status == 200
    assert answer.data["applies"]["ngram_min_match"]
    assert not answer.data["applies"]["mtp_p_min"]
    values = bare.get("/api/settings")["values"]
    assert (values["draft_source"], values["draft"]) == ("ngram", 4)
    assert values["system_prompt"] == "Be brief. ✓"
    assert put(bare, draft_source="none", draft=3, system_prompt="").status == 200


@pytest.mark.parametrize(
    ("values", "param"),
    [
        ({"draft": 0}, "draft"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": 0.5, "threads": "all"}, "threads"),
        ({"no_such": 1}, "no_such"),
        ({"mtp": True}, "mtp"),
        ({"draft_source": "both"}, "draft_source"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"record_runs": "yes"}, "record_runs"),
        ({"system_prompt": "\ud800"}, "system_prompt"),
        ({"system_prompt": "x" * 100_000}, "system_prompt"),
        ({"\ud800": 1}, "?"),
    ],
)
def test_a_bad_value_is_named_and_changes_nothing(
    bare: Served, values: dict[str, Any], param: str
) -> None:
    before = bare.get("/api/settings")["values"]
    answer = put(bare, **values)
    assert answer.status == 400
    assert answer.error["param"] == param
    assert answer.error["code"] == "invalid_setting"
    assert bare.get("/api/settings")["values"] == before


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{}", b'{"values": 1}', b'{"values": {}, "more": 1}', b"{", b"\xff",
        b'{"values": {"draft": ' + b"9" * 5000 + b"}}", b'{"values": ' + b"[" * 5000,
    ],
)  # fmt: skip
def test_a_body_that_is_none_of_ours(bare: Served, body: bytes) -> None:
    answer = bare.call("PUT", "/api/settings", body, Content_Type="application/json")
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"


def test_changing_nothing_is_no_error(bare: Served) -> None:
    assert put(bare).status == 200
