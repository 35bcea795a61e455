"""The words of a text and its sentences, each with its place."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

_WORD = re.compile(r"[^\W_]+")
_END = re.compile(r"[.!?。！？]+[\"'”’)\]]*(?=\s|$)|[。！？]|\n")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Za-z]|e\.g|i\.e|vs|cf|no|fig|sec|dr|mr|mrs|ms|st|approx|resp|etc)|\d)\.$", re.IGNORECASE
)
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")
_LONGEST = 1_000


class Sentence(NamedTuple):
    """A sentence as it stands in the text: ``text[start:end]``."""

    start: int
    end: int
    quote: str


def spaced(text: str) -> str:
    """The text with the signs of scripts that put no spaces between words standing apart, each a word of its own."""
    return _UNSPACED.sub(r" \g<0> ", text)


def words(text: str) -> list[str]:
    """The words in small letters and without accents, in order."""
    plain = unicodedata.normalize("NFKD", spaced(text))
    return _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)).casefold())


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a text. A line end parts them as well; one that is longer than 1,000 characters is cut there."""
    start = 0
    for match in _END.finditer(text):
        if match[0].startswith(".") and _ABBREVIATION.search(text, max(start, match.start() - 12), match.start() + 1):
            following = text[match.end() : match.end() + 2].strip()
            if not following or not following[0].isupper() or not text[match.start() - 1].isdigit():
                continue
        yield from _cut(text, start, match.end())
        start = match.end()
    yield from _cut(text, start, len(text))


def _cut(text: str, start: int, end: int) -> Iterator[Sentence]:
    while start < end:
        piece = text[start : min(end, start + _LONGEST)]
        quote = piece.strip()
        if quote:
            at = start + len(piece) - len(piece.lstrip())
            yield Sentence(at, at + len(quote), quote)
        start += len(piece)
