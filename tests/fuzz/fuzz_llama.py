"""Load changed tiny models in llama.cpp: what our checks accept must not end the process.

    python -m tests.fuzz.fuzz_llama [--arch qwen35moe]

Every setting and every tensor of a fixture is changed in turn. What ``check_model`` lets through is
loaded and decoded in a child process; a child that is killed by a signal (an assertion, a division
by zero, a null pointer) is a gap in the checks. Needs ``fork``. Takes some minutes an architecture.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from moestream.errors import MoestreamError
from moestream.gguf import (
    GGMLType,
    MetaValue,
    TensorSpec,
    Typed,
    ValueType,
    check_model,
    read_model,
    write_model,
)
from moestream.streaming.layout import expert_layout
from tests.fixtures import FIXTURE_ARCHS
from tests.fixtures.builder import Sizes
from tests.fixtures.reference import Reference
from tests.fixtures.tiny import NEXTN_ARCHS, build

_TIMEOUT = 30
_NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 33, 64, 100, 1000, 2**31 - 1, 2**31, 2**32 - 1)
_REALS = (0.0, -1.0, 1e-30, 1e30, math.inf, math.nan)
_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "IQ4_NL", "MXFP4", "NVFP4", "F64", "I32", "Q8_1")

# Keys that a fixture may lack and llama.cpp looks at.
_MORE_KEYS: dict[str, list[MetaValue]] = {
    "attention.causal": [False],
    "attention.recurrent_layers": [[True, False], [True, True, False], [False, True, False]],
    "attention.shared_kv_layers": [0, 1, 2, 3],
    "attention.sliding_window": list(_NUMBERS),
    "expert_gating_func": list(range(6)),
    "expert_group_count": list(_NUMBERS),
    "expert_group_used_count": list(_NUMBERS),
    "expert_weights_scale": [0.0, math.nan],
    "full_attention_interval": list(_NUMBERS),
    "leading_dense_block_count": list(_NUMBERS),
    "nextn_predict_layers": list(_NUMBERS),
    "pooling_type": [0, 1, 4, 9],
    "rope.dimension_sections": [[0, 0, 0, 0], [100, 0, 0, 0], [3, 3, 2, 0], [1, 2, 3]],
    "rope.scaling.factor": list(_REALS),
    "rope.scaling.type": ["none", "linear", "yarn", "longrope", "bogus"],
}


@dataclass(frozen=True)
class _Case:
    label: str
    metadata: dict[str, MetaValue | Typed]
    tensors: list[TensorSpec]
    alignment: int = 32


def cases(arch: str) -> Iterator[_Case]:
    """Every change of one architecture's fixture, one at a time."""
    nextn = int(arch in NEXTN_ARCHS)
    sizes = Sizes(layers=2, n_embd=64, n_ff=64, n_expert=8, n_used=2, nextn=nextn)
    built = build(arch, sizes, GGMLType.Q8_0)
    base = _Case("unchanged", built.metadata, built.tensors)
    yield base
    for alignment in (8, 16, 64, 4096):
        yield replace(base, label=f"alignment {alignment}", alignment=alignment)
    keys = {f"{arch}.{key}": values for key, values in _MORE_KEYS.items()}
    for key in [*base.metadata, *(key for key in keys if key not in base.metadata)]:
        old = base.metadata.get(key)
        if old is not None:
            rest = {k: v for k, v in base.metadata.items() if k != key}
            yield replace(base, label=f"without {key}", metadata=rest)
        for value in [*_variants(old), *keys.get(key, [])]:
            changed = {**base.metadata, key: value}
            yield replace(base, label=f"{key} = {value}", metadata=changed)
    yield from _vocabularies(base)
    seen: set[tuple[str, bool]] = set()
    for index, tensor in enumerate(base.tensors):
        block = re.match(r"blk\.(\d+)\.", tensor.name)
        kind = (re.sub(r"\d+", "N", tensor.name), bool(block and int(block[1]) >= 2))
        if kind not in seen:
            seen.add(kind)
            yield from _tensor_cases(base, index, tensor)


def _variants(value: MetaValue | Typed | None) -> list[MetaValue]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [
            n for n in dict.fromkeys((*_NUMBERS, 2 * value, value // 2, value + 1)) if n != value
        ]
    if isinstance(value, float):
        return list(_REALS)
    if isinstance(value, str):
        return ["", "x"]
    if isinstance(value, list) and isinstance(value[0], int):
        n = len(value)
        return [[0] * n, [1] * n, [-1] * n, [2**31 - 1] * n, value[:-1], [*value, 1]]
    return []


def _vocabularies(base: _Case) -> Iterator[_Case]:
    tokens = base.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, (list, tuple))
    words = [str(token) for token in tokens]
    n = len(words)
    changes: dict[str, dict[str, MetaValue | Typed]] = {
        "token twice": {"tokens": [*words[:-1], words[0]]},
        "token missing": {"tokens": words[:-1]},
        "empty tokens": {"tokens": [""] * n},
        "no tokens": {"tokens": Typed(ValueType.STRING, [])},
        "odd merges": {"merges": ["a", "b b b", " ", ""]},
        "tokens of no type": {"token_type": Typed(ValueType.INT32, [99] * n)},
        "byte tokens": {"token_type": Typed(ValueType.INT32, [6] * n)},
        "no first token": {"add_bos_token": True, "bos_token_id": 2**32 - 1},
        "no last token": {"add_eos_token": True, "eos_token_id": 2**32 - 1},
    }
    for model in ("no_vocab", "llama", "bert", "t5", "rwkv", "plamo2", "gemma4", "none"):
        changes[f"tokenizer {model}"] = {"model": model}
    for label, change in changes.items():
        named = {f"tokenizer.ggml.{key}": value for key, value in change.items()}
        yield replace(base, label=label, metadata={**base.metadata, **named})


def _tensor_cases(base: _Case, index: int, tensor: TensorSpec) -> Iterator[_Case]:
    def with_(*new: TensorSpec) -> list[TensorSpec]:
        return [*base.tensors[:index], *new, *base.tensors[index + 1 :]]

    yield replace(base, label=f"without {tensor.name}", tensors=with_())
    for kind in map(GGMLType.__getitem__, _TYPES):
        if kind is not tensor.type and tensor.shape[0] % kind.block_size == 0:
            new = _zeros(tensor.name, kind, tensor.shape)
            yield replace(base, label=f"{tensor.name} as {kind.name}", tensors=with_(new))
    first, *rest = tensor.shape
    shapes = {
        tensor.shape[::-1],
        (2 * first, *rest),
        (*tensor.shape[:-1], tensor.shape[-1] + 1),
        (*tensor.shape, 2),
        (math.prod(tensor.shape),),
    }
    for shape in sorted(shapes - {tensor.shape}):
        if len(shape) <= 4 and shape[0] % tensor.type.block_size == 0:
            new = _zeros(tensor.name, tensor.type, shape)
            yield replace(base, label=f"{tensor.name} shaped {shape}", tensors=with_(new))


def _zeros(name: str, kind: GGMLType, shape: tuple[int, ...]) -> TensorSpec:
    spec = TensorSpec(name, kind, shape, lambda: [bytes(spec.nbytes)])
    return spec


def outcome(case: _Case, path: Path) -> str:
    """What becomes of one case: "refused", "fine", "fails", or the name of a signal."""
    try:
        write_model(path, case.metadata, case.tensors, alignment=case.alignment)
        model = read_model(path)
        check_model(model)
        expert_layout(model)
    except MoestreamError:
        return "refused"
    child = os.fork()
    if child == 0:
        _run(path)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return "fine" if os.WEXITSTATUS(status) == 0 else "fails"


def _run(path: Path) -> None:
    """Load and decode, silently; never returns."""
    signal.alarm(_TIMEOUT)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        with Reference(path) as reference:
            reference.tokenize("hello world", special=True)
            reference.decode([5, 6, 7])
            reference.decode([8])
    except BaseException:
        os._exit(1)
    os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--arch", choices=FIXTURE_ARCHS, action="append")
    options = parser.parse_args()
    gaps = 0
    with tempfile.TemporaryDirectory() as temporary:
        for arch in options.arch or FIXTURE_ARCHS:
            outcomes: Counter[str] = Counter()
            for case in cases(arch):
                found = outcome(case, Path(temporary, "model.gguf"))
                outcomes[found] += 1
                if found.startswith("SIG"):
                    gaps += 1
                    print(f"{arch}, {case.label}: {found}", flush=True)
                if case.label == "unchanged" and found != "fine":
                    raise AssertionError(f"the unchanged {arch} fixture {found}")
            print(f"{arch}: {dict(outcomes)}", flush=True)
    return 1 if gaps else 0


if __name__ == "__main__":
    sys.exit(main())
