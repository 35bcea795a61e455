"""Notes and claims of a knowledge base, as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from planrunner.escapes import harmless
from planrunner.views.terminal import Terminal, plural, table

Json = Any


def rows(terminal: Terminal, notes: Sequence[dict[str, Json]]) -> list[str]:
    """The table of ``planrunner kb``."""
    header = ("ID", "STATUS", "CONFIDENCE", "SOURCES", "TITLE")
    return table(terminal, header, [_row(note) for note in notes])


def _row(note: dict[str, Json]) -> tuple[str, ...]:
    if note["kind"] == "note":
        return note["id"], "note", "", str(len(note.get("citations", ()))), harmless(note["title"])
    return note["id"], note["status"], f"{note['confidence']:.0%}", str(note["sources"]), harmless(note["title"])


def details(note: dict[str, Json]) -> Iterator[str]:
    """One note, a line a fact, with what speaks for it and against it."""
    yield harmless(note["title"])
    if note["kind"] == "claim":
        counts = f"{plural(note['sources'], 'independent source')}, {plural(note['tested'], 'test')}"
        yield f"  status      {note['status']}: {counts}, confidence {note['confidence']:.0%}"
    for name in ("id", "by", "created"):
        if note.get(name):
            yield f"  {name:<12}{harmless(str(note[name]))}"
    if note.get("tags"):
        yield f"  tags        {harmless(', '.join(note['tags']))}"
    for cited in note.get("citations", ()):
        place = cited.get("url") or cited.get("file") or f"artifact {cited.get('artifact', '')[:12]}"
        quote = f': "{cited["quote"]}"' if cited.get("quote") else ""
        word = "unchecked" if not cited.get("checked") else "copy" if cited.get("copy_of") else "checked"
        yield f"  {word:<12}{harmless(place + quote)}"
    for test in note.get("tests", ()):
        yield f"  test        {harmless(test['task'])} of run {test['run']}: {harmless(test.get('command', ''))}"
    for other in note.get("contradicted_by", ()):
        yield f"  against it  {other}"
    if note.get("text"):
        yield ""
        yield from (harmless(line) for line in note["text"].splitlines())
