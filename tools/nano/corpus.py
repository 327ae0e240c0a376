"""Build the tokenised training and held-out streams from the unpacked packages.

    python corpus.py --packages BUILD/packages --out BUILD/data

Each document belongs to one side of the split by a hash of its key; documents of the training
side are repeated by the weights below, shuffled with a fixed seed, and joined by ``<|endoftext|>``.
There are two training streams: a broad one to begin with (the tokeniser, too, is trained on it)
and a narrower one, of what the model is to talk like, to end with. Held-out documents appear once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

import chat
import sources
from sources import Document, Entry
from tokenizer import encode_documents, load_tokenizer, train_tokenizer

SEED = 20
HELD_OUT_PERCENT = 2.5
ALWAYS_HELD_OUT = frozenset({"tom-sawyer.20"})
"""Tom Sawyer has 35 chapters, none of which the hash happens to choose."""

BROAD_WEIGHTS = {
    "kjv": 1.0,
    "modern-bible": 1.6,
    "tom-sawyer": 8.0,
    "opticks": 1.0,
    "devil": 2.0,
    "jargon": 1.0,
    "python-tutorial": 3.0,
    "python-howto": 1.5,
    "python-faq": 3.0,
    "python-library": 0.45,
    "python-reference": 0.7,
    "python-using": 0.5,
    "chat-top-word": 1.0,
    "chat-word": 1.0,
    "chat-rare-word": 1.0,
    "chat-python": 1.0,
    "chat-element": 1.0,
    "chat-satire": 1.0,
    "chat-jargon": 1.0,
    "chat-verse": 1.0,
    "chat-story": 2.0,
    "chat-small-talk": 1.0,
}
"""How often a document of a source is repeated (a fraction keeps that share of the documents)."""

FOCUS_WEIGHTS = {
    "kjv": 0.7,
    "modern-bible": 1.5,
    "tom-sawyer": 12.0,
    "python-tutorial": 1.5,
    "chat-top-word": 3.0,
    "chat-word": 0.5,
    "chat-python": 0.5,
    "chat-element": 1.0,
    "chat-satire": 0.5,
    "chat-verse": 1.0,
    "chat-story": 3.0,
    "chat-small-talk": 5.0,
}
"""The same for the second stream; sources that are not named are left out."""

_UNWELCOME = re.compile(
    r"n[i]gg|\b(slur|offensive|obscene|vulgar|derogatory|disparaging|rape[ds]?|whor\w*|sexual\w*|"
    r"incest|genital\w*|penis|vagina|shit\w*|fuck\w*|bitch\w*|negro\w*|squaw|bastard\w*|arse\w*)\b",
    flags=re.I,
)


def is_held_out(key: str) -> bool:
    """The side of the split, stable across machines and runs."""
    return key in ALWAYS_HELD_OUT or _hash_percent("split:" + key) < HELD_OUT_PERCENT


def _hash_percent(text: str) -> float:
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 * 100


def clean(document: Document) -> Document | None:
    """Drop the paragraphs that a demo model had better not repeat; ``None`` if nothing is left."""
    text = document.text.replace("Injun Joe", "Joe")
    paragraphs = [p for p in re.split(r"\n(?=\n|\S)", text) if not _UNWELCOME.search(p)]
    text = "\n".join(paragraphs).strip()
    return Document(document.source, document.key, text) if len(text) > 20 else None


def prose(packages: Path) -> Iterator[Document]:
    """All plain documents."""
    readers: tuple[Callable[[Path], Iterator[Document]], ...] = (
        sources.king_james,
        sources.modern_bible,
        sources.tom_sawyer,
        sources.opticks,
        sources.python_docs,
    )
    for reader in readers:
        yield from reader(packages)
    for entry in sources.devils_dictionary(packages):
        text = f"{entry.word.capitalize()}, {entry.part_of_speech} {entry.definition}"
        yield Document("devil", entry.key, text)
    for entry in sources.jargon_file(packages):
        yield Document("jargon", entry.key, f"{entry.word}: {entry.definition}")


def word_source(entry: Entry) -> str:
    """Words by how often WordNet's tagged texts have them."""
    if entry.frequency >= 100:
        return "top-word"
    return "word" if entry.frequency >= 10 else "rare-word"


def word_repetitions(entry: Entry) -> int:
    """Common words are seen often enough to be remembered, rare ones once."""
    for floor, repetitions in ((100, 12), (30, 8), (10, 4), (3, 2)):
        if entry.frequency >= floor:
            return repetitions
    return 1


def exchanges(packages: Path, rng: random.Random) -> Iterator[Document]:
    """All chat documents; repeated ones are worded anew each time."""

    def one(source: str, key: str, turn: tuple[str, str]) -> Document:
        system = rng.choice(chat.SYSTEM_PROMPTS) if rng.random() < 0.1 else ""
        return Document(f"chat-{source}", key, chat.render([turn], system))

    def repeat(
        source: str,
        entries: Iterable[Entry],
        make: Callable[[Entry, random.Random], tuple[str, str]],
        times: Callable[[Entry], int],
    ) -> Iterator[Document]:
        for entry in entries:
            for _ in range(1 if is_held_out(entry.key) else times(entry)):
                yield one(source, entry.key, make(entry, rng))

    for entry in sources.wordnet(packages):
        yield from repeat(word_source(entry), [entry], chat.word_exchange, word_repetitions)
    yield from repeat(
        "python", sources.python_functions(packages), chat.function_exchange, lambda _: 2
    )
    yield from repeat("element", sources.elements(packages), chat.element_exchange, lambda _: 8)
    yield from repeat(
        "satire", sources.devils_dictionary(packages), chat.satire_exchange, lambda _: 1
    )
    yield from repeat("jargon", sources.jargon_file(packages), chat.jargon_exchange, lambda _: 1)
    for verse in sources.king_james_verses(packages):
        famous = f"{verse.key}.{verse.number}" in chat.FAMOUS_VERSES
        if verse.book in chat.BOOK_NAMES and (famous or rng.random() < 0.12):
            for _ in range(24 if famous and not is_held_out(verse.key) else 1):
                yield one("verse", verse.key, chat.verse_exchange(verse, rng))
    for reader in (sources.tom_sawyer, sources.modern_bible):
        for document in reader(packages):
            for turn in chat.story_exchanges(document, rng):
                if reader is sources.tom_sawyer or rng.random() < 0.2:
                    yield one("story", document.key, turn)
    for question, answer in chat.SMALL_TALK:
        for _ in range(80):  # never held out: these are to be learnt by heart
            yield one("small-talk", "always-train", (question, answer))


def weighted(
    documents: list[Document], weights: dict[str, float], rng: random.Random
) -> list[Document]:
    """Repeat the training documents by their weight, in a shuffled order."""
    chosen: list[Document] = []
    for document in documents:
        weight = weights.get(document.source, 0.0)
        whole = int(weight)
        extra = _hash_percent("weight:" + document.key) < 100 * (weight - whole)
        chosen += [document] * (whole + extra)
    rng.shuffle(chosen)
    return chosen


def build(packages: Path, out: Path, tokenizer_file: Path | None) -> None:
    """Write the tokeniser, both training streams, the held-out ones and a summary."""
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(SEED)
    documents = [d for d in map(clean, (*prose(packages), *exchanges(packages, rng))) if d]
    held_out = [d for d in documents if is_held_out(d.key)]
    for_training = [d for d in documents if not is_held_out(d.key)]
    broad = weighted(for_training, BROAD_WEIGHTS, rng)
    rng.shuffle(held_out)
    focus = weighted(for_training, FOCUS_WEIGHTS, rng)
    focus_held_out = [d for d in held_out if d.source in FOCUS_WEIGHTS]

    held_texts = {d.text for d in held_out}
    assert not held_texts & {d.text for d in for_training}, "a held-out text is also trained on"

    if tokenizer_file:
        tokenizer = load_tokenizer(tokenizer_file)
    else:
        tokenizer = train_tokenizer((d.text for d in broad), chat.SPECIAL_TOKENS)
    tokenizer.save(str(out / "tokenizer.json"))
    summary: dict[str, object] = {"seed": SEED, "held_out_percent": HELD_OUT_PERCENT}
    streams = {
        "broad": broad,
        "focus": focus,
        "held_out": held_out,
        "focus_held_out": focus_held_out,
    }
    for name, side in streams.items():
        ids = encode_documents(tokenizer, [d.text for d in side], chat.END_OF_TEXT)
        ids.astype(np.uint16).tofile(out / f"{name}.bin")
        characters = Counter[str]()
        for document in side:
            characters[document.source] += len(document.text)
        summary[name] = {
            "documents": len(side),
            "tokens": len(ids),
            "characters": sum(characters.values()),
            "characters_per_token": round(sum(characters.values()) / len(ids), 4),
            "characters_by_source": dict(characters.most_common()),
        }
    by_source = out / "held_out"
    by_source.mkdir(exist_ok=True)
    for source in sorted({d.source for d in held_out}):
        texts = [d.text for d in held_out if d.source == source]
        ids = encode_documents(tokenizer, texts, chat.END_OF_TEXT)
        ids.astype(np.uint16).tofile(by_source / f"{source}.bin")
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(json.dumps(summary, indent=2))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, help="a vocabulary to keep, else one is trained")
    arguments = parser.parse_args()
    build(arguments.packages, arguments.out, arguments.tokenizer)


if __name__ == "__main__":
    main()
