"""How fast this machine multiplies weights of a type with a vector: ggml's own kernel, measured.

Decoding one token is one such product after the other over every weight that takes part, so the
bytes of those weights over this rate say how long a token takes when nothing is read from disk.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from moestream.gguf.blocks import random_blocks
from moestream.gguf.types import GGMLType
from moestream.llama.runtime import runtime

__all__ = ["matvec_rate"]

#: Far more than any cache holds, as a model's weights are.
_WEIGHT_BYTES: Final = 96 * 2**20
_COLUMNS: Final = 2048
_SLACK: Final = 32 * 2**20


class _InitParams(ctypes.Structure):
    _fields_ = [
        ("mem_size", ctypes.c_size_t),
        ("mem_buffer", ctypes.c_void_p),
        ("no_alloc", ctypes.c_bool),
    ]


def matvec_rate(kind: GGMLType, *, threads: int, seconds: float = 0.4) -> float | None:
    """Bytes of weights a second, the best pass within ``seconds``; ``None`` if not measurable."""
    libraries = _libraries()
    if libraries is None:
        return None
    try:
        return _measure(*libraries, kind, threads, seconds)
    except (AttributeError, MemoryError):
        return None


def _measure(base: Any, cpu: Any, kind: GGMLType, threads: int, seconds: float) -> float | None:
    rng = np.random.default_rng(0)
    row_bytes = _COLUMNS // kind.block_size * kind.type_size
    rows = _WEIGHT_BYTES // row_bytes
    context = base.ggml_init(_InitParams(rows * row_bytes + _SLACK, None, False))
    if not context:
        return None
    try:
        weights = base.ggml_new_tensor_2d(context, int(kind), _COLUMNS, rows)
        vector = base.ggml_new_tensor_2d(context, int(GGMLType.F32), _COLUMNS, 1)
        pattern = random_blocks(kind, 16 * _COLUMNS, 0.02, rng)
        target = _bytes_of(base, weights, rows * row_bytes)
        target[:] = np.resize(pattern.view(np.uint8), target.size)
        ones = rng.standard_normal(_COLUMNS).astype(np.float32)
        _bytes_of(base, vector, 4 * _COLUMNS)[:] = ones.view(np.uint8)
        graph = base.ggml_new_graph(context)
        base.ggml_build_forward_expand(graph, base.ggml_mul_mat(context, weights, vector))
        cpu.ggml_graph_compute_with_ctx(context, graph, threads)
        best = 0.0
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            begin = time.perf_counter()
            cpu.ggml_graph_compute_with_ctx(context, graph, threads)
            best = max(best, rows * row_bytes / (time.perf_counter() - begin))
        return best or None
    finally:
        base.ggml_free(context)


def _bytes_of(base: Any, tensor: Any, size: int) -> Any:
    address = base.ggml_get_data(tensor)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _libraries() -> tuple[Any, Any] | None:
    """ggml's base and CPU libraries, as llama.cpp itself has loaded them."""
    folder = Path(runtime().lib.__file__).parent / "lib"
    found = [next(iter(sorted(folder.glob(f"libggml-{part}.*"))), None) for part in ("base", "cpu")]
    if found[0] is None or found[1] is None:
        return None
    base, cpu = ctypes.CDLL(str(found[0])), ctypes.CDLL(str(found[1]))
    pointer = ctypes.c_void_p
    base.ggml_init.restype = pointer
    base.ggml_init.argtypes = [_InitParams]
    base.ggml_new_tensor_2d.restype = pointer
    base.ggml_new_tensor_2d.argtypes = [pointer, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    base.ggml_mul_mat.restype = pointer
    base.ggml_mul_mat.argtypes = [pointer, pointer, pointer]
    base.ggml_new_graph.restype = pointer
    base.ggml_new_graph.argtypes = [pointer]
    base.ggml_build_forward_expand.restype = None
    base.ggml_build_forward_expand.argtypes = [pointer, pointer]
    base.ggml_get_data.restype = pointer
    base.ggml_get_data.argtypes = [pointer]
    base.ggml_free.restype = None
    base.ggml_free.argtypes = [pointer]
    cpu.ggml_graph_compute_with_ctx.restype = ctypes.c_int
    cpu.ggml_graph_compute_with_ctx.argtypes = [pointer, pointer, ctypes.c_int]
    return base, cpu
