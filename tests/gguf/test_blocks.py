"""Random blocks dequantise to what was asked for, by the reference implementation."""

from __future__ import annotations

import numpy as np
import pytest

from moestream.errors import GGUFError
from moestream.gguf.blocks import RANDOM_TYPES, encode, random_blocks
from moestream.gguf.types import GGMLType

N = 256 * 1024


@pytest.mark.parametrize("kind", sorted(RANDOM_TYPES))
@pytest.mark.parametrize("sigma", [0.02, 1.0])
def test_mean_and_deviation(kind: GGMLType, sigma: float) -> None:
    gguf = pytest.importorskip("gguf")
    data = random_blocks(kind, N, sigma, np.random.default_rng(0))
    assert data.nbytes == N // kind.block_size * kind.type_size
    values = gguf.quants.dequantize(data, gguf.GGMLQuantizationType(int(kind))).astype(np.float64)
    assert values.size == N
    assert np.isfinite(values).all()
    assert abs(values.mean()) < 0.02 * sigma
    assert values.std() == pytest.approx(sigma, rel=0.03)
    # Columns must not lean to one side either: that is what adds up over a deep model.
    columns = values.reshape(-1, 256).mean(axis=0)
    assert abs(columns).max() < 0.2 * sigma


@pytest.mark.parametrize("kind", [GGMLType.F32, GGMLType.F16, GGMLType.BF16, GGMLType.Q8_0])
def test_encode(kind: GGMLType) -> None:
    gguf = pytest.importorskip("gguf")
    values = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    values[1] = 0
    data = encode(kind, values)
    reference = gguf.quants.quantize(values, gguf.GGMLQuantizationType(int(kind)))
    assert data.tobytes() == reference.tobytes()


def test_same_seed_same_blocks() -> None:
    for kind in RANDOM_TYPES:
        a, b, c = (random_blocks(kind, 512, 1.0, np.random.default_rng(s)) for s in (1, 1, 2))
        assert a.tobytes() == b.tobytes()
        assert a.tobytes() != c.tobytes()


def test_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(GGUFError, match="choose one of"):
        random_blocks(GGMLType.IQ1_S, 256, 1.0, rng)
    with pytest.raises(GGUFError, match="whole number"):
        random_blocks(GGMLType.Q4_K, 128, 1.0, rng)
    with pytest.raises(GGUFError, match="cannot encode"):
        encode(GGMLType.Q4_K, np.zeros(256))


def test_sizes_of_all_types() -> None:
    constants = pytest.importorskip("gguf.constants")
    for kind in GGMLType:
        try:
            reference = constants.GGMLQuantizationType(int(kind))
        except ValueError:  # newer than the reference
            continue
        assert reference.name == kind.name
        if kind is GGMLType.Q8_1:
            continue  # the reference still has its first form, with scales of 32 bits
        assert constants.GGML_QUANT_SIZES[reference] == (kind.block_size, kind.type_size)
