"""A knowledge base as Markdown, in which nothing acts that a note says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from planrunner.escapes import harmless
from planrunner.knowledge.claims import Status, Verdict, verdicts
from planrunner.knowledge.notes import Note

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")
_HEADS: tuple[tuple[Status, str], ...] = (
    ("confirmed", "Confirmed"),
    ("disputed", "Disputed"),
    ("supported", "Supported by one source"),
    ("open", "Open"),
)


def markdown(notes: Sequence[Note], title: str = "Knowledge base") -> str:
    """The whole base for people: claims by what they come to, then notes."""
    found = verdicts(notes)
    lines = [f"# {_plain(title)}", ""]
    for status, head in _HEADS:
        claims = [note for note in notes if note.kind == "claim" and found[note.id].status == status]
        lines += [f"## {head}", ""] if claims else []
        for claim in claims:
            lines += [*_claim_lines(claim, found[claim.id]), ""]
    others = [note for note in notes if note.kind == "note"]
    lines += ["## Notes", ""] if others else []
    for note in others:
        lines += [*_note_lines(note), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _claim_lines(claim: Note, verdict: Verdict) -> Iterator[str]:
    yield f"### {_plain(claim.title)}"
    yield ""
    counts = (_count(verdict.sources, "independent source"), _count(verdict.tests, "test"))
    yield f"`{claim.id}` **{verdict.status}**: {', '.join(counts)}, confidence {verdict.confidence:g}"
    if verdict.contradicted_by:
        yield ""
        yield f"Contradicted by {', '.join(f'`{name}`' for name in verdict.contradicted_by)}."
    yield from _body(claim)


def _note_lines(note: Note) -> Iterator[str]:
    yield f"### {_plain(note.title)}"
    yield from _body(note)


def _body(note: Note) -> Iterator[str]:
    if note.text:
        yield ""
        yield from (_plain(line) for line in note.text.splitlines())
    if note.citations or note.tests:
        yield ""
    for citation in note.citations:
        place = _plain(citation.url or citation.file or f"artifact {citation.artifact[:12]}")
        about = [_plain(each) for each in (citation.title, citation.author, citation.date) if each]
        quote = f': "{_plain(citation.quote)}"' if citation.quote else ""
        unsure = " (not checked)" if not citation.checked else " (a copy of another source)" if citation.copy_of else ""
        yield f"- {', '.join((place, *about))}{quote}{unsure}"
    for test in note.tests:
        yield f"- test `{test.task}` of run {test.run}: `{' '.join(harmless(test.command).split())}`"
    if note.tags or note.by:
        yield ""
        yield " · ".join(_plain(each) for each in (" ".join(note.tags), note.by, note.created) if each)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _plain(text: str) -> str:
    """Text in which nothing acts, neither on a terminal nor as Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(harmless(text).split()))
