"""``research.dedupe``: leave out what says the same again."""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.research.addresses import canonical
from planrunner.capabilities.research.given import Item, given, texts_of
from planrunner.capabilities.research.words import words

_SHINGLE = 5
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
    threshold: Annotated[float, Doc("from which share of common word sequences two texts are the same, up to 1")] = 0.8,
    query: Annotated[str, Doc("the question; default: the one that `docs` carries")] = "",
) -> Deduplicated:
    """Leave out pages at the same address, with the same text, or with nearly the same text.

    Nearly the same is measured on sequences of five words (Jaccard). Which ones stay depends on the order alone: rank
    first to keep the best of each.
    """
    if not 0 < threshold <= 1:
        raise Failure("`threshold` is above 0 and at most 1")
    found = given(docs, "docs", query)
    kept: list[tuple[Item, str, frozenset[int]]] = []
    dropped: list[Item] = []
    for item, text in zip(found.items, texts_of(context, found.items)):
        digest, sketch = _fingerprint(text)
        again = _again(item, digest, sketch, kept, threshold)
        if again is None:
            kept.append((item, digest, sketch))
        else:
            dropped.append({"url": item["url"], **again})
    return Deduplicated(found.query, [item for item, _, _ in kept], dropped, len(kept))


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
        likeness = _likeness(sketch, other_sketch)
        if likeness >= threshold and (best is None or likeness > best["likeness"]):
            best = {"of": other["url"], "kind": "near", "likeness": round(likeness, 3)}
    return best


def _address(item: Item) -> str:
    """Where a page was found in the end; a slash at the end is no other page."""
    try:
        return canonical(str(item.get("final_url") or item["url"])).rstrip("/")
    except Failure:
        return str(item["url"])


def _fingerprint(text: str) -> tuple[str, frozenset[int]]:
    """A digest of the words, empty where there are none, and the sketch of their sequences."""
    found = words(text)
    if not found:
        return "", frozenset()
    length = min(_SHINGLE, len(found))
    shingles = {" ".join(found[at : at + length]) for at in range(len(found) - length + 1)}
    numbers = (int.from_bytes(blake2b(each.encode(), digest_size=8).digest(), "big") for each in shingles)
    return blake2b(" ".join(found).encode()).hexdigest(), frozenset(sorted(set(numbers))[:_SKETCH])


def _likeness(one: frozenset[int], other: frozenset[int]) -> float:
    """Jaccard over the sketches; where a text has more shingles than the sketch holds, over the smallest of both."""
    if not one or not other:
        return 0.0
    union = one | other
    if len(one) < _SKETCH and len(other) < _SKETCH:
        return len(one & other) / len(union)
    smallest = sorted(union)[:_SKETCH]
    return sum(number in one and number in other for number in smallest) / len(smallest)
