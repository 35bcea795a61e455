"""The words of texts and of queries, and which texts fit a query best by its words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

_MOST_WORDS = 60
"""Words of a query that are looked for."""
_WORD = re.compile(r"[^\W_]+")
_COMMON = frozenset(
    "a an and are as at be but by do does for from has have how in is it its of on or that the their there these they "
    "this to was were what when where which who why will with".split()
)


def words(text: str) -> list[str]:
    """The words in small letters, in order."""
    return _WORD.findall(text.casefold())


def that_count(asked: Iterable[str]) -> list[str]:
    """The words of a query that count, each once; all of them where only common ones stand in it."""
    found = list(dict.fromkeys(asked))[:_MOST_WORDS]
    return [word for word in found if word not in _COMMON] or found


def terms(query: str) -> list[str]:
    """The words of a query, as ``that_count`` chooses them."""
    return that_count(words(query))


def ranked(query: str, texts: Sequence[Mapping[str, int]]) -> list[tuple[int, float]]:
    """The numbers of the texts that have words of a query, the most relevant first, with their relevance: rare words
    count more. A text is given as its words, each with its weight."""
    asked = terms(query)
    spread = Counter(word for text in texts for word in asked if word in text)
    rarity = {word: math.log(1 + len(texts) / count) for word, count in spread.items()}
    scores = [sum(rarity[word] * text[word] for word in asked if word in text) for text in texts]
    order = sorted((at for at, score in enumerate(scores) if score), key=lambda at: -scores[at])
    return [(at, scores[at]) for at in order]
