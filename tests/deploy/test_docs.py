"""docs/deploy.md: its commands and arguments exist, its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from moestream.deploy.arguments import ReplicaArguments
from tests.deploy.test_packaging import parameters

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "deploy.md"


def test_flags_and_variables_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    flags = {name for param in parameters() for name in (*param.opts, *param.secondary_opts)}
    for command in re.findall(r"^\s*(?:\S*/)?moestream serve(.*)$", text, re.MULTILINE):
        assert set(re.findall(r"(?<!\S)(--[a-z][a-z-]*)", command)) <= flags, command
    variables = set(re.findall(r"MOESTREAM_[A-Z_]+", text))
    assert variables <= {param.envvar for param in parameters()}


def test_arguments_of_replicas_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"serve run moestream\.deploy\.ray_serve:app(.*)$", text, re.MULTILINE)
    assert commands
    for command in commands:
        ReplicaArguments.parse(dict(word.split("=", 1) for word in command.split()))
    table = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert set(table) == {"model", *ReplicaArguments.__dataclass_fields__} - {"engine"}


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", PAGE.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (PAGE.parent / target).exists(), target
