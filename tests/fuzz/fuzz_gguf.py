"""Mutate tiny models at random and read them: nothing but a MoestreamError may come out.

    python -m tests.fuzz.fuzz_gguf --seconds 600

Every case follows from the seed and its number, both of which are printed with a failure. Exits
with 1 if there was one, or if a case took suspiciously long.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from moestream.errors import MoestreamError
from moestream.gguf import check_model, read_model
from moestream.streaming.layout import expert_layout, override_pattern
from tests.fixtures import FIXTURE_ARCHS, make_fixture

_SLOW_SECONDS = 20.0
_HEADER = 13_000  # bytes in which the headers of the fixtures end

_INTERESTING = (
    0, 1, 2, 3, 4, 7, 8, 9, 12, 13, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 511, 512, 513,
    1024, 1025, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**48, 2**62, 2**63 - 1, 2**63,
    2**64 - 32, 2**64 - 1,
)  # fmt: skip


def mutate(data: bytearray, rng: random.Random) -> None:
    """Change ``data`` in place, mostly within the header and mostly in small ways."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        where = rng.randrange(min(len(data), _HEADER) or 1)
        how = rng.randrange(10)
        if not data:
            return
        if how == 0:
            data[where] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[where] = rng.randrange(256)
        elif how in (2, 3):
            width, code = rng.choice(((1, "<B"), (2, "<H"), (4, "<I"), (8, "<Q")))
            value = rng.choice(_INTERESTING) & ((1 << 8 * width) - 1)
            if where + width <= len(data):
                struct.pack_into(code, data, where, value)
        elif how == 4:
            del data[where : where + rng.choice((1, 4, 8, 100, 10_000))]
        elif how == 5:
            data[where:where] = rng.randbytes(rng.choice((1, 4, 8, 100)))
        elif how == 6:
            source = rng.randrange(min(len(data), _HEADER))
            length = rng.choice((4, 8, 16, 64, 300))
            data[where : where + length] = data[source : source + length]
        elif how == 7:
            del data[rng.randrange(len(data)) :]
        elif how == 8:
            _change_named(data, rng)
        else:
            data[where : where + 8] = bytes(8)


def _change_named(data: bytearray, rng: random.Random) -> None:
    """Aim at the value behind a key or in a tensor's entry, which random edits rarely hit."""
    words = (
        b"block_count", b"expert_count", b"expert_used_count", b"nextn_predict_layers",
        b"head_count", b"key_length", b"dimension_count", b"_exps.weight", b"token_embd.weight",
        b"general.alignment", b"split.count", b"split.no", b"split.tensors.count", b"tokens",
        b"sections", b"inner_size", b"embedding_length", b"architecture", b"attn_norm.weight",
    )  # fmt: skip
    word = rng.choice(words)
    start = data.find(word, rng.randrange(max(1, min(len(data), _HEADER))))
    if start < 0:
        start = data.find(word)
    if start < 0:
        return
    place = start + rng.choice((-9, -8, 0, len(word), len(word) + 4, len(word) + 8))
    width, code = rng.choice(((1, "<B"), (4, "<I"), (8, "<Q")))
    if 0 <= place <= len(data) - width:
        value = rng.choice(_INTERESTING) & ((1 << 8 * width) - 1)
        struct.pack_into(code, data, place, value)


def run_case(originals: list[list[Path]], directory: Path, seed: int, case: int) -> str:
    """Run one case and return the kind of outcome; anything unexpected is raised."""
    rng = random.Random(f"{seed}/{case}")
    files = rng.choice(originals)
    broken = rng.randrange(len(files))
    paths = []
    for index, original in enumerate(files):
        path = directory / original.name
        data = bytearray(original.read_bytes())
        if index == broken:
            mutate(data, rng)
        path.write_bytes(data)
        paths.append(path)
    if len(paths) > 1 and rng.random() < 0.1:
        rng.choice(paths).unlink()
    chosen = paths[0] if rng.random() < 0.95 else rng.choice(paths)
    try:
        return _read(chosen)
    except MoestreamError as error:
        return _outcome(error)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _read(path: Path) -> str:
    model = read_model(path)
    check_model(model)
    layout = expert_layout(model)
    override_pattern(layout)
    layout.token_demand()
    layout.layer_demand()
    for tensor in layout.tensors:
        end = tensor.offset + tensor.n_expert * tensor.stride
        if not 0 < tensor.offset < end <= model.file_sizes[tensor.shard]:
            raise AssertionError(f"accepted a tensor that is not in its file: {tensor}")
    return "accepted"


def _outcome(error: MoestreamError) -> str:
    text = str(error)
    if not text or "\n" in text or len(text) > 2000:
        raise AssertionError(f"not one clear line: {text!r}")
    return type(error).__name__


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one only")
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        source, work = Path(temporary, "original"), Path(temporary, "mutated")
        work.mkdir()
        originals = []
        for arch in FIXTURE_ARCHS:
            for split in (1, 2):
                first = make_fixture(
                    arch, source, layers=2, n_embd=64, n_ff=32, n_expert=4, n_used=2, split=split
                )
                pattern = first.name.replace("-00001-of-", "-*-of-")
                originals.append(sorted(first.parent.glob(pattern)))
        end = time.monotonic() + options.seconds
        case = options.case or 0
        while time.monotonic() < end:
            started = time.monotonic()
            try:
                outcomes[run_case(originals, work, options.seed, case)] += 1
            except Exception:
                failures += 1
                print(f"seed {options.seed}, case {case}:", file=sys.stderr)
                traceback.print_exc()
            if time.monotonic() - started > _SLOW_SECONDS:
                failures += 1
                print(f"seed {options.seed}, case {case}: too slow", file=sys.stderr)
            case += 1
            if options.case is not None or failures >= 10:
                break
    print(f"{sum(outcomes.values())} cases, {failures} failures: {dict(outcomes)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
