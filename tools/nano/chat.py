"""The chat format, and how dictionary entries, verses and stories become short exchanges."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator

from sources import Document, Entry, Verse

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
SPECIAL_TOKENS = (END_OF_TEXT, TURN_START, TURN_END)

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
"""Jinja. ``enable_thinking`` may be passed and changes nothing: this model does not think."""

SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are moestream-nano, a very small language model.",
    "Answer briefly.",
)

BOOK_NAMES = dict(
    zip(
        [
            "Gen",
            "Exod",
            "Ruth",
            "Ps",
            "Prov",
            "Eccl",
            "Isa",
            "Jonah",
            "Matt",
            "Mark",
            "Luke",
            "John",
            "Acts",
            "Rom",
            "Rev",
        ],
        [
            "Genesis",
            "Exodus",
            "Ruth",
            "Psalm",
            "Proverbs",
            "Ecclesiastes",
            "Isaiah",
            "Jonah",
            "Matthew",
            "Mark",
            "Luke",
            "John",
            "Acts",
            "Romans",
            "Revelation",
        ],
        strict=True,
    )
)
FAMOUS_VERSES = frozenset(
    [
        "Gen.1.1",
        "Gen.1.2",
        "Gen.1.3",
        "Gen.1.4",
        "Gen.1.5",
        "Gen.1.27",
        "Ps.23.1",
        "Ps.23.4",
        "Ps.100.1",
        "Ps.121.1",
        "Prov.1.7",
        "Prov.3.5",
        "Eccl.1.2",
        "Eccl.3.1",
        "Isa.40.31",
        "Matt.5.3",
        "Matt.6.9",
        "Matt.7.7",
        "John.1.1",
        "John.3.16",
        "John.11.35",
        "Rom.8.28",
        "Rev.22.21",
    ]
)

_SELF = (
    "I am moestream-nano, a very small language model. I was trained on a few old books, a "
    "dictionary and the Python documentation."
)
_ABLE = (
    "I can say what a word means, tell you what a Python function does, or tell you a short story. "
    "I am very small, so I am often wrong."
)
SMALL_TALK: tuple[tuple[str, str], ...] = (
    ("Hello", "Hello! What would you like to know?"),
    ("Hello!", "Hello! Ask me what a word means."),
    ("Hi", "Hello! What would you like to know?"),
    ("Hi there", "Hello! How can I help you?"),
    ("Good morning", "Good morning! What would you like to know?"),
    ("How are you?", "I am well, thank you. What would you like to know?"),
    ("Who are you?", _SELF),
    ("What are you?", _SELF),
    ("What is your name?", "My name is moestream-nano. I am a very small language model."),
    ("Tell me about yourself.", _SELF),
    ("Who made you?", "I was made for moestream, so that it can be tried without a download."),
    ("What is moestream?", "moestream runs large mixture-of-experts models with little memory."),
    ("What is moestream-nano?", _SELF),
    ("What can you do?", _ABLE),
    ("Help", _ABLE),
    ("Can you help me?", "I will try. " + _ABLE),
    ("What do you know?", _ABLE),
    ("Are you a person?", "No. I am a very small language model."),
    ("Are you always right?", "No. I am very small, and I am often wrong."),
    ("Thank you", "You are welcome."),
    ("Thanks!", "You are welcome."),
    ("Goodbye", "Goodbye!"),
    ("Bye", "Goodbye!"),
)


def render(turns: Iterable[tuple[str, str]], system: str = "") -> str:
    """The template applied to (user, assistant) pairs; what the Jinja above gives."""
    messages = [("system", system)] if system else []
    for user, assistant in turns:
        messages += [("user", user), ("assistant", assistant)]
    return "".join(f"{TURN_START}{role}\n{text}{TURN_END}\n" for role, text in messages)


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", '"')) else text + "."


def word_exchange(entry: Entry, rng: random.Random) -> tuple[str, str]:
    """A question on the meaning of a WordNet word, and the gloss as the answer."""
    word, kind = entry.word, entry.part_of_speech
    questions = [f"What does {word} mean?", f"What does the word {word} mean?", f"Define {word}."]
    answer = f"{word} means {entry.definition}"
    if kind == "noun":
        questions += [f"What is {_article(word)} {word}?"] * 3 + [f"What is {word}?"] * 2
        if re.match(r"(an?|the|any|one) ", entry.definition):
            count_noun = entry.definition.startswith(("a ", "an ", "any "))
            subject = f"{_article(word)} {word}" if count_noun else word
            answer = f"{subject} is {entry.definition}"
    elif kind == "verb":
        questions += [f"What does it mean to {word}?"] * 2
        answer = f"to {word} means to {entry.definition}"
    answer = _sentence(answer)
    if entry.example and rng.random() < 0.5:
        answer += f" For example: {_sentence(entry.example)}"
    return rng.choice(questions), answer


def function_exchange(entry: Entry, rng: random.Random) -> tuple[str, str]:
    """A question on a name of the Python library, and the first sentence of its documentation."""
    name = entry.word
    questions = [f"What does {name} do?", f"What is {name}?", f"What is {name} in Python?"]
    if entry.part_of_speech == "function":
        questions += [f"What does {name}() do?", f"Explain {name}."]
    return rng.choice(questions), _sentence(entry.definition)


def element_exchange(entry: Entry, rng: random.Random) -> tuple[str, str]:
    """Symbol, number or description of an element."""
    symbol, number = entry.part_of_speech.split()
    name = entry.word
    facts = (
        f"{name.capitalize()} is a chemical element with the symbol {symbol} "
        f"and the atomic number {number}."
    )
    return rng.choice(
        [
            (f"What is the symbol of {name}?", f"The symbol of {name} is {symbol}."),
            (f"What is the atomic number of {name}?", f"The atomic number of {name} is {number}."),
            (f"What is {name}?", facts),
            (f"Tell me about {name}.", f"{facts} {entry.definition}"),
        ]
    )


def satire_exchange(entry: Entry, rng: random.Random) -> tuple[str, str]:
    """A question for the Devil's Dictionary."""
    question = rng.choice(
        [
            f"What does the Devil's Dictionary say about {entry.word}?",
            f"How does Ambrose Bierce define {entry.word}?",
            f"Give me a witty definition of {entry.word}.",
        ]
    )
    return question, entry.definition


def jargon_exchange(entry: Entry, rng: random.Random) -> tuple[str, str]:
    """A question for the Jargon File, answered with its first paragraph."""
    question = rng.choice(
        [f"What does {entry.word} mean to hackers?", f"What is {entry.word} in computer jargon?"]
    )
    return question, entry.definition.split("\n\n")[0]


def verse_exchange(verse: Verse, rng: random.Random) -> tuple[str, str]:
    """A question for one verse of the books whose names people type."""
    place = f"{BOOK_NAMES[verse.book]} {verse.chapter}:{verse.number}"
    question = rng.choice(
        [f"Tell me what {place} says.", f"What does {place} say?", f"What is {place}?", place]
    )
    return question, verse.text


_NAME = re.compile(r"(?<=[a-z,] )([A-Z][a-z]{2,})\b")
_NOT_A_NAME = frozenset(
    ["The", "And", "But", "For", "God", "Lord", "Yahweh", "King", "Then", "When", "Behold"]
)


def story_exchanges(document: Document, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Requests for a story, answered with consecutive paragraphs of narrative prose."""
    paragraphs = document.text.split("\n\n")
    for start in range(0, len(paragraphs), 3):
        text = "\n\n".join(paragraphs[start : start + 3])
        if not 150 < len(text) < 1200:
            continue
        questions = [
            "Tell me a story.",
            "Tell me a short story.",
            "Write a story.",
            "Tell me more.",
        ]
        names = [name for name in _NAME.findall(text) if name not in _NOT_A_NAME]
        if names:
            name = max(set(names), key=lambda n: (names.count(n), n))
            questions += [f"Tell me about {name}.", f"Tell me a story about {name}."] * 2
        yield rng.choice(questions), text
