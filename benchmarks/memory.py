"""Runs in the environment of planrunner: 10,000 vectors of 384 numbers and 100,000 notes in a memory; prints the names
of the figures, then a round a line: milliseconds for a query, the median of twenty."""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from planrunner.knowledge.memory.database import Database
from planrunner.knowledge.memory.entries import Entry
from planrunner.knowledge.vectors import packed

VECTORS, WIDTH, NOTES = 10_000, 384, 100_000
QUERIES = 20
_WORDS = [f"word{number}" for number in range(20_000)]
_OFTEN = [1 / (rank + 1) for rank in range(len(_WORDS))]
"""As in natural language: the first words stand in nearly every note, most in hardly one."""


def main(rounds: int) -> None:
    chance = random.Random(17)
    with tempfile.TemporaryDirectory() as folder:
        by_vector, by_text = Database(f"{folder}/vectors.db"), Database(f"{folder}/notes.db")
        _fill(by_vector, _vectors(chance))
        _fill(by_text, _notes(chance))
        print("vectors text rare-words")
        for _ in range(rounds):
            figures = (
                _median(by_vector.by_vector, [packed("random", _numbers(chance)) for _ in range(QUERIES)]),
                _median(by_text.by_text, [" ".join(chance.choices(_WORDS, _OFTEN, k=5)) for _ in range(QUERIES)]),
                _median(by_text.by_text, [" ".join(chance.choices(_WORDS[100:], k=5)) for _ in range(QUERIES)]),
            )
            print(*(f"{figure:.3f}" for figure in figures), flush=True)


def _numbers(chance: random.Random) -> list[float]:
    return [chance.gauss(0, 1) for _ in range(WIDTH)]


def _vectors(chance: random.Random) -> Iterator[Entry]:
    for number in range(VECTORS):
        yield Entry(f"vector/{number}", number, updated=float(number), vector=packed("random", _numbers(chance)))


def _notes(chance: random.Random) -> Iterator[Entry]:
    for number in range(NOTES):
        yield Entry(f"note/{number}", " ".join(chance.choices(_WORDS, _OFTEN, k=30)), updated=float(number))


def _fill(store: Database, entries: Iterator[Entry]) -> None:
    """Many in a transaction: one commit each is what a task waits for, and not what is measured here."""
    while part := list(islice(entries, 5_000)):
        with store._writing():
            for entry in part:
                store._place(entry.key, entry)


def _median(search: Callable[[Any, int], object], queries: Sequence[Any]) -> float:
    times = []
    for query in queries:
        began = time.perf_counter()
        search(query, 10)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


if __name__ == "__main__":
    main(int(sys.argv[1]))
