"""What happens to the database when everything around it goes wrong."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from moestream.errors import ConfigError
from moestream.server.store import (
    DataDir,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
)
from moestream.server.store import database as module
from moestream.server.store.conversations import Conversations
from moestream.server.store.database import Database


def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    def half() -> None:
        with database.writing():
            database.execute("INSERT INTO settings VALUES ('a', '1')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert not database.rows("SELECT * FROM settings")
    with database.writing():
        database.execute("INSERT INTO settings VALUES ('a', '1')")
    assert len(database.rows("SELECT * FROM settings")) == 1


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    path.write_bytes(b"this is no database, but it is long enough to be looked at" * 20)
    before = path.read_bytes()
    with pytest.raises(StoreDamagedError, match=r"kept\.db is damaged.*move it away"):
        Database(path)
    assert path.read_bytes() == before


def test_a_damaged_database(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    database = Database(path)
    conversations = Conversations(database)
    for number in range(200):
        conversations.create(f"title {number} " + "x" * 200)
    database.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * 8192)
    with pytest.raises(StoreDamagedError, match="damaged"):
        Database(path)


def test_a_database_of_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="newer version of moestream"):
        Database(path)


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    path.touch()
    with closing(Database(path)) as database:
        assert not Conversations(database).all()


def test_somebody_else_holds_it(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_MS", 50)
    with (
        closing(sqlite3.connect(database.path, isolation_level=None)) as other,
        closing(Database(database.path)) as impatient,
    ):
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusyError, match="held by another program"):
            Conversations(impatient).create()
        other.execute("ROLLBACK")
        Conversations(impatient).create()


def test_a_full_disk(database: Database) -> None:
    conversations = Conversations(database)
    kept = conversations.create("before")
    pages = database.row("PRAGMA page_count")
    assert pages is not None
    database.execute(f"PRAGMA max_page_count = {pages[0]}")
    with pytest.raises(StoreFullError, match="the disk is full"):
        conversations.create("x" * 1_000_000)
    database.execute("PRAGMA max_page_count = 100000")
    conversations.create("after")
    assert conversations.get(kept.id) == kept


def test_what_was_confirmed_survives_a_kill(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time\n"
        "from pathlib import Path\n"
        "from moestream.server.store import DataDir\n"
        "from moestream.server.store.conversations import Conversations, Message\n"
        "conversations = Conversations(DataDir(Path(sys.argv[1])).database)\n"
        "made = conversations.create('kept')\n"
        "conversations.extend(made.id, [Message(id='m', role='user', content='hello',"
        " created=1.0)], keep=0)\n"
        "conversations.extend(made.id, [Message(id='n', role='assistant', content='hi',"
        " created=2.0, state='running')], keep=1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with DataDir(tmp_path) as data:
        conversations = Conversations(data.database)
        (kept,) = conversations.all()
        asked, answered = conversations.messages(kept.id)
    assert (asked.content, asked.state) == ("hello", "complete")
    # Nobody goes on with an answer that a killed server was giving.
    assert (answered.content, answered.state) == ("hi", "stopped")


def test_two_servers_on_one_directory(tmp_path: Path) -> None:
    with DataDir(tmp_path), pytest.raises(ConfigError, match=r"another .*server.*--data-dir"):
        DataDir(tmp_path)
    DataDir(tmp_path).close()


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match=r"cannot be used.*--data-dir"):
        DataDir(file)
    with pytest.raises(ConfigError, match="cannot be used"):
        DataDir(file / "below")
    with pytest.raises(ConfigError, match="cannot be used"):
        DataDir(Path("/proc/nothing/can/be/made/here"))


def test_a_database_that_cannot_be_opened_lets_go_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "moestream.db").mkdir()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"moestream\.db cannot be used"):
            DataDir(tmp_path)


def test_conversations_are_nobody_elses_business(tmp_path: Path) -> None:
    with DataDir(tmp_path / "new" / "data") as data:
        assert data.path.stat().st_mode & 0o077 == 0


def test_another_thread_may_close_the_directory(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    thread = threading.Thread(target=data.close)
    thread.start()
    thread.join()
    DataDir(tmp_path).close()
