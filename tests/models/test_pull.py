"""``moestream pull`` against a hub on the loopback interface, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
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


def moestream(
    environment: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "moestream", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def test_all_shards_of_a_quantisation(hub: Hub, environment: dict[str, str]) -> None:
    done = moestream(environment, "pull", f"{REPO}:q4_k_m")
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    assert path.name == "tiny-Q4_K_M-00001-of-00003.gguf"
    assert len(list(path.parent.glob("*.gguf"))) == 3
    assert "3 shards" in done.stderr
    assert "100 %" in done.stderr
    assert "\x1b" not in done.stderr
    assert {name for name, _range in hub.fetched()} == {
        f"Q4_K_M/tiny-Q4_K_M-{n:05d}-of-00003.gguf" for n in (1, 2, 3)
    }

    # A second time nothing is fetched, and offline it is found by its reference.
    before = len(hub.fetched())
    again = moestream(environment, "pull", f"{REPO}:Q4_K_M", "--json")
    assert json.loads(again.stdout)["path"] == str(path)
    assert json.loads(again.stdout)["bytes_fetched"] == 0
    assert len(hub.fetched()) == before
    offline = {**environment, "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    inspected = moestream(offline, "inspect", f"{REPO}:Q4_K_M", "--json")
    assert json.loads(inspected.stdout)["architecture"] == "qwen3moe"
    # The only one in the cache needs no name.
    assert moestream(offline, "inspect", REPO, "--json").stdout == inspected.stdout
    refused = moestream(offline, "run", "-p", "hi", "-m", f"{REPO}:Q8_0")
    assert refused.returncode == 1
    assert f"moestream pull {REPO}:Q8_0" in refused.stderr


def test_no_quantisation_given(environment: dict[str, str]) -> None:
    done = moestream(environment, "pull", REPO)
    assert done.returncode == 1
    assert "Q4_K_M" in done.stderr
    assert "Q8_0" in done.stderr
    assert "mmproj" not in done.stderr


def test_no_such_quantisation(environment: dict[str, str]) -> None:
    done = moestream(environment, "pull", f"{REPO}:Q5_K_S")
    assert done.returncode == 1
    assert "no Q5_K_S" in done.stderr
    assert "Q4_K_M" in done.stderr


def test_no_such_repository(environment: dict[str, str]) -> None:
    done = moestream(environment, "pull", "someone/else:Q8_0")
    assert done.returncode == 1
    assert "no such repository" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_private_repository(hub: Hub, environment: dict[str, str]) -> None:
    hub.token = "hf_secret"
    refused = moestream(environment, "pull", f"{REPO}:Q8_0")
    assert refused.returncode == 1
    assert "HF_TOKEN" in refused.stderr
    done = moestream({**environment, "HF_TOKEN": "hf_secret"}, "pull", f"{REPO}:Q8_0")
    assert done.returncode == 0, done.stderr
    assert "hf_secret" not in done.stderr + done.stdout


def test_no_server(environment: dict[str, str]) -> None:
    done = moestream({**environment, "HF_ENDPOINT": "http://127.0.0.1:9"}, "pull", f"{REPO}:Q8_0")
    assert done.returncode == 1
    assert f"could not list {REPO}" in done.stderr


def test_offline(environment: dict[str, str]) -> None:
    done = moestream({**environment, "HF_HUB_OFFLINE": "1"}, "pull", f"{REPO}:Q8_0")
    assert done.returncode == 1
    assert "offline" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interrupted_pull_goes_on_where_it_stopped(
    hub: Hub, environment: dict[str, str], tmp_path: Path
) -> None:
    hub.files["tiny-Q8_0.gguf"] = os.urandom(4 * 2**20)
    hub.pause = 0.01
    with subprocess.Popen(
        [sys.executable, "-m", "moestream", "pull", f"{REPO}:Q8_0"],
        env={**environment, "HF_HUB_DOWNLOAD_TIMEOUT": "10"},
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
    assert 0 < size < 4 * 2**20

    hub.pause = 0.0
    done = moestream(environment, "pull", f"{REPO}:Q8_0")
    assert done.returncode == 0, done.stderr
    assert hub.fetched()[-1] == ("tiny-Q8_0.gguf", f"bytes={size}-")
    assert Path(done.stdout.strip()).read_bytes() == hub.files["tiny-Q8_0.gguf"]
    assert not list(tmp_path.glob("hf/hub/models--*/blobs/*.incomplete"))


def test_a_damaged_part_is_noticed(
    hub: Hub, environment: dict[str, str], tmp_path: Path
) -> None:
    import hashlib

    digest = hashlib.sha256(hub.files["tiny-Q8_0.gguf"]).hexdigest()
    blobs = tmp_path / "hf" / "hub" / ("models--" + REPO.replace("/", "--")) / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{digest}.incomplete").write_bytes(b"garbage")
    done = moestream(environment, "pull", f"{REPO}:Q8_0")
    assert done.returncode == 1
    assert "damaged" in done.stderr
    assert moestream(environment, "pull", f"{REPO}:Q8_0").returncode == 0
