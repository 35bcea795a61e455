"""Texts as vectors without a model, vectors as bytes, and which of many are nearest to one."""

from __future__ import annotations

import heapq
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import mul
from typing import Any
from zlib import crc32

from planrunner.records import Struct

DIMENSIONS = 256
HASH = "hash"
"""The embedder that needs no model, no network and no configuration."""
_WORTH = 500
"""From so many vectors on numpy is quicker than it takes to import."""


class Vector(Struct):
    """What an embedder made of a text: ``embedder`` is its name with the length, ``data`` are 32-bit floats, of length
    one together (or all zero), so that a product of two is their similarity."""

    embedder: str
    data: bytes


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """The vector of a text, of length one (of a text without words: all zeros); the same on every machine.

    Every word, every pair of words and every four letters in a row count in the place that their CRC-32 gives, up or
    down by its highest bit.
    """
    sums = [0.0] * dimensions
    for feature, weight in _features(text):
        number = crc32(feature.encode())
        sums[number % dimensions] += weight if number < 1 << 31 else -weight
    length = math.sqrt(math.fsum(value * value for value in sums))
    return [round(value / length, 6) + 0.0 for value in sums] if length else sums


def _features(text: str) -> Iterator[tuple[str, float]]:
    words = re.findall(r"\w+", text.casefold())
    for word in words:
        yield f"w {word}", 1.0
        for at in range(len(word) - 3):
            yield f"g {word[at : at + 4]}", 0.5
    for one, other in pairwise(words):
        yield f"b {one} {other}", 0.75


def is_vector(value: object) -> bool:
    """Whether it is a list of finite numbers."""
    numbers = (int, float)
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(each, numbers) and not isinstance(each, bool) and each - each == 0 for each in value)
    )


def hashed(text: str) -> Vector:
    """The vector of a text by the embedder without a model."""
    return packed(HASH, vector(text))


def packed(embedder: str, values: Sequence[float]) -> Vector:
    """Numbers as a vector of length one; ``embedder`` is the name of what made them."""
    length = math.sqrt(math.fsum(value * value for value in values)) or 1.0
    return Vector(f"{embedder} {len(values)}", array("f", [value / length for value in values]).tobytes())


class Matrix:
    """Vectors of one length, each with the number it is known by. It is kept from query to query: reading the vectors
    takes longer than comparing them."""

    __slots__ = ("_numbers", "_rows")

    def __init__(self, rows: Sequence[tuple[int, bytes]]) -> None:
        self._numbers = [number for number, _ in rows]
        self._rows: Any = [data for _, data in rows]
        np = _numpy() if len(rows) >= _WORTH else None
        if np is not None:
            width = len(self._rows[0]) // 4
            self._rows = np.frombuffer(b"".join(self._rows), dtype=np.float32).reshape(-1, width)

    def nearest(self, query: bytes, limit: int) -> list[tuple[int, float]]:
        """The numbers of the most similar vectors, the best first, with their similarity from -1 to 1."""
        if not isinstance(self._rows, list):
            return self._by_numpy(query, limit)
        wanted = array("f", query).tolist()
        likeness = (sum(map(mul, wanted, memoryview(data).cast("f"))) for data in self._rows)
        best = heapq.nlargest(limit, zip(likeness, self._numbers, strict=True), key=lambda pair: (pair[0], -pair[1]))
        return [(number, value) for value, number in best]

    def _by_numpy(self, query: bytes, limit: int) -> list[tuple[int, float]]:
        np = _numpy()
        likeness = self._rows @ np.frombuffer(query, dtype=np.float32)
        count = min(limit, len(likeness))
        top: Any = np.argpartition(likeness, -count)[-count:] if count else []
        pairs = sorted((-float(likeness[at]), self._numbers[at]) for at in top)
        return [(number, -value) for value, number in pairs]


def _numpy() -> Any:
    """numpy, which the extra `vector` brings; None without it."""
    try:
        import numpy as np
    except ImportError:
        return None
    return np
