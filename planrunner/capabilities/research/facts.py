"""``research.facts`` and ``research.cite``: statements at their places, their support, and citations."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote as percent

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.jsonschema import faults
from planrunner.capabilities.research.relevance import Index, scores, sentences, words
from planrunner.capabilities.research.source import Item, given, quoted, texts_of
from planrunner.knowledge.sources import owner
from planrunner.plan.expressions.patterns import compiled
from planrunner.plan.expressions.values import EvaluationError

_COMMON = frozenset(
    "a an and are as at be by for from has have in is it its of on or that the this to was were with".split()
)
_NEGATIONS = frozenset("no not never neither nor none nothing without cannot t".split())
"""``t`` is what is left of ``isn't``."""
_MOST_EVIDENCE = 10


class Fact(NamedTuple):
    """A statement at one place. ``evidence`` says where; ``score`` how well it fits the question, 0 where none was."""

    statement: str
    evidence: dict[str, Any]
    score: float = 0.0


class _Group:
    """Statements that say the same, by document; the first one speaks for all."""

    __slots__ = ("facts", "words")

    def __init__(self, told: frozenset[str]) -> None:
        self.facts: dict[str, Fact] = {}
        """The first place in each document."""
        self.words = told


def grouped(facts: list[Fact], likeness: float, cancelled: Callable[[], bool]) -> list[dict[str, Any]]:
    """One entry for each statement, the best supported first, then by score and in the order they came."""
    groups: list[_Group] = []
    alike: dict[frozenset[str], list[_Group]] = {}
    exact: dict[str, _Group] = {}
    for fact in facts:
        if cancelled():
            raise Failure("stopped", "interrupted")
        group = exact.get(fact.statement)
        if group is None:
            content, decisive = _content(fact.statement)
            candidates = alike.setdefault(decisive, [])
            same = (
                other
                for other in candidates
                if other.words and len(other.words & content) / len(other.words | content) >= likeness
            )
            group = next(same, None)
            if group is None:
                group = _Group(content)
                groups.append(group)
                candidates.append(group)
            exact[fact.statement] = group
        group.facts.setdefault(str(fact.evidence["text_sha256"] or fact.evidence["url"]), fact)
    entries = [_entry(list(group.facts.values())) for group in groups]
    return sorted(entries, key=lambda entry: (-entry["sources"], -entry["score"]))


def _content(statement: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words that carry a statement, and what makes it another one: its numbers, and ``not`` where it denies."""
    all_words = words(statement)
    content = frozenset(word for word in all_words if word not in _COMMON)
    numbers = frozenset(word for word in all_words if any(c.isdigit() for c in word))
    denies = not _NEGATIONS.isdisjoint(all_words)
    return content or frozenset(all_words), numbers | ({"not"} if denies else set())


def _entry(facts: list[Fact]) -> dict[str, Any]:
    """Several pages of one owner count once; copies of one text have been counted once already."""
    independent = {fact.evidence["host"] for fact in facts}
    first = facts[0]
    return {
        "id": f"f-{hashlib.sha256(' '.join(words(first.statement)).encode()).hexdigest()[:12]}",
        "statement": first.statement,
        "confidence": round(1 - 0.5 ** len(independent), 4),
        "sources": len(independent),
        "cross_checked": len(independent) >= 2,
        "score": max(fact.score for fact in facts),
        "evidence": [fact.evidence for fact in facts[:_MOST_EVIDENCE]],
    }


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
        Doc("statements read out beforehand, by a model or a person: text, or maps of quote, statement, url"),
    ] = None,
    query: Annotated[str, Doc("the question; sentences with its words are facts where no patterns are given")] = "",
    limit: Annotated[int, Doc("how many statements at most, up to 200")] = 50,
    likeness: Annotated[float, Doc("from which share of common words two sentences state the same")] = 0.6,
    fidelity: Annotated[
        float, Doc("with `quotes`: which share of the words of a statement its quote has to have, from 0 to 1")
    ] = 0.0,
) -> Facts:
    """Take statements out of texts, each with its source, digest, span and quote.

    `text[start:end]` of the text with the digest `text_sha256` is the quote, letter for letter. Sentences that share
    most words and all numbers, and of which none denies what the other states, state the same; sources of different
    owners (registered domains) support each other. Confidence is 1 − ½ⁿ for n independent sources. `quotes` are looked
    for in the texts, and what is not found there is not a fact, nor is a statement with a number that its quote lacks,
    or that denies what its quote states. Patterns are searched in time that is linear in the text, so they have no
    back-references.
    """
    if not 1 <= limit <= 200 or not 0 < likeness <= 1 or not 0 <= fidelity <= 1:
        raise Failure("`limit` is 1 to 200, `likeness` above 0 and at most 1, `fidelity` 0 to 1")
    source = given(docs, "docs", query)
    texts = list(texts_of(context, source.items))
    claimed, unverified = _claimed(source.items, texts, quotes or [], fidelity)
    candidates = list(claimed)
    if patterns:
        candidates += _by_patterns(source.items, texts, patterns, context.cancelled)
    elif quotes is None:
        candidates += _by_query(source.items, texts, source.query, limit)
    groups = grouped(candidates, likeness, context.cancelled)[:limit]
    checked = sum(bool(group["cross_checked"]) for group in groups)
    return Facts(source.query, groups, len(groups), checked, unverified)


def _by_patterns(
    items: list[Item], texts: list[str], patterns: list[str], cancelled: Callable[[], bool]
) -> Iterator[Fact]:
    if len(patterns) > _MOST_PATTERNS:
        raise Failure(f"`patterns` has more than {_MOST_PATTERNS}")
    automata = []
    for pattern in patterns:
        try:
            automata.append(compiled(pattern))
        except EvaluationError as error:
            raise Failure(f"`patterns`: `{pattern[:80]}`: {error}") from None
    for item, text in zip(items, texts):
        for sentence in sentences(text):
            if cancelled():
                raise Failure("stopped", "interrupted")
            try:
                matches = any(automaton.search(sentence.quote) for automaton in automata)
            except EvaluationError as error:
                raise Failure(f"`patterns`: {error}") from None
            if matches:
                yield _fact(item, text, (sentence.start, sentence.end))


def _by_query(items: list[Item], texts: list[str], query: str, limit: int) -> list[Fact]:
    """The sentences that fit the question best; more than are wanted, since several may state the same. Headings and
    other lines without an end do not count."""
    if not query:
        raise Failure("`query` is missing: `docs` carries no question, and neither `patterns` nor `quotes` is given")
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
    quotes: set[str] = set()
    best: list[int] = []
    for at in sorted(score, key=lambda at: (-score[at], at)):
        quotes.add(places[at][1].quote)
        if len(quotes) > 4 * limit:
            break
        best.append(at)
    facts = []
    for at in sorted(best):
        number, sentence = places[at]
        fact = _fact(items[number], texts[number], (sentence.start, sentence.end))
        facts.append(fact._replace(score=round(score[at], 6)))
    return facts


def _claimed(items: list[Item], texts: list[str], quotes: list[Any], fidelity: float) -> tuple[list[Fact], list[Item]]:
    """Quotes that were given, at their places in the texts; and those that are not there, or whose statement says what
    they do not."""
    if len(quotes) > _MOST_QUOTES:
        raise Failure(f"`quotes` has more than {_MOST_QUOTES}")
    facts: list[Fact] = []
    unverified: list[Item] = []
    for given_quote in quotes:
        claim = {"quote": given_quote} if isinstance(given_quote, str) else given_quote
        if not isinstance(claim, dict) or not isinstance(claim.get("quote"), str):
            raise Failure("`quotes`: expected text or maps with a `quote`")
        statement = str(claim.get("statement") or "")
        if reason := _beyond(statement, claim["quote"], fidelity):
            unverified.append({**claim, "reason": reason})
            continue
        places = list(_places(items, texts, claim))
        facts += [
            _fact(item, text, span)._replace(statement=statement or text[slice(*span)]) for item, text, span in places
        ]
        if not places:
            where = f"the text of {claim['url']}" if claim.get("url") else "any text"
            unverified.append({**claim, "reason": f"the quote is not in {where}"})
    return facts, unverified


def _beyond(statement: str, quote: str, fidelity: float) -> str:
    """Why a statement is not what its quote says, as far as words tell; empty where it may be."""
    if not statement:
        return ""
    content, decisive = _content(statement)
    of_quote, decisive_there = _content(quote)
    if "not" in decisive ^ decisive_there:
        return "one of statement and quote is a negation"
    if more := sorted(decisive - decisive_there):
        return f"the statement has `{more[0]}`, which the quote does not"
    shared = len(content & of_quote) / max(1, len(content))
    return f"the quote has {shared:.0%} of the words of the statement" if shared < fidelity else ""


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


_MOST_SHOWN = 20_000


class Cited(NamedTuple):
    query: Annotated[str, Doc("the question, where it is known")]
    citations: Annotated[
        list[dict[str, Any]], Doc("sources by number: number, url, title, host, fetched_at, sha256, quotes")
    ]
    statements: Annotated[list[dict[str, Any]], Doc("facts with their numbers: id, statement, cites, confidence")]
    markdown: Annotated[str, Doc("statements and bibliography for people, the beginning where it is long")]
    artifacts: Annotated[dict[str, Any], Doc("both kept whole: `markdown` and `json` (the bibliography as CSL-JSON)")]
    total: Annotated[int, Doc("how many sources are cited")]


@capability("research.cite", effect="read")
def cite(
    context: Context,
    facts: Annotated[Any, Doc("what research.facts gave; or sources or docs, for a bibliography alone")],
    title: Annotated[str, Doc("heading of the bibliography")] = "Sources",
    query: Annotated[str, Doc("the question; default: the one that `facts` carries")] = "",
) -> Cited:
    """Number the sources in the order they are first cited, and write statements and bibliography.

    Every quote of a fact is held against the kept text once more: one that does not stand at its span fails the task.
    """
    source = given(_as_items(facts), "facts", query)
    sources: dict[str, Item] = {}
    statements: list[Item] = []
    for item in source.items:
        evidence = item.get("evidence")
        if isinstance(evidence, list):
            numbers = sorted({_number(sources, quoted(context, place)) for place in evidence})
            kept: Item = {key: item[key] for key in ("id", "statement", "confidence", "cross_checked") if key in item}
            statements.append({**kept, "cites": numbers})
        else:
            _number(sources, item)
    citations = list(sources.values())
    markdown = _markdown(title, statements, citations)
    bibliography = json.dumps([_csl(entry) for entry in citations], indent=1, ensure_ascii=False)
    artifacts = {
        "markdown": context.keep(markdown.encode(), "bibliography.md", "text/markdown"),
        "json": context.keep(bibliography.encode(), "bibliography.json", "application/json"),
    }
    shown = markdown if len(markdown) <= _MOST_SHOWN else markdown[:_MOST_SHOWN] + "…\n"
    return Cited(source.query, citations, statements, shown, artifacts, len(citations))


_PLACES = {
    "type": "array", "minItems": 1,
    "items": {
        "type": "object", "required": ["url", "quote", "start", "end"],
        "properties": {
            "url": {"type": "string"}, "quote": {"type": "string"},
            "start": {"type": "integer", "minimum": 0}, "end": {"type": "integer", "minimum": 0},
        },
    },
}  # fmt: skip


def _as_items(facts: Any) -> Any:
    """Facts have no address of their own; that of their first evidence stands for them."""
    held = facts.get("facts") if isinstance(facts, dict) and "facts" in facts else facts
    if not isinstance(held, list) or not any(isinstance(item, dict) and "evidence" in item for item in held):
        return facts
    entries = []
    for item in held:
        places: Any = item.get("evidence") if isinstance(item, dict) else None
        if faults(_PLACES, places):
            raise Failure("`facts`: expected entries with `evidence`, each with url, start, end and quote")
        entries.append({"url": places[0]["url"], **item})
    return {"query": facts.get("query", ""), "facts": entries} if isinstance(facts, dict) else entries


def _number(sources: dict[str, Item], item: Item) -> int:
    """The number of a source, given when it is first cited. Another content of the same page is another source."""
    url = str(item.get("final_url") or item["url"])
    key = f"{url} {item.get('sha256', '')}"
    if key not in sources:
        sources[key] = {
            "number": len(sources) + 1,
            "url": url,
            "title": str(item.get("title") or url),
            "host": str(item.get("host") or owner(url)),
            "fetched_at": str(item.get("fetched_at") or ""),
            "sha256": str(item.get("sha256") or ""),
            "quotes": 0,
        }
    entry = sources[key]
    entry["quotes"] += "quote" in item
    return int(entry["number"])


def _markdown(title: str, statements: list[Item], citations: list[Item]) -> str:
    lines = []
    for statement in statements:
        marks = "".join(f"[{number}]" for number in statement["cites"])
        lines.append(f"- {_plain(str(statement['statement']))} {marks}")
    lines += ["", f"## {_plain(title)}", ""] if lines else [f"## {_plain(title)}", ""]
    for entry in citations:
        when = f" Retrieved {entry['fetched_at']}." if entry["fetched_at"] else ""
        digest = f" SHA-256 `{entry['sha256']}`." if entry["sha256"] else ""
        address = percent(entry["url"], safe="/%:@!$&'*+,;=~-._?#[]")
        lines.append(f"{entry['number']}. [{_plain(entry['title'])}]({address}).{when}{digest}")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Untrusted text inside Markdown: on one line, its signs escaped."""
    line = " ".join(text.split())
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>#|" else sign for sign in line)


def _csl(entry: Item) -> dict[str, Any]:
    """An entry of CSL-JSON, which tools for bibliographies read; the digest goes into its note."""
    document: dict[str, Any] = {
        "id": str(entry["number"]),
        "type": "webpage",
        "title": entry["title"],
        "URL": entry["url"],
    }
    if entry["fetched_at"]:
        year, month, day = entry["fetched_at"][:10].split("-")
        document["accessed"] = {"date-parts": [[int(year), int(month), int(day)]]}
    if entry["sha256"]:
        document["note"] = f"sha256:{entry['sha256']}, retrieved {entry['fetched_at']}"
    return document
