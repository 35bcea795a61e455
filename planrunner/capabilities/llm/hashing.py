"""Vectors out of words alone, without a model: texts that share words and turns of phrase lie near each other."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from zlib import crc32

DIMENSIONS = 256


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """The vector of a text, of length one (of a text without words: all zeros); the same on every machine.

    Every word, every pair of words and every four letters in a row count in the place that their CRC-32 gives, up or
    down by its highest bit.
    """
    found = [0.0] * dimensions
    for feature, weight in _features(text):
        number = crc32(feature.encode())
        found[number % dimensions] += weight if number < 1 << 31 else -weight
    length = math.sqrt(math.fsum(value * value for value in found))
    return [round(value / length, 6) + 0.0 for value in found] if length else found


def _features(text: str) -> Iterator[tuple[str, float]]:
    words = re.findall(r"\w+", text.casefold())
    for word in words:
        yield f"w {word}", 1.0
        for at in range(len(word) - 3):
            yield f"g {word[at : at + 4]}", 0.5
    for one, other in pairwise(words):
        yield f"b {one} {other}", 0.75
