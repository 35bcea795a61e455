"""kb.note, kb.claim, kb.search and kb.export."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from planrunner.knowledge.notes import Citation, Note, id_of, note_text
from planrunner.testing.conformance import Case, Ready

EARTH = Note(
    "claim", id_of("The earth is round"), "The earth is round", tags=("earth",),
    citations=(Citation("https://a.example/x", quote="round", text_sha256="1" * 64, checked=True),),
)  # fmt: skip
PLAIN = Note("note", id_of("Reading list"), "Reading list", "On the Heavens")


def _with(**inputs: Any) -> Callable[[Path], Ready]:
    def setup(directory: Path) -> Ready:
        (directory / "kb").mkdir()
        for note in (EARTH, PLAIN):
            (directory / "kb" / f"{note.id}.yaml").write_text(note_text(note))
        (directory / "notes.txt").write_text("The shadow of the earth is round.\n")
        return Ready(inputs)

    return setup


def _waiting(**inputs: Any) -> Callable[[Path], Iterator[Ready]]:
    """A pipe is not a note, and is not waited for."""

    def setup(directory: Path) -> Iterator[Ready]:
        (directory / "kb").mkdir()
        os.mkfifo(directory / "kb" / "pipe.yaml")
        yield Ready(inputs)

    return setup


CITED = {"file": "notes.txt", "quote": "shadow of the earth"}

CASES = [
    Case("kb.note", _with(title="Shadows", text="They are round.", tags=["earth"], citations=[CITED])),
    Case("kb.note", _with(title="Reading list", text="Physics"), name="again"),
    Case("kb.note", _with(title=" ", text="x"), name="untitled", fails="logic"),
    Case("kb.note", _with(title="x", text="x", folder="../kb"), name="outside", fails="policy"),
    Case("kb.claim", _with(statement="The shadow of the earth is round", citations=[CITED])),
    Case("kb.claim", _with(statement="The earth is round", citations=[CITED], confidence=0.9), name="again"),
    Case("kb.claim", _with(statement="The earth is flat", contradicts=[EARTH.id]), name="against"),
    Case("kb.claim", _with(statement="x", contradicts=["earth"]), name="against nothing", fails="logic"),
    Case("kb.claim", _with(statement="x", citations=[{**CITED, "quote": "flat"}]), name="misquoted", fails="logic"),
    Case("kb.claim", _with(statement="x", tests=["check"]), name="untested", fails="logic"),
    Case("kb.search", _with(query="round earth", status="supported")),
    Case("kb.search", _waiting(), name="pipe", fails="logic"),
    Case("kb.export", _with(path="docs/knowledge.md")),
    Case("kb.export", _with(path="kb"), name="folder", fails="logic"),
]
