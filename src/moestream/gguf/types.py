"""The type numbers of the GGUF format and of ggml, with the sizes that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

__all__ = [
    "DEFAULT_ALIGNMENT",
    "GGUF_MAGIC",
    "GGUF_VERSION",
    "MAX_DIMS",
    "MAX_TENSOR_NAME",
    "WEIGHT_TYPES",
    "GGMLType",
    "MetaValue",
    "ValueType",
]

GGUF_MAGIC: Final = b"GGUF"
GGUF_VERSION: Final = 3
DEFAULT_ALIGNMENT: Final = 32
MAX_DIMS: Final = 4
#: ggml keeps 64 bytes for a tensor's name, the terminating zero included.
MAX_TENSOR_NAME: Final = 63

#: What a metadata key may hold once read. Arrays arrive as (lazy) sequences.
MetaValue = (
    bool | int | float | str | Sequence[bool] | Sequence[int] | Sequence[float] | Sequence[str]
)


class ValueType(IntEnum):
    """Types of metadata values."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


class GGMLType(IntEnum):
    """Types of tensor elements."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41
    Q2_0 = 42

    @property
    def block_size(self) -> int:
        """Elements in one block; a row is a whole number of blocks."""
        return _SIZES[self][0]

    @property
    def type_size(self) -> int:
        """Bytes of one block."""
        return _SIZES[self][1]

    @property
    def is_quantized(self) -> bool:
        """Whether elements come in blocks with a common scale."""
        return self.block_size > 1


# Elements and bytes of one block.
_SIZES: Final[dict[GGMLType, tuple[int, int]]] = {
    GGMLType.F32: (1, 4),
    GGMLType.F16: (1, 2),
    GGMLType.Q4_0: (32, 18),
    GGMLType.Q4_1: (32, 20),
    GGMLType.Q5_0: (32, 22),
    GGMLType.Q5_1: (32, 24),
    GGMLType.Q8_0: (32, 34),
    GGMLType.Q8_1: (32, 36),
    GGMLType.Q2_K: (256, 84),
    GGMLType.Q3_K: (256, 110),
    GGMLType.Q4_K: (256, 144),
    GGMLType.Q5_K: (256, 176),
    GGMLType.Q6_K: (256, 210),
    GGMLType.Q8_K: (256, 292),
    GGMLType.IQ2_XXS: (256, 66),
    GGMLType.IQ2_XS: (256, 74),
    GGMLType.IQ3_XXS: (256, 98),
    GGMLType.IQ1_S: (256, 50),
    GGMLType.IQ4_NL: (32, 18),
    GGMLType.IQ3_S: (256, 110),
    GGMLType.IQ2_S: (256, 82),
    GGMLType.IQ4_XS: (256, 136),
    GGMLType.I8: (1, 1),
    GGMLType.I16: (1, 2),
    GGMLType.I32: (1, 4),
    GGMLType.I64: (1, 8),
    GGMLType.F64: (1, 8),
    GGMLType.IQ1_M: (256, 56),
    GGMLType.BF16: (1, 2),
    GGMLType.TQ1_0: (256, 54),
    GGMLType.TQ2_0: (256, 66),
    GGMLType.MXFP4: (32, 17),
    GGMLType.NVFP4: (64, 36),
    GGMLType.Q1_0: (128, 18),
    GGMLType.Q2_0: (64, 18),
}

#: Types that ggml can multiply by. It has no kernel for the others (integers, F64 and the types
#: it uses for activations only) and jumps through a null pointer when one is given as a weight.
WEIGHT_TYPES: Final[frozenset[GGMLType]] = frozenset(GGMLType) - {
    GGMLType.I8,
    GGMLType.I16,
    GGMLType.I32,
    GGMLType.I64,
    GGMLType.F64,
    GGMLType.Q8_1,
    GGMLType.Q8_K,
}
