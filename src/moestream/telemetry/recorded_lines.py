"""Lines of a file that may be anything: what the readers of recordings share."""

from __future__ import annotations

import re
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from moestream.errors import ConfigError

__all__ = ["LINE_LIMIT", "Lines", "excerpt", "open_recording", "pairs", "whole"]

#: Longest line that is looked at. Lines of ours are a few hundred bytes.
LINE_LIMIT: Final = 1 << 16
#: A file of this many comment lines is none of ours.
_MOST_COMMENTS: Final = 100_000

_KEY: Final = re.compile(r"(?:^|\s)([A-Za-z_][\w/]*)=")

#: What a file is, by the first column of its header, and what reads it.
_KINDS: Final = {
    "step": ("the CSV of a run", "moestream plot"),
    "turn": ("a route trace", "moestream trace"),
}


class Lines:
    """The lines of a stream, with their numbers.

    Attributes:
        path: of the file, for messages.
        number: of the line read last, from 1.
        cut: the last line has no end: whoever wrote it did not get there, so it is left out.
    """

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self.number = 0
        self.cut = False
        self._stream = stream

    def __iter__(self) -> Iterator[str]:
        while (line := self._stream.readline(LINE_LIMIT)) != b"":
            self.number += 1
            if not line.endswith(b"\n"):
                if len(line) >= LINE_LIMIT:
                    raise self.wrong(f"is longer than {LINE_LIMIT} bytes")
                self.cut = True
                return
            text = line.decode("utf-8", "replace").strip()
            yield text.removeprefix("\ufeff") if self.number == 1 else text

    def wrong(self, what: str, *, number: int | None = None) -> ConfigError:
        """An error about a line; the one read last unless said otherwise."""
        return ConfigError(f"{self.path}: line {self.number if number is None else number} {what}")

    def header(self, first_column: str) -> tuple[list[str], list[tuple[int, str]]]:
        """Read up to the header row.

        Returns:
            Its columns, and the comments before it with their line numbers.
        """
        what, _verb = _KINDS[first_column]
        comments: list[tuple[int, str]] = []
        for line in self:
            if line.startswith("#") and len(comments) < _MOST_COMMENTS:
                comments.append((self.number, line[1:].strip()))
            elif line.startswith(f"{first_column},"):
                return self._columns(line), comments
            elif line:
                raise self.wrong(_no_header(line, first_column))
        raise ConfigError(f"{self.path} is not {what}: there is no header row in it")

    def _columns(self, header: str) -> list[str]:
        names = [name.strip() for name in header.split(",")]
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise self.wrong(f"has the column {excerpt(name)} {times} times")
        return names


def _no_header(line: str, first_column: str) -> str:
    for column, (what, verb) in _KINDS.items():
        if line.startswith(f"{column},"):
            return f"is the header of {what}; use {verb} for it"
    what, _verb = _KINDS[first_column]
    return (
        f"is {excerpt(line)}, where {what} has comments and then a header that begins with "
        f"'{first_column},'"
    )


def open_recording(path: Path) -> BinaryIO:
    """The file, unless opening or reading it could wait for somebody.

    Raises:
        ConfigError: it is something else than a file.
        OSError: there is no such file, or it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        kind = "a directory" if path.is_dir() else "not a regular file"
        raise ConfigError(f"{path} is {kind}; give the file that --csv or --route-trace wrote")
    return path.open("rb")


def pairs(text: str) -> dict[str, str]:
    """``key=value`` pairs; a value goes on until the next key, so it may have spaces in it."""
    keys = list(_KEY.finditer(text))
    ends = [match.start() for match in keys[1:]] + [len(text)]
    return {
        match[1]: text[match.end() : end].strip() for match, end in zip(keys, ends, strict=True)
    }


def whole(text: str) -> int | None:
    """``text`` as a number of 0 or more; ``None`` if it is none, or absurdly long."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def excerpt(text: str) -> str:
    """The beginning of ``text`` as it is quoted in messages, on one line."""
    return repr(text if len(text) <= 40 else text[:40] + "...")
