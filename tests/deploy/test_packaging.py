"""The units, the image and the example of settings say what the command line knows."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import typer

from moestream.cli.app import app

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
UNITS = sorted(PACKAGING.glob("systemd/*/moestream.service"))
CONTAINERFILE = PACKAGING / "Containerfile"
EXAMPLE = PACKAGING / "moestream.env"


def parameters() -> list[Any]:
    """Of ``moestream serve``."""
    root: Any = typer.main.get_command(app)
    found: list[Any] = root.commands["serve"].params
    return found


def check_command(words: list[str]) -> None:
    """Every word after the program is the verb, a flag that exists, or the flag's value."""
    assert Path(words[0]).name == "moestream"
    assert words[1] == "serve"
    flags = {name: param for param in parameters() for name in (*param.opts, *param.secondary_opts)}
    rest = words[2:]
    while rest:
        flag = rest.pop(0)
        assert flag in flags, f"{flag} is no flag of moestream serve"
        if not flags[flag].is_flag:
            assert rest, f"{flag} needs a value"
            assert not rest[0].startswith("--")
            rest.pop(0)


def unit(path: Path) -> RawConfigParser:
    """A unit, whose later lines of the same name replace earlier ones here."""
    parser = RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path, encoding="utf-8")
    return parser


def instructions(text: str) -> list[tuple[str, str]]:
    """Instructions of a Containerfile, lines that go on joined."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    lines = [line.strip() for line in joined.splitlines() if line.strip()]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_there_is_a_unit_for_the_system_and_one_for_users() -> None:
    assert [path.parent.name for path in UNITS] == ["system", "user"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.parent.name)
def test_units_start_what_the_command_line_knows(path: Path) -> None:
    check_command(shlex.split(unit(path)["Service"]["ExecStart"]))


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.parent.name)
def test_units_give_a_running_answer_its_time(path: Path) -> None:
    service = unit(path)["Service"]
    (timeout,) = [p for p in parameters() if "--shutdown-timeout" in p.opts]
    # Closing connections and freeing a model come after it.
    assert float(service["TimeoutStopSec"]) >= timeout.default + 5 + 10
    assert service["KillMode"] == "mixed", "the engine is ended by the server, not by systemd"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.parent.name)
def test_units_let_the_engine_work(path: Path) -> None:
    service = unit(path)["Service"]
    assert "userfaultfd" in service["SystemCallFilter"].split()
    assert service.get("ProcSubset", "all") == "all", "the memory stands in /proc/meminfo"
    assert service.get("PrivateNetwork", "no") == "no"
    assert "AF_UNIX" in service["RestrictAddressFamilies"].split()


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.parent.name)
def test_systemd_understands_the_units(path: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    program = shlex.split(unit(path)["Service"]["ExecStart"])[0]
    copy = tmp_path / path.name
    # It checks that the program is there.
    copy.write_text(path.read_text(encoding="utf-8").replace(program, sys.executable))
    scope = ["--user"] if path.parent.name == "user" else []
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *scope, str(copy)],
        capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
    )  # fmt: skip
    complaints = [line for line in done.stderr.splitlines() if path.name in line]
    assert not complaints
    assert done.returncode == 0, done.stderr


def test_the_image_starts_what_the_command_line_knows() -> None:
    found = dict(instructions(CONTAINERFILE.read_text(encoding="utf-8")))
    words = json.loads(found["ENTRYPOINT"])
    check_command(words)
    port = words[words.index("--port") + 1]
    assert found["EXPOSE"] == port
    volumes = json.loads(found["VOLUME"])
    assert words[words.index("--data-dir") + 1] in volumes
    assert words[words.index("--models-dir") + 1] in volumes


def test_the_image_is_checked_where_it_listens() -> None:
    found = dict(instructions(CONTAINERFILE.read_text(encoding="utf-8")))
    words = json.loads(found["ENTRYPOINT"])
    program, flag, code = json.loads(found["HEALTHCHECK"].split("CMD", 1)[1])
    assert (program, flag) == ("/opt/moestream/bin/python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    port = words[words.index("--port") + 1]
    assert f"http://127.0.0.1:{port}/health" in code


def test_the_image_does_not_run_as_root() -> None:
    stages = CONTAINERFILE.read_text(encoding="utf-8").split("\nFROM ")
    last = instructions("FROM " + stages[-1])
    names = [name for name, _ in last]
    assert len(stages) == 3  # what comes before the first one, and two stages
    assert names.index("USER") < names.index("ENTRYPOINT")
    user = dict(last)["USER"]
    assert user.isdigit(), "only a number can be checked by whoever runs it (runAsNonRoot)"
    assert int(user) != 0


def test_the_image_compiles_the_right_llama_cpp() -> None:
    wanted = re.search(r'"llama-cpp-python==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    built = re.search(r"ARG LLAMA_CPP_PYTHON=([\d.]+)", CONTAINERFILE.read_text())
    assert wanted is not None
    assert built is not None
    assert built[1] == wanted[1]


def test_the_image_is_made_of_what_is_there() -> None:
    copied = [
        word
        for name, rest in instructions(CONTAINERFILE.read_text(encoding="utf-8"))
        if name == "COPY" and "--from" not in rest
        for word in rest.split()[:-1]
    ]
    assert copied
    ignored = (PACKAGING / "Containerfile.dockerignore").read_text(encoding="utf-8").split()
    for word in copied:
        assert (ROOT / word).exists(), word
        assert f"!{word}" in ignored, f"{word} is kept away from the build"


def test_every_variable_in_the_example_is_one() -> None:
    known = {param.envvar for param in parameters()}
    named = re.findall(r"^#?(MOESTREAM_\w+)=", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) > 5
    assert not set(named) - known
