"""``research.rank``: the sources that fit the question best, with the reason."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.research.bm25 import Index, scores, terms
from planrunner.capabilities.research.given import given, texts_of


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
    found = given(docs, "docs", query)
    asked = terms(found.query)
    if not asked:
        raise Failure("`query` is missing: `docs` carries no question along")
    titles = [str(item.get("title") or "") for item in found.items]
    with Index(zip(titles, texts_of(context, found.items))) as index:
        weights = index.weights(found.query)
    score = scores(weights)
    order = sorted(range(len(found.items)), key=lambda number: (-score.get(number, 0.0), number))
    if matching:
        order = [number for number in order if number in score]
    chosen = order[:limit] if limit > 0 else order
    sources = []
    for place, number in enumerate(chosen, 1):
        present = [term for term in asked if number in weights.get(term, {})]
        entry = {"rank": place, "score": round(score.get(number, 0.0), 6), "reason": _reason(present, len(asked))}
        sources.append({**found.items[number], **entry})
    return Ranked(found.query, sources, len(sources))


def _reason(present: list[str], total: int) -> str:
    if not present:
        return "has none of the words"
    named = ", ".join(present[:8])
    return f"has {len(present)} of {total} words: {named}{', …' if len(present) > 8 else ''}"
