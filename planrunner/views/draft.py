"""A drafted plan as people and programs are shown it: what wrote it and why, its diff, its findings, what it may do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from planrunner.diagnostics import Diagnostic
from planrunner.escapes import harmless
from planrunner.source import Source
from planrunner.views.documents import document
from planrunner.views.findings import findings_data, render_concise
from planrunner.views.rights import powers_lines
from planrunner.views.terminal import Terminal, cut, plural

Json = Any

_LONGEST = 1000


class Shown(NamedTuple):
    """What is shown of a draft. ``powers`` is what the plan may do, None for one with errors; ``written`` the path that
    it was written to, empty where it was not."""

    goal: str
    by: str
    path: str
    source: Source
    new: bool
    diff: str
    findings: Sequence[Diagnostic]
    powers: dict[str, Json] | None
    reason: str
    run_id: str
    written: str = ""


def draft_lines(screen: Terminal, shown: Shown) -> Iterator[str]:
    """The draft for people."""
    state = "a new file" if shown.new else "changes the file" if shown.diff else "the file as it is"
    yield harmless(f"{shown.path}: {state}, drafted by {shown.by}")
    if shown.reason:
        yield harmless(f"why: {cut(shown.reason, _LONGEST, screen.unicode)}")
    yield from (harmless(line) for line in shown.diff.splitlines())
    if shown.findings:
        yield from render_concise(shown.findings, shown.source).splitlines()
    if shown.powers is not None:
        yield "what it may do:"
        yield from powers_lines(screen, shown.powers)
    else:
        yield f"it is not a valid plan: {plural(len(shown.findings), 'finding')}"


def next_command(program: str, shown: Shown) -> str:
    """What runs the draft once a person has read it."""
    assert shown.powers is not None
    return f"{program} exec {shown.path} --trust {shown.powers['digest']}"


def draft_document(shown: Shown, program: str) -> dict[str, Json]:
    """The draft as data."""
    return document(
        goal=shown.goal,
        by=shown.by,
        file=shown.path,
        new=shown.new,
        written=shown.written,
        valid=shown.powers is not None,
        reason=shown.reason,
        plan=shown.source.text,
        diff=shown.diff,
        findings=findings_data([(shown.source, shown.findings)])["findings"],
        powers=shown.powers,
        digest="" if shown.powers is None else shown.powers["digest"],
        run_id=shown.run_id,
        next="" if shown.powers is None else next_command(program, shown),
    )
