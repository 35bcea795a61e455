"""Which statements say the same, and how well they are supported."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.research.words import words

_COMMON = frozenset(
    "a an and are as at be by for from has have in is it its of on or that the this to was were with".split()
)
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
            told, numbers = _content(fact.statement)
            candidates = alike.setdefault(numbers, [])
            group = next((other for other in candidates if _same(other.words, told, likeness)), None)
            if group is None:
                group = _Group(told)
                groups.append(group)
                candidates.append(group)
            exact[fact.statement] = group
        group.facts.setdefault(_document(fact), fact)
    entries = [_entry(list(group.facts.values())) for group in groups]
    return sorted(entries, key=lambda entry: (-entry["sources"], -entry["score"]))


def _content(statement: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words that carry a statement, and the numbers in it."""
    found = words(statement)
    told = frozenset(word for word in found if word not in _COMMON)
    return told or frozenset(found), frozenset(word for word in found if any(c.isdigit() for c in word))


def _same(one: frozenset[str], other: frozenset[str], likeness: float) -> bool:
    return bool(one) and len(one & other) / len(one | other) >= likeness


def _document(fact: Fact) -> str:
    """Which text a statement stands in; copies of a text are one document."""
    return str(fact.evidence["text_sha256"] or fact.evidence["url"])


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
