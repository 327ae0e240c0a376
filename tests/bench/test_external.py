"""Other programs: what they are given, and what is read out of their output."""

from __future__ import annotations

import pytest

from moestream.bench.external import CommandValues, check_regex, command_line, read_metrics
from moestream.errors import ConfigError

VALUES = CommandValues(
    model="/m odel.gguf", prompt="it's $HOME\n", prompt_file="/p.txt", tokens=5, threads=2
)


def test_words_are_replaced_and_quoted() -> None:
    assert command_line("run -m {model} -n {tokens}", VALUES) == "run -m '/m odel.gguf' -n 5"
    assert command_line("{prompt}", VALUES) == "'it'\"'\"'s $HOME\n'"
    assert command_line("${HOME} {else} {{tokens}}", VALUES) == "${HOME} {else} {5}"


@pytest.mark.parametrize(
    ("regex", "output", "metrics"),
    [
        (r"([0-9.]+) tok/s", "1.5 tok/s\n2.5 tok/s\n", {"tok_s": 2.5}),
        (r"^eval: ([0-9.,]+)", "eval: 1,234.5\n", {"tok_s": 1234.5}),
        (r"([0-9,]+) t/s", "3,25 t/s", {"tok_s": 3.25}),
        (
            r"pp (?P<prefill_tok_s>\S+) tg (?P<tok_s>\S+)",
            "pp 100 tg 7",
            {"prefill_tok_s": 100.0, "tok_s": 7.0},
        ),
    ],
)
def test_the_last_match_counts(regex: str, output: str, metrics: dict[str, float]) -> None:
    assert read_metrics(output, check_regex(regex)) == metrics


@pytest.mark.parametrize(
    ("regex", "word"),
    [("(", "no regular expression"), ("x", "no group"), ("(?P<a>x)", "no metric")],
)
def test_expressions_that_find_nothing(regex: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        check_regex(regex)


@pytest.mark.parametrize(
    ("output", "word"),
    [("", "does not match"), ("done\n", "'done'"), ("x t/s", "no number"), ("nan t/s", "number")],
)
def test_output_that_says_nothing(output: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        read_metrics(output, check_regex(r"(\S+) t/s"))
