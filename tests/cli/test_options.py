"""The command tree as a whole: help, environment variables, usage errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import typer

from moestream.cli.app import app
from moestream.cli.options import EngineOptions
from moestream.cli.speculation import SpeculationOptions
from moestream.config import EngineConfig, SamplingConfig, SpeculationConfig, StreamingConfig
from moestream.errors import ConfigError
from tests.cli.conftest import Cli

VERBS = ("run", "chat", "serve", "inspect", "plan", "pull", "archs", "trace", "plot", "bench")


def parameters() -> Iterator[tuple[str, Any]]:
    """Of every verb, and of the verbs of a group as ``bench run``."""
    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        verbs = {name: command}
        for part, member in getattr(command, "commands", {}).items():
            verbs[f"{name} {part}"] = member
        for verb, found in verbs.items():
            for param in found.params:
                yield verb, param


def test_there_is_every_verb() -> None:
    root: Any = typer.main.get_command(app)
    assert tuple(root.list_commands(None)) == VERBS


@pytest.mark.parametrize(("verb", "param"), list(parameters()), ids=lambda v: getattr(v, "name", v))
def test_every_flag_has_help_and_an_environment_variable(verb: str, param: Any) -> None:
    assert param.help, f"{verb} {param.name} has no help"
    if param.param_type_name == "argument":
        return
    long = next(name for name in param.opts if name.startswith("--"))
    assert param.envvar == "MOESTREAM_" + long.removeprefix("--").replace("-", "_").upper()
    assert param.show_envvar


def test_one_variable_means_one_thing() -> None:
    meaning: dict[str, tuple[str, str]] = {}
    for _verb, param in parameters():
        if param.param_type_name == "option":
            said = (param.name, param.help)
            assert meaning.setdefault(param.envvar, said) == said


def test_every_setting_has_a_flag() -> None:
    names = {name for _verb, param in parameters() for name in param.opts}
    renamed = {
        "n_ctx": "ctx",
        "n_ubatch": "ubatch",
        "o_direct": "odirect",
        "temperature": "temp",
    }
    settings = [f.name for kind in (EngineConfig, StreamingConfig) for f in fields(kind)]
    settings += [f.name for kind in (SamplingConfig, SpeculationConfig) for f in fields(kind)]
    # A source has a flag each, and how far back to look for matches is not worth one.
    apart = ("streaming", "sampling", "speculation", "source", "ngram_max_match")
    assert {"--mtp", "--ngram"} <= names
    for name in settings:
        if name not in apart:
            assert "--" + renamed.get(name, name).replace("_", "-") in names


def test_speculation_flags_become_settings() -> None:
    assert SpeculationOptions().config() == SpeculationConfig()
    assert SpeculationOptions(mtp=True, draft=5, mtp_p_min=0.4).config() == SpeculationConfig(
        source="mtp", draft=5, mtp_p_min=0.4
    )
    assert SpeculationOptions(ngram=True, ngram_min_match=5).config() == SpeculationConfig(
        source="ngram", ngram_min_match=5
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"mtp": True, "ngram": True}, "exclude each other"),
        ({"draft": 3}, "--draft has no effect without --mtp or --ngram"),
        ({"mtp_p_min": 0.0}, "--mtp-p-min has no effect without --mtp"),
        ({"ngram": True, "mtp_p_min": 0.5}, "--mtp-p-min has no effect without --mtp"),
        ({"mtp": True, "ngram_min_match": 3}, "--ngram-min-match has no effect without --ngram"),
        ({"synthetic_acceptance": 0.5}, "no effect without --mtp or --ngram"),
    ],
)
def test_speculation_flags_that_contradict_are_refused(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SpeculationOptions(**flags).config()


def test_defaults_are_those_of_the_configuration() -> None:
    options = EngineOptions(model=__file__)
    assert options.config() == EngineConfig(model=options.config().model)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb(cli: Cli, verb: str) -> None:
    result = cli(verb, "--help")
    assert result.code == 0
    assert f"moestream {verb}" in result.out
    assert result.err == ""


def test_without_arguments_there_is_help(cli: Cli) -> None:
    result = cli()
    assert result.code == 0
    assert all(verb in result.out for verb in VERBS)


def test_version(cli: Cli) -> None:
    import moestream

    assert cli("--version").out == f"moestream {moestream.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], "frobnicate"),
        (["run", "--frobnicate"], "--frobnicate"),
        (["inspect"], "MODEL"),
        (["run", "-p", "hi", "--temp", "hot"], "--temp"),
        (["run", "-p", "hi", "--temp", "-1"], "temperature"),
        (["run", "-p", "hi", "--cache-mb", "lots"], "--cache-mb"),
        (["run", "-p", "hi", "--cache-mb", "-5"], "--cache-mb"),
        (["run", "-p", "hi", "--threads", "0"], "--threads"),
        (["run", "-p", "hi", "--dense-weights", "gold"], "--dense-weights"),
        (["run", "-p", "hi", "--io-threads", "0"], "io threads"),
        (["run", "-p", "hi", "--cache-mb", "10", "--cache-ceil-mb", "10"], "ceiling"),
        (["run", "-p", "hi", "--drop-cold-experts", "2"], "drop-cold-experts"),
        (["run", "-p", "hi", "--prefetch", "1", "--cache-mb", "0"], "prefetch"),
        (["run", "-p", "hi", "--json", "--json-lines"], "--json-lines"),
        (["run", "-p", "hi", "-f", "x"], "--file"),
        (["run", "-p", "hi", "-n", "0"], "1 or more"),
        (["pull", "not a reference"], "OWNER/NAME"),
    ],
)
def test_wrong_usage_exits_with_2(cli: Cli, arguments: list[str], words: str) -> None:
    result = cli(*arguments)
    assert result.code == 2
    assert words in result.error
    assert result.out == ""


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MOESTREAM_IO_THREADS", "many"),
        ("MOESTREAM_IO_THREADS", "999"),
        ("MOESTREAM_THREADS", "many"),
        ("MOESTREAM_CACHE_MB", "lots"),
        ("MOESTREAM_MOE_STREAM", "perhaps"),
        ("MOESTREAM_TEMP", "-1"),
        ("MOESTREAM_DENSE_WEIGHTS", "gold"),
    ],
)
def test_a_bad_variable_is_named(cli: Cli, variable: str, value: str) -> None:
    result = cli("run", "-p", "hi", env={variable: value})
    assert result.code == 2
    assert variable in result.error


def test_the_flag_wins_over_the_variable(cli: Cli) -> None:
    result = cli("archs", env={"MOESTREAM_JSON": "1"})
    assert result.json["architectures"]
    # io threads 0 would be refused; the flag is what counts, and the model does not exist
    result = cli(
        "run", "-p", "hi", "-m", "./none.gguf", "--io-threads", "1",
        env={"MOESTREAM_IO_THREADS": "0"},
    )  # fmt: skip
    assert result.code == 1
    assert "no such model" in result.error
