"""The command line: ``python -m moestream.synth qwen36-35b --out FILE``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from moestream.errors import ConfigError, MoestreamError
from moestream.gguf.model import shown
from moestream.models.synth.giant import (
    DEFAULT_OVERLAP,
    DEFAULT_SKEW,
    OVERLAP_RANGE,
    giant_bytes,
    make_giant,
)
from moestream.models.synth.shapes import SHAPES

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 1 runtime error, 2 usage."""
    options = _parser().parse_args(arguments)
    shape = SHAPES[options.name]
    if options.layers is not None:
        shape = shape.with_layers(options.layers)
    try:
        if options.out.exists() and not options.force:
            raise ConfigError(f"{shown(options.out)} is there already; --force replaces it")
        started = time.monotonic()
        with _progress(giant_bytes(shape)) as on_bytes:
            make_giant(
                shape,
                options.out,
                overlap=options.overlap,
                skew=options.skew,
                seed=options.seed,
                on_bytes=on_bytes,
            )
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (MoestreamError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; nothing was left behind", file=sys.stderr)
        return 130
    seconds = time.monotonic() - started
    size = options.out.stat().st_size
    print(f"{options.out}: {size / 1e9:.2f} GB, {shape.layers} layers and a nextn block, ", end="")
    print(f"in {seconds:.0f} s ({size / 1e6 / max(seconds, 1e-3):.0f} MB/s)")
    return 0


def _parser() -> argparse.ArgumentParser:
    low, high = OVERLAP_RANGE
    parser = argparse.ArgumentParser(
        prog="python -m moestream.synth",
        description="Write a model of random weights in the exact shape of a real one.",
    )
    parser.add_argument("name", choices=sorted(SHAPES), help="the shape to make")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write")
    parser.add_argument("--layers", type=int, metavar="N", help="trunk layers (all of the shape's)")
    parser.add_argument(
        "--overlap",
        type=float,
        default=DEFAULT_OVERLAP,
        metavar="F",
        help=f"experts that neighbouring tokens share, {low} to {high} (default %(default)s)",
    )
    parser.add_argument(
        "--skew",
        type=float,
        default=DEFAULT_SKEW,
        metavar="F",
        help="how unequally popular experts are, 0 to 2 (default %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default %(default)s")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    return parser


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda n: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("writing", total=total)
        yield lambda n: progress.advance(task, n)
