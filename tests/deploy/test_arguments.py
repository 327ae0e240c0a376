"""Arguments of the builder: from text, from values, and from what is neither."""

from __future__ import annotations

from typing import Any

import pytest

from moestream.config import EMBEDDED_MODEL
from moestream.deploy.arguments import ReplicaArguments
from moestream.errors import ConfigError


def test_nothing_is_needed() -> None:
    found = ReplicaArguments.parse({})
    assert (found.replicas, found.per_node, found.memory_mb) == (2, 2, None)
    assert found.engine.model == EMBEDDED_MODEL
    assert found.engine.threads is None
    assert found.engine.streaming.cache_mb == "auto"


def test_text_and_values_mean_the_same() -> None:
    values = {
        "model": "some.gguf", "replicas": 4, "per_node": 2, "memory_mb": 900, "queue_limit": 0,
        "served_name": "some", "shutdown_s": 2.5, "restart_wait_s": 0, "threads": 3,
        "cache_mb": 300, "n_ctx": 512, "overlap": False, "temperature": 0.5,
        "dense_weights": "mmap",
    }  # fmt: skip
    text = {key: str(value) for key, value in values.items()}
    found = ReplicaArguments.parse(values)
    assert found == ReplicaArguments.parse(text)
    assert (found.replicas, found.per_node, found.memory_mb, found.queue_limit) == (4, 2, 900, 0)
    engine = found.engine
    assert (engine.model, engine.threads, engine.n_ctx) == ("some.gguf", 3, 512)
    assert (engine.streaming.cache_mb, engine.streaming.overlap) == (300, False)
    assert engine.sampling.temperature == 0.5


def test_words_are_several() -> None:
    text = ReplicaArguments.parse({"allow_host": "a.example b.example"})
    values = ReplicaArguments.parse({"allow_host": ["a.example", "b.example"]})
    assert text.allow_host == values.allow_host == ("a.example", "b.example")


@pytest.mark.parametrize("word", ["auto", "AUTO", "none", ""])
def test_there_is_a_word_for_none(word: str) -> None:
    found = ReplicaArguments.parse({"threads": word, "cache_mb": word, "overlap": word})
    assert found.engine.threads is None
    assert found.engine.streaming.cache_mb == "auto"
    assert found.engine.streaming.overlap is None


def test_a_draft_source_of_none_is_a_choice() -> None:
    assert ReplicaArguments.parse({"draft_source": "none"}).engine.speculation.source == "none"
    found = ReplicaArguments.parse({"draft_source": "ngram", "draft": "2"})
    assert (found.engine.speculation.source, found.engine.speculation.draft) == ("ngram", 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"replica": 2}, "no argument 'replica'"),
        ({"system_prompt": "x"}, "no argument 'system_prompt'"),
        ({"engine": 1}, "no argument 'engine'"),
        ({"replicas": "two"}, "replicas must be a whole number"),
        ({"replicas": True}, "replicas must be a whole number"),
        ({"replicas": 1.5}, "replicas must be a whole number"),
        ({"replicas": 0}, "replicas must lie in 1.."),
        ({"per_node": 101}, "per_node must lie in 1..100"),
        ({"memory_mb": "much"}, "memory_mb must be a whole number"),
        ({"memory_mb": 1}, "memory_mb must lie in 64.."),
        ({"shutdown_s": "soon"}, "shutdown_s must be a number of seconds"),
        ({"shutdown_s": "nan"}, "shutdown_s must be a number of seconds"),
        ({"restart_wait_s": -1}, "restart_wait_s must be a number of seconds"),
        ({"restart_wait_s": False}, "restart_wait_s must be a number of seconds"),
        ({"served_name": 3}, "served_name must be text"),
        ({"model": ["a"]}, "model must be text"),
        ({"allow_host": [1]}, "allow_host must be a list of texts"),
        ({"threads": "many"}, "threads must be a number"),
        ({"threads": 0}, "threads must lie in 1..512"),
        ({"overlap": "maybe"}, "overlap must be true or false"),
        ({"dense_weights": "cold"}, "dense_weights must be"),
        ({"draft_source": "ngram", "draft": "99"}, "draft"),
    ],
)
def test_what_cannot_be_taken_is_said(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ReplicaArguments.parse(given)


def test_a_key_that_cannot_travel_is_refused_here() -> None:
    with pytest.raises(ConfigError, match="API key"):
        ReplicaArguments.parse({}).server(api_keys=("schlüssel",))
    with pytest.raises(ConfigError, match="no origin"):
        ReplicaArguments.parse({"cors_origin": "example"}).server(api_keys=())
