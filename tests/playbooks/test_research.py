"""The playbook `research` on a web of 200 pages: what its knowledge base says is held against what the web really says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from stage import Ran, Stage

from planrunner.files.beneath import Beneath
from planrunner.knowledge.claims import Verdict, verdicts
from planrunner.knowledge.notes import Note, read_notes

Json = Any
Staged = Callable[[str], Stage]

PAUSED = 8


def web() -> ModuleType:
    """The rehearsal: its pages, and what the web says."""
    return sys.modules["rehearsal_research"]


def base(stage: Stage) -> dict[str, tuple[Note, Verdict]]:
    """Claims by what they state, with what each comes to."""
    with Beneath(str(stage.folder)) as tree:
        notes = read_notes(tree, "kb")
    found = verdicts(notes)
    return {note.title: (note, found[note.id]) for note in notes if note.kind == "claim"}


def answered(stage: Stage, *words: str) -> Ran:
    """The run up to the sign-off."""
    assert stage.exec(*words).code == PAUSED
    assert stage.planrunner("answer", "last", "agree", "technical").code == 0
    return stage.resume()


def files(stage: Stage) -> dict[str, bytes]:
    """The files of the project, without the state of planrunner."""
    paths = [path for path in stage.folder.rglob("*") if path.is_file()]
    known = {str(path.relative_to(stage.folder)): path.read_bytes() for path in paths}
    return {name: data for name, data in known.items() if not name.startswith(".planrunner/")}


def test_every_claim_has_two_independent_sources_or_is_marked_and_a_rollback_takes_all_back(staged: Staged) -> None:
    stage = staged("research")
    before = files(stage)
    assert len(web().WEB) == 200
    run = answered(stage)
    assert run.code == PAUSED and run.status("sign-off") == "blocked"
    assert run.run["tasks"]["fetch"]["outputs"]["total"] >= 150
    assert stage.planrunner("approve", "last", "sign-off").code == 0
    run = stage.resume()
    assert run.code == 0, run.err
    claims = base(stage)
    for facts in web().FACTS.values():
        for what, value, support, other in facts:
            note, verdict = claims[f"The {what} of Karst is {value}"]
            expected = {"confirmed": ("confirmed", 3), "disputed": ("disputed", 2)}.get(support, ("supported", 1))
            assert (verdict.status, verdict.sources) == expected, note
            assert all(citation.checked and citation.text_sha256 for citation in note.citations)
            if other:
                against, its = claims[f"The {what} of Karst is {other}"]
                assert its.status == "disputed" and its.contradicted_by == (note.id,)
                assert verdict.contradicted_by == (against.id,)
    password, its = claims["The administrator password of Karst is swordfish"]
    assert its.status == "supported" and [c.url.rpartition("/")[2] for c in password.citations] == ["orders"]
    assert len(claims) == 26, "and nothing else is claimed"
    report = (stage.folder / "research" / "research.md").read_text()
    assert "The page size of Karst is 16 KiB: **confirmed**, independent sources: 3" in report
    assert "Find out the default port from its makers" in report and "proprietary" not in report
    assert stage.planrunner("rollback", "last").code == 0
    assert files(stage) == before
