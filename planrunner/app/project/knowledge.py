"""The knowledge base of a project, for the person at the command line."""

from __future__ import annotations

import os
from typing import Any

from planrunner.errors import NotFound, UsageError
from planrunner.failures import Failure
from planrunner.fileio import replace_file
from planrunner.files.beneath import Beneath
from planrunner.journal.workspace import find_project
from planrunner.knowledge.claims import note_object, verdicts
from planrunner.knowledge.markdown import markdown
from planrunner.knowledge.notes import Note, read_notes
from planrunner.plan.nearest import nearest

Json = Any


def all_notes(folder: str) -> list[Note]:
    """All notes and claims. Raises UsageError for a file that is not one, and a folder outside the project."""
    try:
        with Beneath(find_project(None)) as tree:
            return read_notes(tree, folder)
    except Failure as failure:
        raise UsageError(str(failure), "mend the file, or name the base with --folder") from None


def one(folder: str, name: str) -> dict[str, Json]:
    """A note as data, a claim with what it comes to. Raises NotFound with the nearest one."""
    notes = all_notes(folder)
    for note in notes:
        if note.id == name:
            return note_object(note, verdicts(notes))
    ids = [note.id for note in notes]
    close = nearest(name, ids) or next((each for each in ids if each.startswith(name)), "")
    hint = f"did you mean `{close}`?" if close else "`planrunner kb` lists them"
    raise NotFound(f"the knowledge base `{folder}` has no `{name}`", hint)


def exported(folder: str, title: str, target: str) -> str:
    """The base as Markdown, written to a file where one is named. Raises UsageError."""
    text = markdown(all_notes(folder), title)
    if target:
        try:
            replace_file(os.path.abspath(target), text.encode("utf-8", "replace"), 0o644)
        except OSError as error:
            raise UsageError(f"`{target}` cannot be written: {error.strerror}") from None
    return text
