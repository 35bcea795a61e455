"""What was learnt of failures and patterns: a problem, what solved it, how often it was tried and how often it
worked."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Literal, get_args

from planrunner.knowledge.memory.entries import Changed, Entry, Picked, Source
from planrunner.knowledge.memory.layers import Layer
from planrunner.knowledge.vectors import hashed
from planrunner.records import Struct

Json = Any
Kind = Literal["failure", "pattern"]
_BEGINNINGS = tuple(f"{kind}/" for kind in get_args(Kind))

_LONGEST = 4_000
_MOST_LOOKED_AT = 50
_NORMAL = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r"\x1b\[[0-9;?]*[A-Za-z]", ""),
        (r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>)]+", "<address>"),
        (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "<time>"),
        (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
        (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<address>"),
        (r"\b0[xX][0-9a-fA-F]+\b", "<hex>"),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b", "<hex>"),
        (r"(?:[A-Za-z]:|~|\.{1,2})?(?:[\\/][\w.@+~-]+)*[\\/](?=[\w.@+~-])", "<path>/"),
        (r"\b\d+(?:\.\d+)*(?=\b|[a-zA-Z%])", "<n>"),
        (r"\s+", " "),
    )
)
"""What differs from one occurrence of an error to the next, and what stands for it."""


class Advice(Struct):
    """A lesson about a similar problem. ``similarity`` is from 0 to 1, ``success_rate`` the part of the ``uses`` in
    which the solution worked."""

    problem: str
    solution: Json
    similarity: float
    uses: int
    success_rate: float
    key: str
    tags: tuple[str, ...]
    source: Source


def signature(text: str) -> str:
    """An error or a problem without what differs each time: times, addresses, paths but for the name of the file, hex
    and numbers; of a long text, its end."""
    for pattern, put in _NORMAL:
        text = pattern.sub(put, text[-4 * _LONGEST :])
    return text.strip()[-_LONGEST:]


def key_of(kind: Kind, problem: str, solution: Json) -> str:
    """The key of a lesson: the same for the same solution of the same problem."""
    sign = signature(problem)
    parts = (sha256(str(each).encode("utf-8", "replace")).hexdigest()[:12] for each in (sign, solution))
    return "/".join((kind, *parts))


class Lesson(Struct):
    """What is to be learnt: that a solution ``worked`` or not."""

    kind: Kind
    problem: str
    solution: Json
    worked: bool
    tags: tuple[str, ...] = ()


def is_lesson(entry: Entry) -> bool:
    """Whether an entry was learnt: anything else can be put beside the lessons."""
    value = entry.value
    return (
        entry.key.startswith(_BEGINNINGS)
        and isinstance(value, dict)
        and value.keys() >= {"problem", "solution", "signature"}
        and all(isinstance(value.get(name), int) for name in ("uses", "worked"))
        and value["uses"] > 0
    )


def learn(layer: Layer, lesson: Lesson, source: Source, mark: str) -> Changed:
    """Count one use of a solution, once for a mark. Raises as ``Layer.put``."""
    sign, problem = signature(lesson.problem), lesson.problem[-_LONGEST:]
    value = {"kind": lesson.kind, "problem": problem, "solution": lesson.solution, "signature": sign}
    key = key_of(lesson.kind, lesson.problem, lesson.solution)
    draft = layer.checked(Entry(key, value, (lesson.kind, *lesson.tags), source, vector=hashed(sign)))

    def counted(before: Entry | None) -> Entry:
        former = before if before is not None and is_lesson(before) else draft._replace(value={"uses": 0, "worked": 0})
        counts = {"uses": former.value["uses"] + 1, "worked": former.value["worked"] + lesson.worked}
        tags = dict.fromkeys((*former.tags, *draft.tags))
        return draft._replace(value={**draft.value, **counts}, tags=tuple(tags))

    return layer.change(key, mark, counted)


def advise(layer: Layer, problem: str, kind: Kind, threshold: float, limit: int = 5) -> list[Advice]:
    """Lessons about similar problems. Those come first whose similarity times the part that worked is largest; one that
    was tried seldom counts towards a half."""
    sign = signature(problem)
    hits = layer.search(sign, "vector", _MOST_LOOKED_AT, Picked(tags=(kind,)), hashed(sign)) if sign else []
    advices = [_advice(hit.entry, hit.score) for hit in hits if hit.score >= threshold and is_lesson(hit.entry)]
    return sorted(advices, key=_worth, reverse=True)[:limit]


def _advice(entry: Entry, similarity: float) -> Advice:
    value = entry.value
    rate = round(value["worked"] / value["uses"], 4)
    near = round(min(similarity, 1.0), 4)
    return Advice(value["problem"], value["solution"], near, value["uses"], rate, entry.key, entry.tags, entry.source)


def _worth(advice: Advice) -> float:
    return advice.similarity * (advice.success_rate * advice.uses + 1) / (advice.uses + 2)
