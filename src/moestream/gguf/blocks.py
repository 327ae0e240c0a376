"""Random weights as valid quantised blocks, for models that exist to be run and not to be read.

Every generator returns blocks whose dequantised values have a mean of zero and about the standard
deviation asked for. The mean matters: formats whose levels are not symmetric (a signed nibble has
-8 but no +8) have a mean of half a level when filled with random bits, which adds up to one common
direction in the residual stream of a deep model. Where a format is asymmetric, scales get random
signs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from moestream.errors import GGUFError
from moestream.gguf.types import GGMLType

__all__ = ["RANDOM_TYPES", "encode", "random_blocks"]

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

# Standard deviations of uniformly drawn levels.
_STD_NIBBLE = 4.6098  # 0..15 about 7.5
_STD_5BIT = 9.2331  # 0..31 about 15.5
_STD_6BIT = 18.4797  # -32..31
_STD_INT8 = 73.6116  # -127..127
_STD_MXFP4 = 5.8523  # the sixteen values of E2M1, doubled


def random_blocks(kind: GGMLType, n_elements: int, sigma: float, rng: np.random.Generator) -> Bytes:
    """Return the bytes of ``n_elements`` random weights of standard deviation ``sigma``.

    Raises:
        GGUFError: if ``kind`` is not one of :data:`RANDOM_TYPES`, or the number of elements is
            not a whole number of its blocks.
    """
    if kind not in _GENERATORS:
        names = ", ".join(sorted(t.name for t in RANDOM_TYPES))
        raise GGUFError(f"cannot make random {kind.name} weights; choose one of {names}")
    if n_elements % kind.block_size:
        raise GGUFError(
            f"{n_elements} elements are not a whole number of {kind.name} blocks of "
            f"{kind.block_size}"
        )
    return _GENERATORS[kind](n_elements // kind.block_size, sigma, rng)


def encode(kind: GGMLType, values: npt.ArrayLike) -> Bytes:
    """Return ``values`` as F32, F16, BF16 or Q8_0 bytes (rows must be whole blocks)."""
    x = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    if kind is GGMLType.F32:
        return x.view(np.uint8)
    if kind is GGMLType.F16:
        return x.astype(np.float16).view(np.uint8)
    if kind is GGMLType.BF16:
        return _bf16(x).view(np.uint8)
    if kind is GGMLType.Q8_0:
        return _q8_0(x)
    raise GGUFError(f"cannot encode given values as {kind.name}")


def _bf16(x: Floats) -> npt.NDArray[np.uint16]:
    bits = x.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    high: npt.NDArray[np.uint16] = (rounded >> np.uint32(16)).astype(np.uint16)
    return high


def _q8_0(x: Floats) -> Bytes:
    blocks = x.reshape(-1, 32)
    scale = (np.abs(blocks).max(axis=1) / np.float32(127)).astype(np.float16)
    wide = scale.astype(np.float32)
    inverse = np.divide(np.float32(1), wide, out=np.zeros_like(wide), where=wide > 0)
    out = np.empty((len(blocks), 34), np.uint8)
    out[:, :2] = scale.view(np.uint8).reshape(-1, 2)
    levels = np.clip(np.rint(blocks * inverse[:, None]), -127, 127)
    out[:, 2:] = levels.astype(np.int8).view(np.uint8)
    return out.reshape(-1)


def _bits(rng: np.random.Generator, rows: int, columns: int) -> Bytes:
    return np.frombuffer(rng.bytes(rows * columns), np.uint8).reshape(rows, columns)


def _half(values: npt.ArrayLike) -> Bytes:
    halves = np.asarray(values, np.float16).tobytes()
    return np.frombuffer(halves, np.uint8).reshape(-1, 2)


def _signs(rng: np.random.Generator, shape: int | tuple[int, int]) -> Floats:
    return (rng.integers(0, 2, shape, dtype=np.int8) * 2 - 1).astype(np.float32)


def _random_f32(n: int, sigma: float, rng: np.random.Generator) -> Bytes:
    values: Floats = rng.standard_normal(n, dtype=np.float32) * np.float32(sigma)
    return values.view(np.uint8)


def _random_f16(n: int, sigma: float, rng: np.random.Generator) -> Bytes:
    return encode(GGMLType.F16, _random_f32(n, sigma, rng).view(np.float32))


def _random_bf16(n: int, sigma: float, rng: np.random.Generator) -> Bytes:
    return encode(GGMLType.BF16, _random_f32(n, sigma, rng).view(np.float32))


def _random_q4_0(n: int, sigma: float, rng: np.random.Generator) -> Bytes:
    out = np.empty((n, 18), np.uint8)
    # The levels are -8..7; the sign of the scale takes their mean away.
    out[:, :2] = _half(_signs(rng, n) * np.float32(sigma / 4.6368))
    out[:, 2:] = _bits(rng, n, 16)
    return out.reshape(-1)


def _random_q8_0(n: int, sigma: float, rng: np.random.Generator) -> Bytes:
    out = np.empty((n, 34), np.uint8)
    out[:, :2] = _half(np.full(n, sigma / _STD_INT8))
    levels = _bits(rng, n, 32).copy()
    levels[levels == 0x80] = 0  # -128 is not a level of this format
    out[:, 2:] = levels
    return out.reshape(-1)


def _k_scales(n: int, sigma: float, std: float, centre: float, rng: np.random.Generator) -> Bytes:
    """Head of a Q4_K or Q5_K block: d, dmin and eight 6-bit scales and minima, packed.

    A value is ``d * s * q - dmin * m``. With ``m = s`` and ``dmin = centre * d`` that is
    ``d * s * (q - centre)``: zero mean whatever the scales are.
    """
    scales = rng.integers(1, 9, (n, 8), dtype=np.uint8)
    d = sigma / (std * _RMS_1_TO_8)
    head = np.empty((n, 16), np.uint8)
    head[:, 0:2] = _half([d])
    head[:, 2:4] = _half([d * centre])
    head[:, 4:8] = scales[:, :4]
    head[:, 8:12] = scales[:, :4]
    head[:, 12:16] = scales[:, 4:] | (scales[:, 4:] << 4)
    return head


def _random_q4_k(n: int, sigma: float, rng: np.random.Generator) -> Bytes:
    out = np.empty((n, 144), np.uint8)
    out[:, :16] = _k_scales(n, sigma, _STD_NIBBLE, 7.5, rng)
    out[:, 16:] = _bits(rng, n, 128)
    return out.reshape(-1)


def _random_q5_k(n: int, sigma: float, rng: np.random.Generator) -> Bytes:
    out = np.empty((n, 176), np.uint8)
    out[:, :16] = _k_scales(n, sigma, _STD_5BIT, 15.5, rng)
    out[:, 16:] = _bits(rng, n, 160)
    return out.reshape(-1)


def _random_q6_k(n: int, sigma: float, rng: np.random.Generator) -> Bytes:
    out = np.empty((n, 210), np.uint8)
    out[:, :192] = _bits(rng, n, 192)
    # Levels are -32..31: random signs on the sixteen scales take their mean away.
    scales = rng.integers(1, 9, (n, 16), dtype=np.int8) * _signs(rng, (n, 16)).astype(np.int8)
    out[:, 192:208] = scales.view(np.uint8)
    out[:, 208:] = _half([sigma / (_STD_6BIT * _RMS_1_TO_8)])
    return out.reshape(-1)


def _random_mxfp4(n: int, sigma: float, rng: np.random.Generator) -> Bytes:
    # Scales are powers of two; a mixture of the two around the wanted one gives the deviation.
    exact = np.log2(max(sigma, 1e-30) / _STD_MXFP4) + 128
    low = int(np.floor(exact))
    share = (4.0 ** (exact - low) - 1) / 3  # variance is linear in the share of the larger scale
    out = np.empty((n, 17), np.uint8)
    out[:, 0] = np.clip(low + (rng.random(n) < share), 1, 254)
    out[:, 1:] = _bits(rng, n, 16)
    return out.reshape(-1)


_RMS_1_TO_8 = float(np.sqrt(np.mean(np.arange(1, 9, dtype=np.float64) ** 2)))

_GENERATORS: dict[GGMLType, Callable[[int, float, np.random.Generator], Bytes]] = {
    GGMLType.F32: _random_f32,
    GGMLType.F16: _random_f16,
    GGMLType.BF16: _random_bf16,
    GGMLType.Q4_0: _random_q4_0,
    GGMLType.Q8_0: _random_q8_0,
    GGMLType.Q4_K: _random_q4_k,
    GGMLType.Q5_K: _random_q5_k,
    GGMLType.Q6_K: _random_q6_k,
    GGMLType.MXFP4: _random_mxfp4,
}

#: The types that :func:`random_blocks` makes.
RANDOM_TYPES = frozenset(_GENERATORS)
