"""What the claims of a knowledge base come to, counted each time: from the citations that were checked and the tests
that are recorded, beside the claims that contradict them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from planrunner.knowledge.notes import Citation, Note
from planrunner.knowledge.ranking import ranked, words
from planrunner.records import Struct

Json = Any
Status = Literal["confirmed", "supported", "open", "disputed"]


class Verdict(Struct):
    """What a claim comes to: the number of independent ``sources`` and of ``tests``, and the claims against it."""

    status: Status
    sources: int
    tests: int
    confidence: float
    contradicted_by: tuple[str, ...] = ()


def joined(earlier: Note, later: Note) -> Note:
    """A claim that is made once more: what was known of it stays, what is new comes beside it."""
    citations: dict[tuple[str, str], Citation] = {}
    for citation in (*earlier.citations, *later.citations):
        if citation.checked or citation.place not in citations:
            citations[citation.place] = citation
    return earlier._replace(
        text=later.text or earlier.text,
        tags=tuple(dict.fromkeys((*earlier.tags, *later.tags))),
        confidence=earlier.confidence if later.confidence is None else later.confidence,
        citations=tuple(citations.values()),
        tests=tuple(dict.fromkeys((*earlier.tests, *later.tests))),
        contradicts=tuple(dict.fromkeys((*earlier.contradicts, *later.contradicts))),
    )


def verdicts(notes: Iterable[Note]) -> dict[str, Verdict]:
    """What each claim comes to. Two independent sources or a test confirm it; a claim against it that has a source or a
    test of its own disputes it, whichever was there first."""
    claims = {note.id: note for note in notes if note.kind == "claim"}
    against: dict[str, dict[str, None]] = {name: {} for name in claims}
    for claim in claims.values():
        for other in claim.contradicts:
            if other in claims and other != claim.id:
                against[claim.id][other] = None
                against[other][claim.id] = None
    backing = {name: (_independent(claim.citations), len(claim.tests)) for name, claim in claims.items()}
    result: dict[str, Verdict] = {}
    for name, (sources, tests) in backing.items():
        stated = claims[name].confidence
        status: Status = "confirmed" if sources > 1 or tests else "supported" if sources else "open"
        if any(sum(backing[other]) for other in against[name]):
            status = "disputed"
        counted = round(1 - 0.5 ** (sources + 2 * tests), 4)
        result[name] = Verdict(status, sources, tests, counted if stated is None else stated, tuple(against[name]))
    return result


def _independent(citations: Iterable[Citation]) -> int:
    """How many checked citations are of different voices and neither of the same text nor of nearly the same."""
    voices: set[str] = set()
    texts: set[str] = set()
    for citation in citations:
        text = citation.copy_of or citation.text_sha256 or citation.sha256
        if citation.checked and citation.voice not in voices and (not text or text not in texts):
            voices.add(citation.voice)
            texts.add(text)
    return len(voices)


def search(notes: Sequence[Note], query: str) -> list[tuple[Note, float]]:
    """The notes that have words of a query, the most relevant first: rare words count more, those of a title twice."""
    texts = [{**dict.fromkeys(words(_text(note)), 1), **dict.fromkeys(words(note.title), 2)} for note in notes]
    return [(notes[at], round(score, 4)) for at, score in ranked(query, texts)]


def _text(note: Note) -> str:
    return " ".join((note.title, note.text, *note.tags, *(c.title for c in note.citations)))


def found(notes: list[Note], query: str, kind: str, status: Status | None, tags: list[str]) -> list[dict[str, Json]]:
    """Notes that fit, as data; claims with what they come to."""
    results = verdicts(notes)
    ordered = search(notes, query) if query.strip() else [(note, 0.0) for note in notes]
    return [
        note_object(note, results, score)
        for note, score in ordered
        if kind in ("", note.kind)
        and set(tags) <= set(note.tags)
        and (status is None or (note.kind == "claim" and results[note.id].status == status))
    ]


def note_object(note: Note, results: Mapping[str, Verdict], score: float = 0.0) -> dict[str, Json]:
    """A note as data, a claim with what it comes to."""
    verdict = results.get(note.id)
    data = {**note.as_json(), **({"score": score} if score else {})}
    if verdict is None:
        return data
    counted = {**verdict._asdict(), "contradicted_by": [*verdict.contradicted_by]}
    return {**data, **counted, "tests": data.get("tests", []), "tested": verdict.tests}
