"""Readers for the unpacked Debian packages: each yields clean, licensed English text.

Every reader takes the folder that holds the unpacked packages (one sub-folder a package) and
yields :class:`Document` objects. A document's ``key`` decides on which side of the held-out split
it falls, so whatever tells the same thing (a chapter in two translations, a dictionary entry and
the questions about it) must carry the same key.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import struct
import subprocess
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BOOKS = [
    "Gen",
    "Exod",
    "Lev",
    "Num",
    "Deut",
    "Josh",
    "Judg",
    "Ruth",
    "1Sam",
    "2Sam",
    "1Kgs",
    "2Kgs",
    "1Chr",
    "2Chr",
    "Ezra",
    "Neh",
    "Esth",
    "Job",
    "Ps",
    "Prov",
    "Eccl",
    "Song",
    "Isa",
    "Jer",
    "Lam",
    "Ezek",
    "Dan",
    "Hos",
    "Joel",
    "Amos",
    "Obad",
    "Jonah",
    "Mic",
    "Nah",
    "Hab",
    "Zeph",
    "Hag",
    "Zech",
    "Mal",
    "Matt",
    "Mark",
    "Luke",
    "John",
    "Acts",
    "Rom",
    "1Cor",
    "2Cor",
    "Gal",
    "Eph",
    "Phil",
    "Col",
    "1Thess",
    "2Thess",
    "1Tim",
    "2Tim",
    "Titus",
    "Phlm",
    "Heb",
    "Jas",
    "1Pet",
    "2Pet",
    "1John",
    "2John",
    "3John",
    "Jude",
    "Rev",
]

_PUNCTUATION = {
    0x201C: '"', 0x201D: '"', 0x2018: "'", 0x2019: "'",
    0x2013: "-", 0x2014: " - ", 0x2026: "...", 0x00A0: " ",
}  # fmt: skip
"""Typographic quotes, dashes, ellipsis and no-break space in ASCII."""


@dataclass(frozen=True)
class Document:
    """One text: where it is from, what decides its split, and the text."""

    source: str
    key: str
    text: str


def to_ascii(text: str) -> str:
    """Typographic punctuation to ASCII; whatever else is not ASCII is dropped."""
    return text.translate(_PUNCTUATION).encode("ascii", "ignore").decode()


def unwrap(text: str) -> str:
    """Join the lines of each paragraph; one blank line between paragraphs."""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(p for p in (" ".join(q.split()) for q in paragraphs) if p)


# ---------------------------------------------------------------- Bible, two translations


@dataclass(frozen=True)
class Verse:
    """A King James verse with its place."""

    book: str
    chapter: int
    number: int
    text: str

    @property
    def key(self) -> str:
        """The chapter, shared with the other translation."""
        return f"{self.book}.{self.chapter}"


def king_james_verses(packages: Path) -> list[Verse]:
    """All verses, decoded by the tool of the package ``bible-kjv``."""
    tool = (packages / "bible-kjv/usr/bin/bible").resolve()
    listing = subprocess.run(
        [tool, "-f", "-d", "bible.data", "Gen1:1-Rev22:21"],
        cwd=packages / "bible-kjv-text/usr/lib",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    verses: list[Verse] = []
    abbreviations: list[str] = []
    for line in listing.splitlines():
        match = re.match(r"(\w+?)(\d+):(\d+) (.*)", line.strip())
        if not match:
            continue
        if match[1] not in abbreviations:
            abbreviations.append(match[1])
        book = BOOKS[abbreviations.index(match[1])]
        verses.append(Verse(book, int(match[2]), int(match[3]), to_ascii(match[4])))
    return verses


def king_james(packages: Path) -> Iterator[Document]:
    """One document a chapter."""
    chapters: dict[str, list[str]] = defaultdict(list)
    for verse in king_james_verses(packages):
        chapters[verse.key].append(verse.text)
    for key, lines in chapters.items():
        yield Document("kjv", key, "\n".join(lines))


def _sword_text(folder: Path, testament: str) -> str:
    """All text of one testament of a SWORD ``zText`` module (zlib blocks, 12-byte index rows)."""
    index = (folder / f"{testament}.bzs").read_bytes()
    data = (folder / f"{testament}.bzz").read_bytes()
    blocks = []
    for offset, size, _ in struct.iter_unpack("<III", index):
        if size:
            blocks.append(zlib.decompress(data[offset : offset + size]).decode("utf-8"))
    return "".join(blocks)


def _osis_to_text(markup: str) -> str:
    """The running text of one chapter, with its paragraphs."""
    text = re.split(r"<chapter [^>]*eID=", markup)[0]
    text = re.sub(r"<(note|title|reference)\b.*?</\1>", "", text, flags=re.S)
    text = re.sub(r'<div [^>]*?type="x-p"/>', "\n\n", text)
    text = unwrap(to_ascii(re.sub(r"<[^>]+>", " ", text)))
    return re.sub(r"\s+([,.;:?!])", r"\1", text)


def modern_bible(packages: Path) -> Iterator[Document]:
    """The 66 books of a modern public-domain translation, one document a chapter."""
    folder = packages / "sword-text-web/usr/share/sword/modules/texts/ztext/engWEB2015eb"
    for testament in ("ot", "nt"):
        markup = _sword_text(folder, testament)
        parts = re.split(r'<chapter [^>]*?osisID="([^"]+)"[^>]*?sID=[^>]*>', markup)
        for key, body in zip(parts[1::2], parts[2::2], strict=True):
            if key.split(".")[0] not in BOOKS:
                continue
            yield Document("modern-bible", key, _osis_to_text(body))


# ---------------------------------------------------------------- two books


def tom_sawyer(packages: Path) -> Iterator[Document]:
    """The Adventures of Tom Sawyer, one document a chapter."""
    path = packages / "golang-github-klauspost-compress-dev/usr/share/gocode/src"
    path = path / "github.com/klauspost/compress/testdata/Mark.Twain-Tom.Sawyer.txt"
    text = to_ascii(path.read_text(errors="ignore"))
    chapters = re.split(r"\n\s*CHAPTER [IVXL]+\b[^\n]*\n", text)[1:]
    for number, chapter in enumerate(chapters, 1):
        yield Document("tom-sawyer", f"tom-sawyer.{number}", unwrap(chapter))


def opticks(packages: Path) -> Iterator[Document]:
    """Newton's Opticks in pieces of some 8,000 characters; tables and notes of figures dropped."""
    path = packages / "golang-1.19-src/usr/share/go-1.19/src/testdata/Isaac.Newton-Opticks.txt"
    text = to_ascii(path.read_text(errors="ignore")).replace("_", "")
    paragraphs = [p for p in unwrap(text).split("\n\n") if len(p) > 80 and "[Illus" not in p]
    piece: list[str] = []
    number = 0
    for paragraph in paragraphs:
        piece.append(paragraph)
        if sum(map(len, piece)) > 8000:
            yield Document("opticks", f"opticks.{number}", "\n\n".join(piece))
            piece, number = [], number + 1
    yield Document("opticks", f"opticks.{number}", "\n\n".join(piece))


# ---------------------------------------------------------------- dictionaries


@dataclass(frozen=True)
class Entry:
    """A dictionary entry: head word, part of speech where known, definition, an example."""

    word: str
    part_of_speech: str
    definition: str
    example: str
    frequency: int
    key: str


_DICT_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _dict_number(text: str) -> int:
    value = 0
    for character in text:
        value = value * 64 + _DICT_DIGITS.index(character)
    return value


def _dict_articles(packages: Path, package: str, name: str) -> Iterator[tuple[str, str]]:
    """Head word and article of each entry of a dictd database."""
    folder = packages / package / "usr/share/dictd"
    data = gzip.decompress((folder / f"{name}.dict.dz").read_bytes())
    seen: set[int] = set()
    for line in (folder / f"{name}.index").read_text(errors="ignore").splitlines():
        word, offset_text, length_text = line.split("\t")[:3]
        offset, length = _dict_number(offset_text), _dict_number(length_text)
        if word.startswith("00") or offset in seen:
            continue
        seen.add(offset)
        yield word, to_ascii(data[offset : offset + length].decode("utf-8", "ignore"))


def devils_dictionary(packages: Path) -> Iterator[Entry]:
    """Ambrose Bierce, without the verses that follow many entries."""
    for _, article in _dict_articles(packages, "dict-devil", "devil"):
        match = re.match(r"\s*([A-Z][A-Z' -]+), ([a-z.]+)\s+(.*)", article, flags=re.S)
        if not match:
            continue
        prose = [p for p in re.split(r"\n\s*\n", match[3]) if not p.startswith("    ")]
        definition = " ".join(" ".join(prose).split())
        word = match[1].lower()
        if len(definition) > 20:
            yield Entry(word, match[2], definition, "", 0, f"devil.{word}")


def jargon_file(packages: Path) -> Iterator[Entry]:
    """The Jargon File, cross-reference braces and pronunciations removed."""
    for word, article in _dict_articles(packages, "dict-jargon", "jargon"):
        paragraphs = re.split(r"\n\s*\n", article)[1:]
        text = "\n\n".join(" ".join(p.split()) for p in paragraphs if p.strip())
        text = re.sub(r"\{\s*([^}]*?)\s*\}", r"\1", text)
        text = re.sub(r"^\[[^\]]*\]\s*", "", text)
        if len(text) > 60 and re.fullmatch(r"[A-Za-z][A-Za-z '-]+", word):
            yield Entry(word, "", text, "", 0, f"jargon.{word.lower()}")


def elements(packages: Path) -> Iterator[Entry]:
    """The chemical elements: the part of speech holds symbol and number."""
    for _, article in _dict_articles(packages, "dict-elements", "elements"):
        lines = article.strip().splitlines()
        fields = dict(line.split(": ", 1) for line in lines[1:4] if ": " in line)
        if {"Symbol", "Atomic number"} <= fields.keys():
            facts = f"{fields['Symbol'].strip()} {fields['Atomic number'].strip()}"
            text = " ".join(" ".join(lines[4:]).split())
            yield Entry(lines[0].strip().lower(), facts, text, "", 0, f"element.{lines[0].lower()}")


def _wordnet_frequencies(folder: Path) -> dict[tuple[str, str], int]:
    """Occurrences of each (lemma, part of speech) in WordNet's tagged texts."""
    kinds = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
    frequencies: dict[tuple[str, str], int] = defaultdict(int)
    for line in (folder / "cntlist.rev").read_text().splitlines():
        sense, _, occurrences = line.split()
        lemma, rest = sense.split("%")
        frequencies[lemma, kinds[rest[0]]] += int(occurrences)
    return frequencies


def _wordnet_lines(path: Path) -> Iterator[str]:
    """The lines of a WordNet file without its licence header (which is indented)."""
    for line in path.read_text(errors="ignore").splitlines():
        if not line.startswith(" "):
            yield line


def wordnet(packages: Path) -> Iterator[Entry]:
    """The commonest sense of each single-word lemma that occurs in tagged text.

    Lemmas with the same sense share its key, and so stand on the same side of the split.
    """
    folder = packages / "wordnet-base/usr/share/wordnet"
    frequencies = _wordnet_frequencies(folder)
    for kind in ("noun", "verb", "adj", "adv"):
        data = _wordnet_lines(folder / f"data.{kind}")
        glosses = {line[:8]: line.split(" | ", 1)[1].strip() for line in data}
        for line in _wordnet_lines(folder / f"index.{kind}"):
            lemma, _, senses, pointers, *rest = line.split()
            frequency = frequencies.get((lemma, kind), 0)
            first_sense = rest[int(pointers) + 2 :][: int(senses)][0]
            if not frequency or not re.fullmatch(r"[a-z]{3,}", lemma):
                continue
            key = f"wordnet.{kind}.{first_sense}"
            gloss = to_ascii(glosses[first_sense])
            definition = re.sub(r"^\([^)]*\) ", "", re.split(r'[;:] "', gloss)[0]).strip(" ;")
            example = re.search(r'[;:] "([^"]{12,90})"', gloss)
            if len(definition) > 8:
                quoted = example[1] if example else ""
                yield Entry(lemma, kind, definition, quoted, frequency, key)


# ---------------------------------------------------------------- Python documentation

_DIRECTIVE = re.compile(r"^\.\. (_.*|(index|sectionauthor|moduleauthor)::.*)\n", flags=re.M)
_DOC_FOLDERS = ("tutorial", "howto", "faq", "library", "reference", "using")


def _clean_rst(text: str) -> str:
    text = _DIRECTIVE.sub("", text)
    text = re.sub(r":[a-z:]+:`[~!]?([^`<]*?)(?:\s*<[^`>]*>)?`", r"\1", text)
    text = re.sub(r"([=\-~^\"*#+])\1{5,}", lambda m: m[1] * 4, text)
    text = re.sub(r"[ \t]+\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def python_docs(packages: Path) -> Iterator[Document]:
    """Sources of the Python 3.11 documentation, de-duplicated, without most of the markup."""
    root = packages / "python3.11-doc"
    seen: set[str] = set()
    for path in sorted({p.resolve() for p in root.rglob("*.rst.txt")}):
        folder = path.parent.name
        if folder not in _DOC_FOLDERS:
            continue
        text = _clean_rst(to_ascii(path.read_text(errors="ignore")))
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest not in seen:
            seen.add(digest)
            yield Document(f"python-{folder}", f"python.{folder}.{path.stem}", text)


_SIGNATURE = re.compile(
    r"^\.\. (function|class|method|exception|module|currentmodule):: ([\w.]+)([^\n]*)\n"
    r"((?:\s+[^\n]*::[^\n]*\n|\s+:[^\n]*\n)*)\n+   +([A-Z][^\n]*(?:\n   +\S[^\n]*)*)",
    flags=re.M,
)
_MODULE = re.compile(r"^\.\. (?:module|currentmodule):: ([\w.]+)", flags=re.M)


def python_functions(packages: Path) -> Iterator[Entry]:
    """Qualified names of the library and the first sentence on each."""
    for document in python_docs(packages):
        if document.source != "python-library":
            continue
        module = _MODULE.search(document.text)
        prefix = f"{module[1]}." if module and "builtins" not in module[1] else ""
        for match in _SIGNATURE.finditer(document.text):
            kind, name, text = match[1], match[2], " ".join(match[5].split())
            sentence = re.split(r"(?<=[a-z)`*])\. (?=[A-Z])|\.$|::", text)[0]
            sentence = sentence.replace("*", "").replace("`", "")
            if kind in ("function", "class", "exception") and 20 < len(sentence) < 240:
                qualified = name if name.startswith(prefix) else prefix + name
                yield Entry(qualified, kind, sentence, "", 0, document.key)
