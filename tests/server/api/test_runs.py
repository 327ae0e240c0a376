"""Runs over HTTP: import of what others wrote, refusals in words, export, comparison."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from moestream.server.api import importing
from tests.server.api.serving import Answer, Served
from tests.telemetry.recordings import run_text, token

PLAIN = run_text([token(phase="prefill"), *[token() for _ in range(20)]], {"spec": "off"})
MTP = run_text(
    [token(phase="prefill"), *[token(mtp_batch=1, drafted=1) for _ in range(9)]],
    {"spec": "mtp", "spec_draft_max": 1},
)


def take(server: Served, text: str | bytes, name: str = "theirs.csv") -> Answer:
    body = text.encode() if isinstance(text, str) else text
    return server.call("POST", f"/api/runs?name={quote(name)}", body, Content_Type="text/csv")


def test_import_open_rename_export_and_delete(bare: Served) -> None:
    taken = take(bare, PLAIN)
    assert taken.status == 201
    run = taken.data
    assert (run["name"], run["imported"], run["tokens"]) == ("theirs", True, 20)
    assert run in bare.get("/api/runs")
    path = f"/api/runs/{run['id']}"
    opened = bare.get(path)
    assert opened["n_rows"] == 21
    assert opened["series"]["tokens"] == 20
    assert bare.call("PATCH", path, {"name": "a better name"}).data["name"] == "a better name"
    exported = bare.call("GET", f"{path}/csv")
    assert exported.data == PLAIN.encode()
    assert exported.headers["content-type"].startswith("text/csv")
    assert "attachment" in exported.headers["content-disposition"]
    assert bare.call("DELETE", path).status == 204
    assert bare.call("GET", path).status == 404
    assert bare.call("DELETE", path).status == 404


def test_columns_are_read_by_name(bare: Served) -> None:
    text = "# model=theirs\nstep,mtp_batch,new_column,wall_ms\n" + "".join(
        f"{i},1,{i * i},{20 + i}\n" for i in range(6)
    )
    run = take(bare, text).data
    assert (run["model"], run["tokens"], run["hit_pct"]) == ("theirs", 6, None)
    opened = bare.get(f"/api/runs/{run['id']}")
    assert "new_column" in opened["columns"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "no header row"),
        (b"\x00" * 1000, "no header row"),
        (b"GGUF\x03\x00\x00\x00", "no header row"),
        (b"<html>no</html>\n", "line 1 is '<html>no</html>'"),
        (b"step,wall_ms\n", "no row"),
        (b"step,io_ms\n0,1\n", "without the column wall_ms"),
        (b"step,wall_ms\n0,1,2\n", "line 2 has 3 fields, but the header has 2"),
        (b"step,wall_ms\n0,fast\n", "'fast' in wall_ms, which is no number"),
        (b"step,wall_ms\n0,1e300\n", "no possible value"),
        (b"step,wall_ms,wall_ms\n0,1,1\n", "the column 'wall_ms' 2 times"),
        (b"step,wall_ms\n" + b"1" * 70_000 + b"\n", "longer than"),
        (b"turn,phase,step\n0,0,0\n", "route trace"),
        ("step,wall_ms\n0,\uff11\n".encode(), ""),
    ],
)
def test_hostile_files_are_refused_in_words(bare: Served, text: bytes, says: str) -> None:
    before = bare.get("/api/runs")
    answer = take(bare, text)
    if answer.status == 201:  # digits of another script are numbers to Python, and harmless
        assert says == ""
        bare.call("DELETE", f"/api/runs/{answer.data['id']}")
        return
    assert answer.status == 400
    assert says in answer.error["message"]
    # It does not say where on this machine things lie.
    assert str(bare.services.data.path) not in answer.error["message"]
    assert bare.get("/api/runs") == before
    assert not list(bare.services.data.runs.glob(".import-*"))


def test_files_that_are_too_large(bare: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MOST_BYTES", 1 << 20)
    answer = take(bare, b"step,wall_ms\n" + b"# a comment of some length\n" * 60_000)
    assert answer.status == 413
    assert "larger than 1 MiB" in answer.error["message"]
    monkeypatch.setattr(importing, "MOST_FIELDS", 1000)
    answer = take(bare, b"step,wall_ms\n" + b"1,1\n" * 2000)
    assert answer.status == 413
    assert "more than 1000 fields" in answer.error["message"]
    assert not list(bare.services.data.runs.glob(".import-*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_refuses_an_import_in_words(
    bare: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    monkeypatch.setattr(bare.services.runs, "import_path", lambda: full)
    answer = take(bare, PLAIN)
    assert answer.status == 507
    assert answer.error["code"] == "disk_full"


@pytest.mark.parametrize(
    ("name", "kept"),
    [("", "imported"), ("\n\t", "imported"), ("../../etc/x.csv", "../../etc/x"), ("ü ✓", "ü ✓")],
)
def test_a_name_is_only_a_name(bare: Served, name: str, kept: str) -> None:
    run = take(bare, PLAIN, name).data
    assert run["name"] == kept
    assert {path.parent for path in bare.services.data.runs.iterdir()} == {bare.services.data.runs}
    bare.call("DELETE", f"/api/runs/{run['id']}")


@pytest.mark.parametrize("name", ["..%2f..%2fmoestream.db", "%2e%2e", "x%00", "moestream", "%ff"])
def test_other_files_are_not_reached(bare: Served, name: str) -> None:
    for method, path in (
        ("GET", f"/api/runs/{name}"), ("GET", f"/api/runs/{name}/csv"),
        ("DELETE", f"/api/runs/{name}"),
    ):  # fmt: skip
        assert bare.call(method, path).status in (404, 405)
    assert (bare.services.data.path / "moestream.db").exists()


def test_a_comparison(bare: Served) -> None:
    ids = [take(bare, text).data["id"] for text in (PLAIN, MTP)]
    compared = bare.get(f"/api/runs/compare?ids={','.join(ids)}")
    assert compared["ids"] == ids
    assert compared["labels"] == ["spec off", "mtp 1"]
    assert any("accounted per group" in notice for notice in compared["notices"])
    for wrong in ("", ids[0], f"{ids[0]},{ids[0]}", ",".join(map(str, range(40)))):
        assert bare.call("GET", f"/api/runs/compare?ids={wrong}").status == 400
    assert bare.call("GET", f"/api/runs/compare?ids={ids[0]},gone").status == 404
    assert bare.call("GET", "/api/runs/compare").status == 400


def test_a_run_that_cannot_be_read_is_listed_with_the_reason(bare: Served) -> None:
    path = bare.services.data.runs / "broken.csv"
    path.write_text("this is no run\n")
    (found,) = [run for run in bare.get("/api/runs") if run["id"] == "broken"]
    assert "no run" in found["error"] or "line 1" in found["error"]
    opened = bare.call("GET", "/api/runs/broken")
    assert opened.status == 400
    assert "broken: line 1" in opened.error["message"]
    path.unlink()


def test_an_unreadable_folder_is_said(bare: Served) -> None:
    folder = bare.services.data.runs
    moved = folder.with_name("moved")
    folder.rename(moved)
    try:
        for answer in (bare.call("GET", "/api/runs"), take(bare, PLAIN)):
            assert answer.status == 503
            assert answer.error["code"] == "store_unavailable"
    finally:
        moved.rename(folder)
    assert bare.call("GET", "/api/runs").status == 200


def test_the_glossary(bare: Served) -> None:
    found = {entry["name"]: entry for entry in bare.get("/api/glossary")}
    assert found["stall_ms"]["unit"] == "ms"
    assert found["tok_s"]["where"].keys() == {"token", "done"}
    assert all(entry["meaning"] for entry in found.values())


def test_a_connection_that_breaks_off_leaves_nothing(bare: Served) -> None:
    import socket

    with socket.create_connection(("127.0.0.1", bare.port)) as connection:
        connection.sendall(
            b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
            b"Content-Length: 1000000\r\n\r\nstep,wall_ms\n0,1\n"
        )
    before = bare.get("/api/runs")
    assert not list(Path(bare.services.data.runs).glob(".import-*"))
    assert bare.get("/api/runs") == before
