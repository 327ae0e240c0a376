"""The documentation says what the command line does."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.cli.test_options import parameters

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_page_is_up_to_date() -> None:
    page = runpy.run_path(str(DOCS / "generate_cli.py"))["render"]()
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == page, "run docs/generate_cli.py"


def known_flags() -> set[str]:
    names = {name for _verb, param in parameters() for name in [*param.opts, *param.secondary_opts]}
    return names | {"--help", "--version", "--install-completion", "--show-completion"}


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "docs/adding-a-model.md", "docs/bench.md"]
)
def test_commands_in_the_text_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    commands = re.findall(r"^\s*(?:\$ )?moestream (\w+)(.*)$", text, re.MULTILINE)
    verbs = {verb.split()[0] for verb, _param in parameters()}
    for verb, rest in commands:
        assert verb in verbs
        assert set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", rest)) <= known_flags()


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "docs/adding-a-model.md", "docs/bench.md"]
)
def test_links_lead_somewhere(name: str) -> None:
    path = ROOT / name
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target
