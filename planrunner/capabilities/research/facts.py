"""``research.facts``: statements with the place they were found at, and how many independent sources say the same."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

from tld import get_tld

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.research.addresses import host
from planrunner.capabilities.research.bm25 import Index, scores
from planrunner.capabilities.research.given import Item, given, texts_of
from planrunner.capabilities.research.support import Fact, grouped
from planrunner.capabilities.research.words import sentences, words
from planrunner.plan.expressions.patterns import Automaton, compiled
from planrunner.plan.expressions.values import EvaluationError

_FEWEST_WORDS = 4
_MOST_PATTERNS = 50
_MOST_QUOTES = 500
_MOST_SENTENCES = 100_000
_ENDS = tuple(".!?。！？")


class Facts(NamedTuple):
    query: Annotated[str, Doc("the question, where it is known")]
    facts: Annotated[
        list[dict[str, Any]],
        Doc(
            "statements, the best supported first: id, statement, confidence, sources (how many independent ones), "
            "cross_checked, score, and `evidence`: url, title, host, sha256, text_sha256, start, end, quote, fetched_at"
        ),
    ]
    total: Annotated[int, Doc("how many statements there are")]
    cross_checked: Annotated[int, Doc("how many of them two or more independent sources support")]
    unverified: Annotated[list[dict[str, Any]], Doc("given quotes that stand in none of the texts, with the reason")]


@capability("research.facts", effect="pure")
def facts(
    context: Context,
    docs: Annotated[Any, Doc("what research.fetch, research.dedupe or research.rank gave")],
    patterns: Annotated[
        list[str] | None, Doc("regular expressions: a sentence in which one is found is a fact")
    ] = None,
    quotes: Annotated[
        list[Any] | None,
        Doc("statements that somebody else has read out, a model or a person: text, or maps of quote, statement, url"),
    ] = None,
    query: Annotated[str, Doc("the question; sentences with its words are facts where no patterns are given")] = "",
    limit: Annotated[int, Doc("how many statements at most, up to 200")] = 50,
    likeness: Annotated[float, Doc("from which share of common words two sentences state the same")] = 0.6,
) -> Facts:
    """Take statements out of texts, each with its source, digest, span and quote.

    `text[start:end]` of the text with the digest `text_sha256` is the quote, letter for letter. Sentences that share
    most words and all numbers state the same; sources of different owners (registered domains) support each other.
    Confidence is 1 − ½ⁿ for n independent sources. `quotes` are looked for in the texts, and what is not found there
    is no fact. Patterns are searched in time that is linear in the text, so they have no back-references.
    """
    if not 1 <= limit <= 200 or not 0 < likeness <= 1:
        raise Failure("`limit` is 1 to 200, `likeness` above 0 and at most 1")
    found = given(docs, "docs", query)
    texts = list(texts_of(context, found.items))
    claimed, unverified = _claimed(found.items, texts, quotes or [])
    candidates = list(claimed)
    if patterns:
        candidates += _by_patterns(found.items, texts, patterns, context.cancelled)
    elif quotes is None:
        candidates += _by_query(found.items, texts, found.query, limit)
    groups = grouped(candidates, likeness, context.cancelled)[:limit]
    checked = sum(bool(group["cross_checked"]) for group in groups)
    return Facts(found.query, groups, len(groups), checked, unverified)


def _by_patterns(
    items: list[Item], texts: list[str], patterns: list[str], cancelled: Callable[[], bool]
) -> Iterator[Fact]:
    automata = _compiled(patterns)
    for item, text in zip(items, texts):
        for sentence in sentences(text):
            if cancelled():
                raise Failure("stopped", "interrupted")
            if any(_searched(automaton, sentence.quote) for automaton in automata):
                yield _fact(item, text, (sentence.start, sentence.end))


def _compiled(patterns: list[str]) -> list[Automaton]:
    if len(patterns) > _MOST_PATTERNS:
        raise Failure(f"`patterns` has more than {_MOST_PATTERNS}")
    found = []
    for pattern in patterns:
        try:
            found.append(compiled(pattern))
        except EvaluationError as error:
            raise Failure(f"`patterns`: `{pattern[:80]}`: {error}") from None
    return found


def _searched(automaton: Automaton, text: str) -> bool:
    try:
        return automaton.search(text)
    except EvaluationError as error:
        raise Failure(f"`patterns`: {error}") from None


def _by_query(items: list[Item], texts: list[str], query: str, limit: int) -> list[Fact]:
    """The sentences that fit the question best; more than are wanted, since several may state the same. Headings and
    other lines without an end are none."""
    if not query:
        raise Failure("`query` is missing: `docs` carries no question along, and there are no `patterns` or `quotes`")
    places = [
        (number, sentence)
        for number, text in enumerate(texts)
        for sentence in sentences(text)
        if sentence.quote.rstrip("\"'”’)]")[-1:] in _ENDS and len(words(sentence.quote)) >= _FEWEST_WORDS
    ]
    if len(places) > _MOST_SENTENCES:
        raise Failure(f"the texts have more than {_MOST_SENTENCES:,} sentences: rank them first and keep the best")
    with Index(("", sentence.quote) for _, sentence in places) as index:
        score = scores(index.weights(query))
    told: set[str] = set()
    best: list[int] = []
    for at in sorted(score, key=lambda at: (-score[at], at)):
        told.add(places[at][1].quote)
        if len(told) > 4 * limit:
            break
        best.append(at)
    return [_scored(items, texts, places[at], score[at]) for at in sorted(best)]


def _scored(items: list[Item], texts: list[str], place: Any, score: float) -> Fact:
    number, sentence = place
    return _fact(items[number], texts[number], (sentence.start, sentence.end))._replace(score=round(score, 6))


def _claimed(items: list[Item], texts: list[str], quotes: list[Any]) -> tuple[list[Fact], list[Item]]:
    """Quotes that somebody gave, found in the texts; and those that are not there."""
    if len(quotes) > _MOST_QUOTES:
        raise Failure(f"`quotes` has more than {_MOST_QUOTES}")
    found: list[Fact] = []
    unverified: list[Item] = []
    for given_quote in quotes:
        claim = {"quote": given_quote} if isinstance(given_quote, str) else given_quote
        if not isinstance(claim, dict) or not isinstance(claim.get("quote"), str):
            raise Failure("`quotes`: expected text or maps with a `quote`")
        places = list(_places(items, texts, claim))
        statement = str(claim.get("statement") or "")
        found += [
            _fact(item, text, span)._replace(statement=statement or text[slice(*span)]) for item, text, span in places
        ]
        if not places:
            where = f"the text of {claim['url']}" if claim.get("url") else "any text"
            unverified.append({**claim, "reason": f"the quote does not stand in {where}"})
    return found, unverified


def _places(items: list[Item], texts: list[str], claim: Item) -> Iterator[tuple[Item, str, tuple[int, int]]]:
    """Where a quote stands, whatever white space lies between its words."""
    parts = [re.escape(part) for part in claim["quote"].split()]
    if not parts or len(claim["quote"]) > 2_000:
        return
    pattern = re.compile(r"\s+".join(parts))
    for item, text in zip(items, texts):
        if claim.get("url") in (None, "", item["url"], item.get("final_url")):
            match = pattern.search(text)
            if match is not None:
                yield item, text, match.span()


def _fact(item: Item, text: str, span: tuple[int, int]) -> Fact:
    quote = text[span[0] : span[1]]
    source = str(item.get("final_url") or item["url"])
    evidence = {
        "url": source,
        "title": str(item.get("title") or ""),
        "host": owner(source),
        "sha256": str(item.get("sha256") or ""),
        "text_sha256": str(item.get("text_sha256") or ""),
        "start": span[0],
        "end": span[1],
        "quote": quote,
        "fetched_at": str(item.get("fetched_at") or ""),
    }
    return Fact(" ".join(quote.split()), evidence)


def owner(url: str) -> str:
    """The part of the host that somebody has registered: ``bbc.co.uk`` for ``www.bbc.co.uk``, the last two parts where
    no public suffix is known, and an IP address as a whole. Two sources are independent only where owners differ."""
    name = host(url)
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        pass
    found = get_tld(f"http://{name}/", as_object=True, fail_silently=True, search_private=True)
    registered = getattr(found, "fld", None)
    return str(registered) if registered else ".".join(name.split(".")[-2:])
