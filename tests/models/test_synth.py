"""Giants, made small: same code, small numbers."""

from __future__ import annotations

import shutil
from collections import namedtuple
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from moestream.errors import ConfigError
from moestream.gguf import GGMLType, check_model, read_model
from moestream.models.synth import SHAPES, GiantShape, make_giant
from moestream.models.synth.cli import main
from moestream.models.synth.giant import giant_bytes
from moestream.models.synth.planted import PlantedTokens, overlap_of, shared_variance_for
from moestream.models.synth.vocabulary import vocabulary_metadata, words_and_merges
from moestream.streaming.layout import expert_layout
from tests.fixtures.reference import Reference

SMALL = replace(
    SHAPES["qwen36-35b"],
    name="small",
    layers=4,
    n_embd=256,
    n_vocab=4096,
    n_expert=64,
    n_expert_used=4,
    n_ff=256,
    heads=4,
    head_dim=64,
    rotary=32,
    rope_sections=(6, 5, 5, 0),
    state=32,
    key_heads=2,
    value_heads=8,
    context=2048,
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_giant(SMALL, tmp_path_factory.mktemp("giant") / "small.gguf")


def test_shape_is_the_real_models() -> None:
    shape = SHAPES["qwen36-35b"]
    total = giant_bytes(shape)
    assert total == pytest.approx(20.9e9, rel=0.02)
    slices = shape.n_embd * shape.n_ff // 256 * 144
    experts = (shape.layers + 1) * shape.n_expert * 3 * slices
    assert slices == 589_824
    assert experts / total > 0.85
    assert giant_bytes(shape.with_layers(8)) < total / 3


def test_layout(small: Path) -> None:
    model = read_model(small)
    check_model(model)
    layout = expert_layout(model)
    assert small.stat().st_size == pytest.approx(giant_bytes(SMALL), rel=0.05)
    assert (layout.n_layer, layout.n_layer_nextn, layout.nextn_present) == (4, 1, True)
    assert (layout.n_expert, layout.n_expert_used) == (64, 4)
    assert {tensor.type for tensor in layout.tensors} == {GGMLType.Q4_K}
    kinds = {tensor.name: tensor.type for tensor in model.tensors.values()}
    assert kinds["token_embd.weight"] is kinds["output.weight"] is GGMLType.Q8_0
    assert kinds["blk.0.attn_qkv.weight"] is kinds["blk.3.attn_q.weight"] is GGMLType.Q6_K


def test_no_two_experts_are_alike(small: Path) -> None:
    layout = expert_layout(read_model(small))
    data = small.read_bytes()
    for tensor in layout.tensors[:3]:
        starts = [tensor.offset + i * tensor.stride for i in range(tensor.n_expert)]
        assert len({data[start : start + 144] for start in starts}) > tensor.n_expert * 0.9


def test_decodes_along_the_planted_chain(small: Path) -> None:
    with Reference(small, routing_node="ffn_moe_topk") as reference:
        text = " bako dumi <|im_start|>user\nwhat is it?<|im_end|> grüße"
        assert reference.detokenize(reference.tokenize(text, special=True)) == text
        logits = reference.decode(reference.tokenize(" bako dumi"))
        reference.watched.routing.clear()
        tokens = []
        for _ in range(48):
            tokens.append(int(logits[-1].argmax()))
            logits = reference.decode(tokens[-1:])
            assert np.isfinite(logits).all()
        routing = reference.watched.routing
    assert len(set(tokens)) > 40  # it does not loop
    shared = [len({*a} & {*b}) / len(a) for ids in routing.values() for a, b in pairwise(ids)]
    assert 0.2 < float(np.mean(shared)) < 0.65


def test_overlap_grows_with_what_neighbours_share() -> None:
    overlaps = [overlap_of(shared, 256, 8, 0.3) for shared in (0.0, 0.3, 0.6, 0.9, 1.0)]
    assert overlaps == sorted(overlaps)
    assert overlaps[-1] == 1
    shared = shared_variance_for(0.4, 64, 4, 0.3)
    assert overlap_of(shared, 64, 4, 0.3) == pytest.approx(0.4, abs=0.01)


def test_planted_matrices() -> None:
    gguf = pytest.importorskip("gguf")
    tokens = PlantedTokens(2048, 256, 0.7, np.random.default_rng(0))

    def matrix(chunks: list[memoryview]) -> np.ndarray:
        data = np.frombuffer(b"".join(chunks), np.uint8)
        q8_0 = gguf.GGMLQuantizationType.Q8_0
        return np.asarray(gguf.quants.dequantize(data, q8_0)).reshape(2048, 256)

    embedding, output = matrix(list(tokens.embedding())), matrix(list(tokens.output()))
    assert embedding.std() == pytest.approx(1, rel=0.05)
    scores = embedding @ output.T
    best = np.argsort(scores, axis=1)[:, -2:]
    assert (best == tokens.successor[:, None]).any(axis=1).mean() > 0.95
    assert len(set(tokens.successor[256:2045])) > 1700


def test_vocabulary() -> None:
    words, merges = words_and_merges(20_000)
    assert len(set(words)) == len(words) == len(merges)
    known = {*map(chr, range(0x250)), *words}
    assert all(part in known for merge in merges for part in merge.split(" "))
    tokens = vocabulary_metadata(4096)["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    assert len(set(tokens)) == 4096
    with pytest.raises(ConfigError, match="at most"):
        words_and_merges(10_000_000)
    with pytest.raises(ConfigError, match="at least"):
        vocabulary_metadata(100)


def test_same_seed_same_giant(small: Path, tmp_path: Path) -> None:
    again = make_giant(SMALL, tmp_path / "again.gguf")
    other = make_giant(SMALL, tmp_path / "other.gguf", seed=2)
    assert again.read_bytes() == small.read_bytes()
    assert other.read_bytes() != small.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overlap": 0.0}, "overlap must lie in"),
        ({"overlap": 0.9}, "overlap must lie in"),
        ({"skew": -1.0}, "skew must lie in"),
    ],
)
def test_settings_out_of_range(tmp_path: Path, options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_giant(SMALL, tmp_path / "x.gguf", **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="layers"):
        make_giant(SMALL.with_layers(0), tmp_path / "x.gguf")
    assert not list(tmp_path.iterdir())


def test_no_space_is_found_out_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 5, 5))
    with pytest.raises(ConfigError, match="GB free"):
        make_giant(SMALL, tmp_path / "x.gguf")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def small_shape(monkeypatch: pytest.MonkeyPatch) -> GiantShape:
    monkeypatch.setitem(SHAPES, "qwen36-35b", SMALL)
    return SMALL


def test_command(
    small_shape: GiantShape, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.gguf"
    arguments = ["qwen36-35b", "--out", str(out), "--layers", "2"]
    assert main(arguments) == 0
    assert "2 layers and a nextn block" in capsys.readouterr().out
    assert read_model(out).get_int("block_count") == 3
    assert main(arguments) == 2
    assert "--force" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


def test_command_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["qwen36-35b", "--out", str(tmp_path / "no" / "m.gguf")]) == 2
    assert "no directory" in capsys.readouterr().err
    assert main(["qwen36-35b", "--out", str(tmp_path), "--force"]) == 2
    assert "is a directory" in capsys.readouterr().err
    for count in ("0", "501", "999999999"):
        assert main(["qwen36-35b", "--out", str(tmp_path / "m.gguf"), "--layers", count]) == 2
        assert "layers" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["nothing", "--out", "x"])
    assert caught.value.code == 2
