"""The plan editor: its verdict, findings, lines and preview, from what lint and preview say of a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from planrunner.diagnostics import Diagnostic
from planrunner.escapes import harmless
from planrunner.source import Source
from planrunner.views.findings import findings_data
from planrunner.views.page.code import SEVERITIES, note_text
from planrunner.views.page.figures import count
from planrunner.views.page.forecast import Fact
from planrunner.views.revision import Revision

Json = Any

SHOWN = 100
"""Findings that are listed; the verdict counts all."""


class Verdict(NamedTuple):
    """The sentence at the top: ``state`` colours it, ``strong`` is its beginning and ``text`` the rest. ``fix`` is
    what the primary action applies (``safe``), empty where no safe fix is left."""

    state: str
    icon: str
    strong: str
    text: str
    fix: str = ""
    fixes: int = 0
    starts: bool = False


class FindingRow(NamedTuple):
    """One finding. ``message`` has names in monospace; ``fix`` is the title of its fix, empty without one; ``id`` is
    the fingerprint by which the fix is asked for."""

    state: str
    icon: str
    word: str
    message: Markup
    help: Markup
    code: str
    name: str
    line: int
    fix: str
    safe: bool
    id: str


class RevisionView(NamedTuple):
    """The run that an editor revises: ``rows`` are tasks with what becomes of each and why; ``problem`` says why it
    cannot be revised like this; ``own`` that the text is that of the run and not of the file."""

    run: str
    number: int
    status: str = ""
    word: str = ""
    icon: str = "off"
    rows: tuple[tuple[str, str, str, str], ...] = ()
    changes: tuple[str, ...] = ()
    problem: str = ""
    own: bool = False
    reason: str = ""


def revised_tasks(made: Revision) -> tuple[tuple[str, str, str, str], ...]:
    """Each task with how it is shown and what becomes of it, the stale ones first."""
    again = set(made.again)
    return (
        *(("run", "retry", task, "runs again") for task in made.again),
        *(("gate", "gate", task, "is asked again") for task in made.asked_again if task not in again),
        *(("add", "add", task, "is added and runs") for task in made.new if task not in again),
        *(("wait", "doubt", task, "is compared at its turn") for task in made.perhaps if task not in again),
        *(("off", "off", task, "is left out") for task in made.gone),
        *(("ok", "ok", task, "keeps its result") for task in made.kept),
    )


def marked(text: str) -> Markup:
    """A message with the names between backticks in monospace."""
    parts = harmless(text).split("`")
    if len(parts) % 2 == 0:
        return escape(harmless(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


def finding_rows(source: Source, findings: Sequence[Diagnostic]) -> list[FindingRow]:
    """The findings as they are listed, the gravest first and then in the order of the text, at most ``SHOWN``."""
    rows = []
    for finding, data in zip(findings, findings_data([(source, findings)])["findings"], strict=False):
        sign, fix = SEVERITIES[finding.severity], finding.fix
        rows.append(
            FindingRow(
                *(sign.state, sign.icon, sign.word, marked(finding.message), marked(finding.help)),
                *(finding.code, finding.name, source.place(finding.span.start).line),
                *("" if fix is None else harmless(fix.title), fix is not None and fix.safe, data["fingerprint"]),
            )
        )
    grave = [sign.state for sign in SEVERITIES.values()]
    return sorted(rows, key=lambda row: grave.index(row.state))[:SHOWN]


def verdict(findings: Sequence[Diagnostic], empty: bool = False) -> Verdict:
    """What the findings mean for the plan."""
    counts = Counter(finding.severity for finding in findings)
    errors, warnings, notes = counts["error"], counts["warning"], counts["note"]
    fixable = [finding.fix for finding in findings if finding.fix is not None]
    safe = sum(fix.safe for fix in fixable)
    ways = _ways(safe, len(fixable) - safe)
    offered = ("safe", safe) if safe else ("", 0)
    if empty:
        return Verdict("off", "edit", "Nothing written yet.", "Begin with `plan:` and `tasks:`, or take a template.")
    if errors:
        keep = "keeps" if errors == 1 else "keep"
        return Verdict("bad", "bad", count(errors, "error"), f"{keep} this plan from starting. {ways}", *offered)
    more = f"{count(notes, 'note')}. " if notes else ""
    if warnings:
        return Verdict(
            "wait", "doubt", count(warnings, "warning"), f"and no error. {more}{ways}", *offered, starts=True
        )
    if notes:
        return Verdict("ok", "ok", "No errors", f"and no warnings. {more}{ways}", *offered, starts=True)
    return Verdict("ok", "ok", "No findings.", "This plan can start.", starts=True)


def _ways(safe: int, unsafe: int) -> str:
    parts = [f"{safe} {'has' if safe == 1 else 'have'} a safe fix"] if safe else []
    if unsafe:
        parts.append(f"{unsafe} {'has' if unsafe == 1 else 'have'} a fix that may change the meaning")
    return ", ".join(parts) + ("." if parts else "")


def notes_data(source: Source, findings: Sequence[Diagnostic]) -> list[dict[str, Json]]:
    """What the script of the editor needs to mark lines while a person types: for each finding its line and columns
    (from 0), its words, and the edits of its fix as offsets in UTF-16, which scripts count in."""
    rows = []
    table = _utf16(source.text)
    for finding, data in zip(findings, findings_data([(source, findings)])["findings"], strict=False):
        start = source.place(finding.span.start)
        end = source.place(max(finding.span.start, finding.span.end - 1))
        line = source.line(start.line)
        last = end.column if end.line == start.line else len(line)
        rows.append(
            {
                "line": start.line,
                "start": start.column - 1,
                "end": max(last, start.column),
                "state": SEVERITIES[finding.severity].state,
                "icon": SEVERITIES[finding.severity].icon,
                "text": note_text(finding),
                "id": data["fingerprint"],
                "edits": [
                    [_at(table, edit.span.start), _at(table, edit.span.end), edit.text]
                    for edit in (finding.fix.edits if finding.fix is not None else ())
                ],
            }
        )
    return rows


def _utf16(text: str) -> list[int] | None:
    """The offsets of characters that take two units, None where there are none."""
    return None if text.isascii() else [at for at, sign in enumerate(text) if ord(sign) > 0xFFFF] or None


def _at(table: list[int] | None, offset: int) -> int:
    return offset if table is None else offset + sum(at < offset for at in table)


def editor_parts(
    source: Source, findings: Sequence[Diagnostic], facts: Sequence[Fact], problem: str
) -> Mapping[str, object]:
    """The values of the panels beside the text, for ``plan_parts.html``."""
    return {
        "verdict": verdict(findings, not source.text.strip()),
        "findings": finding_rows(source, findings),
        "total": len(findings),
        "facts": facts,
        "problem": problem,
    }
