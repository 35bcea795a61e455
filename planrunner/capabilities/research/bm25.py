"""Relevance by BM25, on the full-text index of SQLite in memory: the same texts give the same scores."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from sqlite3 import Connection

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.research.words import spaced, words

_MOST_WORDS = 60
_TITLE_WEIGHT = 4.0
_SATURATION, _LENGTH = 1.2, 0.75
_COMMON = frozenset(
    "a an and are as at be but by do does for from has have how in is it its of on or that the their there these they "
    "this to was were what when where which who why will with".split()
)


def terms(query: str) -> list[str]:
    """The words of a question that count, each once; all of them where only common ones stand in it."""
    found = list(dict.fromkeys(words(query)))[:_MOST_WORDS]
    return [word for word in found if word not in _COMMON] or found


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
        found: dict[int, float] = {}
        sql = "SELECT doc, col, count(*) FROM texts_words WHERE term = ? GROUP BY doc, col ORDER BY doc, col"
        for number, column, times in self._connection.execute(sql, (stem,)):
            found[number] = found.get(number, 0.0) + times * (_TITLE_WEIGHT if column == "title" else 1.0)
        total, having = len(self._lengths), len(found)
        rarity = math.log(1 + (total - having + 0.5) / (having + 0.5))
        mean = sum(self._lengths) / max(1, total)
        return {
            number: rarity * times * (_SATURATION + 1) / (times + _SATURATION * self._penalty(number, mean))
            for number, times in found.items()
        }

    def _penalty(self, number: int, mean: float) -> float:
        return 1 - _LENGTH + _LENGTH * self._lengths[number] / mean


def scores(weights: dict[str, dict[int, float]]) -> dict[int, float]:
    """How well texts fit the question as a whole; higher is better, those that have none of the words are missing."""
    total: dict[int, float] = {}
    for found in weights.values():
        for number, weight in found.items():
            total[number] = total.get(number, 0.0) + weight
    return total
