from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moestream.server.store import NotKeptError, StoreError
from moestream.server.store.database import Database
from moestream.server.store.runs import Runs


class Reader:
    """Counts how often a file is read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, path: Path) -> dict[str, Any]:
        self.read.append(path.name)
        return {"text": path.read_text()}


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "runs"
    made.mkdir()
    return made


@pytest.fixture
def runs(database: Database, folder: Path, reader: Reader) -> Runs:
    return Runs(database, folder, reader)


def test_files_are_listed_and_read_once(runs: Runs, folder: Path, reader: Reader) -> None:
    (folder / "one.csv").write_text("1")
    (folder / "two.csv").write_text("2")
    (folder / "note.txt").write_text("none of ours")
    (folder / ".hidden.csv").write_text("none of ours")
    (folder / "folder.csv").mkdir()
    assert {run.id for run in runs.all()} == {"one", "two"}
    assert [run.facts["text"] for run in runs.all() if run.id == "two"] == ["2"]
    assert sorted(reader.read) == ["one.csv", "two.csv"]
    (folder / "two.csv").write_text("more")
    assert runs.get("two").facts == {"text": "more"}
    assert reader.read[2:] == ["two.csv"]


def test_a_name_that_cannot_stand_in_an_address(runs: Runs, folder: Path) -> None:
    (folder / "my run, ü.csv").write_text("x")
    (run,) = runs.all()
    assert run.id.startswith("file-")
    assert run.name == "my run, ü"
    assert runs.get(run.id).path.name == "my run, ü.csv"


@pytest.mark.parametrize("run", ["../secret", "..", "", "a/b", "/etc/passwd", "\x00", "secret"])
def test_only_listed_files_are_reached(runs: Runs, folder: Path, run: str) -> None:
    secret = folder.parent / "secret.csv"
    secret.write_text("secret")
    for use in (runs.get, runs.delete, lambda run: runs.rename(run, "x")):
        with pytest.raises(NotKeptError, match="there is no run"):
            use(run)
    assert secret.exists()


def test_renaming_and_deleting(runs: Runs, folder: Path) -> None:
    (folder / "one.csv").write_text("1")
    assert runs.rename("one", "the first").name == "the first"
    assert runs.all()[0].name == "the first"
    runs.delete("one")
    assert not runs.all()
    assert not list(folder.iterdir())
    # The name goes with the file.
    (folder / "one.csv").write_text("1")
    assert runs.get("one").name == "one"


def test_a_file_that_is_gone_is_forgotten(runs: Runs, folder: Path, database: Database) -> None:
    (folder / "one.csv").write_text("1")
    runs.rename("one", "the first")
    (folder / "one.csv").unlink()
    assert runs.all() == []
    assert not database.rows("SELECT * FROM runs")


def test_importing(runs: Runs, folder: Path) -> None:
    path = runs.import_path()
    path.write_text("from elsewhere")
    assert runs.all() == []
    run = runs.take(path, "theirs")
    assert (run.name, run.imported, run.facts) == ("theirs", True, {"text": "from elsewhere"})
    assert not path.exists()
    with pytest.raises(StoreError, match="cannot keep the imported run"):
        runs.take(path, "again")


def test_what_an_import_left_behind_is_cleared(
    database: Database, folder: Path, reader: Reader
) -> None:
    (folder / ".import-0123").write_text("half")
    Runs(database, folder, reader)
    assert not list(folder.iterdir())


def test_the_folder_is_gone(runs: Runs, folder: Path) -> None:
    folder.rmdir()
    with pytest.raises(StoreError, match="cannot read the folder of runs"):
        runs.all()


def test_new_runs_do_not_replace_each_other(runs: Runs) -> None:
    assert len({runs.new_path() for _ in range(20)}) == 20


def test_a_full_disk_hides_nothing(runs: Runs, folder: Path, database: Database) -> None:
    (folder / "one.csv").write_text("x" * 1_000_000)
    pages = database.row("PRAGMA page_count")
    assert pages is not None
    database.execute(f"PRAGMA max_page_count = {pages[0]}")
    assert [run.id for run in runs.all()] == ["one"]
    assert runs.get("one").size == 1_000_000
    runs.delete("one")
    assert runs.all() == []
