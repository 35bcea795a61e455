"""Words of texts, their relevance to a question by BM25, and ``research.rank`` and ``research.dedupe``."""

from __future__ import annotations

import math
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from sqlite3 import Connection
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.research.source import Item, canonical, given, texts_of
from planrunner.knowledge.ranking import that_count

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


_TITLE_WEIGHT = 4.0
_SATURATION, _LENGTH = 1.2, 0.75


def terms(query: str) -> list[str]:
    """The words of a question that count, each once; all of them where only common ones stand in it."""
    return that_count(words(query))


class Index:
    """Texts, counted from 0, with their titles.

    SQLite splits them into words and takes the endings off; its own ``bm25()`` is not used, since a word that half of
    the texts have counts nothing there, and what a search finds is mostly about the words that were searched.
    """

    __slots__ = ("_connection", "_lengths")

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._connection: Connection = sqlite3.connect(":memory:")
        self._lengths: list[int] = []
        try:
            self._table("texts", "title, text")
            self._table("asked", "word")
        except sqlite3.OperationalError as error:
            self._connection.close()
            raise Failure(f"ranking needs SQLite with FTS5: {error}") from None
        for title, text in texts:
            row = (len(self._lengths), spaced(title), spaced(text))
            self._connection.execute("INSERT INTO texts (rowid, title, text) VALUES (?, ?, ?)", row)
            self._lengths.append(len(words(text)) + 1)

    def _table(self, name: str, columns: str) -> None:
        tokens = "porter unicode61 remove_diacritics 2"
        self._connection.execute(f"CREATE VIRTUAL TABLE {name} USING fts5({columns}, tokenize = '{tokens}')")
        self._connection.execute(f"CREATE VIRTUAL TABLE {name}_words USING fts5vocab({name}, 'instance')")

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def weights(self, query: str) -> dict[str, dict[int, float]]:
        """For each word of the question that counts, how much it adds to the score of the texts that have it."""
        asked = terms(query)
        self._connection.execute("DELETE FROM asked")
        self._connection.executemany("INSERT INTO asked (rowid, word) VALUES (?, ?)", enumerate(asked))
        stems = dict(self._connection.execute("SELECT doc, term FROM asked_words ORDER BY offset DESC"))
        return {word: self._weight(stems[number]) for number, word in enumerate(asked) if number in stems}

    def _weight(self, stem: str) -> dict[int, float]:
        counts: dict[int, float] = {}
        sql = "SELECT doc, col, count(*) FROM texts_words WHERE term = ? GROUP BY doc, col ORDER BY doc, col"
        for number, column, times in self._connection.execute(sql, (stem,)):
            counts[number] = counts.get(number, 0.0) + times * (_TITLE_WEIGHT if column == "title" else 1.0)
        total, having = len(self._lengths), len(counts)
        rarity = math.log(1 + (total - having + 0.5) / (having + 0.5))
        mean = sum(self._lengths) / max(1, total)
        return {
            number: rarity * times * (_SATURATION + 1) / (times + _SATURATION * self._penalty(number, mean))
            for number, times in counts.items()
        }

    def _penalty(self, number: int, mean: float) -> float:
        return 1 - _LENGTH + _LENGTH * self._lengths[number] / mean


def scores(weights: dict[str, dict[int, float]]) -> dict[int, float]:
    """How well texts fit the question as a whole; higher is better, those that have none of the words are missing."""
    total: dict[int, float] = {}
    for weight_of_texts in weights.values():
        for number, weight in weight_of_texts.items():
            total[number] = total.get(number, 0.0) + weight
    return total


class Ranked(NamedTuple):
    query: Annotated[str, Doc("the question they were ranked by")]
    sources: Annotated[list[dict[str, Any]], Doc("what came in, the best first, each with rank, score and reason")]
    total: Annotated[int, Doc("how many there are")]


@capability("research.rank", effect="pure")
def rank(
    context: Context,
    docs: Annotated[Any, Doc("what research.fetch, research.dedupe or research.search gave")],
    query: Annotated[str, Doc("the question; default: the one that `docs` carries")] = "",
    limit: Annotated[int, Doc("how many to keep; 0 keeps all")] = 0,
    matching: Annotated[bool, Doc("leave out what has none of the words")] = False,
) -> Ranked:
    """Rank by BM25: words that few of the texts have count more, and words in titles four times as much.

    Word endings of English do not matter, nor do accents and case. Equal scores keep the order they came in.
    """
    source = given(docs, "docs", query)
    asked = terms(source.query)
    if not asked:
        raise Failure("`query` is missing: `docs` carries no question along")
    titles = [str(item.get("title") or "") for item in source.items]
    with Index(zip(titles, texts_of(context, source.items))) as index:
        weights = index.weights(source.query)
    score = scores(weights)
    order = sorted(range(len(source.items)), key=lambda number: (-score.get(number, 0.0), number))
    if matching:
        order = [number for number in order if number in score]
    chosen = order[:limit] if limit > 0 else order
    sources = []
    for place, number in enumerate(chosen, 1):
        present = [term for term in asked if number in weights.get(term, {})]
        entry = {"rank": place, "score": round(score.get(number, 0.0), 6), "reason": _reason(present, len(asked))}
        sources.append({**source.items[number], **entry})
    return Ranked(source.query, sources, len(sources))


def _reason(present: list[str], total: int) -> str:
    if not present:
        return "has none of the words"
    named = ", ".join(present[:8])
    return f"has {len(present)} of {total} words: {named}{', …' if len(present) > 8 else ''}"


_SHINGLE = 5
SAME = 0.8
"""From which likeness two texts are nearly the same."""
_SKETCH = 512
"""Shingles kept of a text, those with the smallest digests: of shorter texts the likeness is exact."""


class Deduplicated(NamedTuple):
    query: Annotated[str, Doc("the question, where it is known")]
    docs: Annotated[list[dict[str, Any]], Doc("what stays, in the order it came: of equals the first")]
    dropped: Annotated[list[dict[str, Any]], Doc("what was left out: url, `of` (which one it repeats), kind, likeness")]
    total: Annotated[int, Doc("how many stay")]


@capability("research.dedupe", effect="pure")
def dedupe(
    context: Context,
    docs: Annotated[Any, Doc("what research.fetch, research.search or research.rank gave")],
    threshold: Annotated[
        float, Doc("from which share of common word sequences two texts are the same, up to 1")
    ] = SAME,
    query: Annotated[str, Doc("the question; default: the one that `docs` carries")] = "",
) -> Deduplicated:
    """Leave out pages at the same address, with the same text, or with nearly the same text.

    Nearly the same is measured on sequences of five words (Jaccard). Which ones stay depends on the order alone: rank
    first to keep the best of each.
    """
    if not 0 < threshold <= 1:
        raise Failure("`threshold` is above 0 and at most 1")
    source = given(docs, "docs", query)
    kept: list[tuple[Item, str, frozenset[int]]] = []
    dropped: list[Item] = []
    for item, text in zip(source.items, texts_of(context, source.items)):
        digest, sketch = fingerprint(text)
        again = _again(item, digest, sketch, kept, threshold)
        if again is None:
            kept.append((item, digest, sketch))
        else:
            dropped.append({"url": item["url"], **again})
    return Deduplicated(source.query, [item for item, _, _ in kept], dropped, len(kept))


def _again(
    item: Item, digest: str, sketch: frozenset[int], kept: list[tuple[Item, str, frozenset[int]]], threshold: float
) -> Item | None:
    """Which one of those that stay it repeats, and how."""
    address = _address(item)
    best: Item | None = None
    for other, other_digest, other_sketch in kept:
        if address == _address(other):
            return {"of": other["url"], "kind": "address", "likeness": 1.0}
        if digest and digest == other_digest:
            return {"of": other["url"], "kind": "text", "likeness": 1.0}
        likeness = likeness_of(sketch, other_sketch)
        if likeness >= threshold and (best is None or likeness > best["likeness"]):
            best = {"of": other["url"], "kind": "near", "likeness": round(likeness, 3)}
    return best


def _address(item: Item) -> str:
    """Where a page was found in the end; a slash at the end makes no other page."""
    try:
        return canonical(str(item.get("final_url") or item["url"])).rstrip("/")
    except Failure:
        return str(item["url"])


def fingerprint(text: str) -> tuple[str, frozenset[int]]:
    """A digest of the words, empty without any, and the sketch of their sequences."""
    all_words = words(text)
    if not all_words:
        return "", frozenset()
    length = min(_SHINGLE, len(all_words))
    shingles = {" ".join(all_words[at : at + length]) for at in range(len(all_words) - length + 1)}
    numbers = (int.from_bytes(blake2b(shingle.encode(), digest_size=8).digest(), "big") for shingle in shingles)
    return blake2b(" ".join(all_words).encode()).hexdigest(), frozenset(sorted(set(numbers))[:_SKETCH])


def likeness_of(one: frozenset[int], other: frozenset[int]) -> float:
    """Jaccard over the sketches; where a text has more shingles than the sketch holds, over the smallest of both."""
    if not one or not other:
        return 0.0
    union = one | other
    if len(one) < _SKETCH and len(other) < _SKETCH:
        return len(one & other) / len(union)
    smallest = sorted(union)[:_SKETCH]
    return sum(number in one and number in other for number in smallest) / len(smallest)
