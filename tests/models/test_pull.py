"""``moestream pull`` against a hub on the loopback interface, and what it leaves behind."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ModelMaker
from tests.models.hub import Hub, serve

REPO = "someone/Tiny-GGUF"


@pytest.fixture
def hub(tiny: ModelMaker) -> Iterator[Hub]:
    first = tiny("qwen3moe", split=3)
    files = {"README.md": b"# hello", "mmproj-F16.gguf": b"GGUF" + bytes(100)}
    for shard in sorted(first.parent.glob(first.name.replace("00001-of", "*-of"))):
        number = shard.name[-len("00001-of-00003.gguf") :]
        files[f"Q4_K_M/tiny-Q4_K_M-{number}"] = shard.read_bytes()
    files["tiny-Q8_0.gguf"] = tiny("qwen3moe").read_bytes()
    with serve(Hub(REPO, files)) as running:
        yield running


@pytest.fixture
def environment(hub: Hub, tmp_path: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "MOESTREAM_", "HUGGING"))
        and not name.lower().endswith("_proxy")
    }
    return {
        **kept,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


#: Runs several command lines in one process, which has the environment that the hub's client
#: reads when it is imported.
DRIVER = """
import contextlib, io, json, sys
from moestream.cli import main
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def moestream(environment: dict[str, str], *commands: list[str]) -> list[Done]:
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(commands)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = [Done(*json.loads(line)) for line in done.stdout.splitlines()]
    assert not any("Traceback" in result.err for result in results)
    return results


def test_all_shards_of_a_quantisation(hub: Hub, environment: dict[str, str]) -> None:
    first, again = moestream(
        environment, ["pull", f"{REPO}:q4_k_m"], ["pull", f"{REPO}:Q4_K_M", "--json"]
    )
    assert first.code == 0, first.err
    path = Path(first.out.strip())
    assert path.name == "tiny-Q4_K_M-00001-of-00003.gguf"
    assert len(list(path.parent.glob("*.gguf"))) == 3
    assert "3 shards" in first.err
    assert "100 %" in first.err
    assert "\x1b" not in first.err
    # A second time nothing is fetched.
    assert json.loads(again.out)["path"] == str(path)
    assert json.loads(again.out)["bytes_fetched"] == 0
    assert sorted(name for name, _range in hub.fetched()) == [
        f"Q4_K_M/tiny-Q4_K_M-{n:05d}-of-00003.gguf" for n in (1, 2, 3)
    ]

    # Offline it is found by its reference; the only one in the cache needs no quantisation.
    offline = {**environment, "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    named, unnamed, refused, pulled = moestream(
        offline,
        ["inspect", f"{REPO}:Q4_K_M", "--json"],
        ["inspect", REPO, "--json"],
        ["run", "-p", "hi", "-m", f"{REPO}:Q8_0"],
        ["pull", f"{REPO}:Q8_0"],
    )
    assert json.loads(named.out)["architecture"] == "qwen3moe"
    assert unnamed.out == named.out
    assert refused.code == 1
    assert f"moestream pull {REPO}:Q8_0" in refused.err
    assert pulled.code == 1
    assert "offline" in pulled.err


def test_what_cannot_be_pulled(environment: dict[str, str]) -> None:
    unnamed, unknown, nowhere = moestream(
        environment, ["pull", REPO], ["pull", f"{REPO}:Q5_K_S"], ["pull", "someone/else:Q8_0"]
    )
    assert [unnamed.code, unknown.code, nowhere.code] == [1, 1, 1]
    assert "Q4_K_M" in unnamed.err
    assert "Q8_0" in unnamed.err
    assert "mmproj" not in unnamed.err
    assert "no Q5_K_S" in unknown.err
    assert "Q4_K_M" in unknown.err
    assert "no such repository" in nowhere.err
    assert len(nowhere.err.splitlines()) == 1


def test_private_repository(hub: Hub, environment: dict[str, str]) -> None:
    hub.token = "hf_secret"
    (refused,) = moestream(environment, ["pull", f"{REPO}:Q8_0"])
    assert refused.code == 1
    assert "HF_TOKEN" in refused.err
    (done,) = moestream({**environment, "HF_TOKEN": "hf_secret"}, ["pull", f"{REPO}:Q8_0"])
    assert done.code == 0, done.err
    assert "hf_secret" not in done.err + done.out


def test_no_server(environment: dict[str, str]) -> None:
    closed = {**environment, "HF_ENDPOINT": "http://127.0.0.1:9"}
    (done,) = moestream(closed, ["pull", f"{REPO}:Q8_0"])
    assert done.code == 1
    assert f"could not list {REPO}" in done.err


def test_a_damaged_part_is_noticed(hub: Hub, environment: dict[str, str], tmp_path: Path) -> None:
    digest = hashlib.sha256(hub.files["tiny-Q8_0.gguf"]).hexdigest()
    blobs = tmp_path / "hf" / "hub" / ("models--" + REPO.replace("/", "--")) / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{digest}.incomplete").write_bytes(b"garbage")
    damaged, fetched = moestream(environment, *[["pull", f"{REPO}:Q8_0"]] * 2)
    assert damaged.code == 1
    assert "damaged" in damaged.err
    assert fetched.code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interrupted_pull_goes_on_where_it_stopped(
    hub: Hub, environment: dict[str, str], tmp_path: Path
) -> None:
    # The client takes ten million bytes at a time.
    hub.files["tiny-Q8_0.gguf"] = os.urandom(25_000_000)
    hub.stall_after = 12_000_000
    with subprocess.Popen(
        [sys.executable, "-m", "moestream", "pull", f"{REPO}:Q8_0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            partial = list(tmp_path.glob("hf/hub/models--*/blobs/*.incomplete"))
            if partial and partial[0].stat().st_size > 0:
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    (part,) = tmp_path.glob("hf/hub/models--*/blobs/*.incomplete")
    size = part.stat().st_size
    assert 0 < size < 25_000_000

    hub.stall_after = None
    (done,) = moestream(environment, ["pull", f"{REPO}:Q8_0"])
    assert done.code == 0, done.err
    assert hub.fetched()[-1] == ("tiny-Q8_0.gguf", f"bytes={size}-")
    assert Path(done.out.strip()).read_bytes() == hub.files["tiny-Q8_0.gguf"]
    assert not list(tmp_path.glob("hf/hub/models--*/blobs/*.incomplete"))
