"""The plan editor: its verdict, findings, lines, preview and graph, from what lint and preview say of a text."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from planrunner.diagnostics import Diagnostic, Severity
from planrunner.escapes import harmless
from planrunner.plan.model import Plan, Task
from planrunner.plan.tasks import inner
from planrunner.records import Struct
from planrunner.source import Source
from planrunner.views.findings import findings_data
from planrunner.views.page.code import SEVERITIES, note_text
from planrunner.views.page.figures import count
from planrunner.views.page.forecast import Fact
from planrunner.views.page.graph import Drawn, Edge, Skeleton, picture
from planrunner.views.page.render import ticked
from planrunner.views.revision import Revision

Json = Any

SHOWN = 100
"""Findings that are listed; the verdict counts all."""


class Verdict(Struct):
    """The sentence at the top: ``state`` colours it, ``strong`` is its beginning and ``text`` the rest. ``fix`` is
    what the primary action applies (``safe``), empty where no safe fix is left."""

    state: str
    icon: str
    strong: str
    text: str
    fix: str = ""
    fixes: int = 0
    starts: bool = False


class FindingRow(Struct):
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


class RevisionView(Struct):
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


def finding_rows(source: Source, findings: Sequence[Diagnostic]) -> list[FindingRow]:
    """The findings as they are listed, the gravest first and then in the order of the text, at most ``SHOWN``."""
    rows = []
    for finding, data in zip(findings, findings_data([(source, findings)])["findings"], strict=False):
        sign, fix = SEVERITIES[finding.severity], finding.fix
        rows.append(
            FindingRow(
                *(sign.state, sign.icon, sign.word, ticked(harmless(finding.message)), ticked(harmless(finding.help))),
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


UNCHECKED = Verdict(
    "wait", "doubt", "Not checked yet.", "The text is large: check it to see its findings.", starts=True
)


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


# The graph beside the text: each task leads to its line, and those with findings stand out


_GRAVE: tuple[Severity, ...] = ("warning", "error")
"""Severities that mark a task, the gravest last."""


class SketchNode(Struct):
    """A task in its place. ``line`` is where it begins in the text, ``note`` a few words below its name; ``state`` and
    ``icon`` are those of its gravest finding, or of what it is."""

    place: str
    name: str
    label: str
    x: float
    y: float
    width: float
    height: float
    line: int
    note: str
    state: str
    icon: str
    group: bool


class Sketch(Struct):
    """The drawing, and ``meta`` which counts what is in it."""

    width: float
    height: float
    nodes: tuple[SketchNode, ...]
    edges: tuple[Edge, ...]
    meta: str


def sketch(plan: Plan, source: Source, findings: Sequence[Diagnostic]) -> Sketch:
    """The drawing of a plan, which may have errors."""
    drawn = picture(Skeleton(plan), upright=True)
    tasks = dict(_places(plan.tasks, ""))
    looks = _looks(tasks, findings)
    nodes = tuple(_node(node, tasks.get(node.place), looks, source) for node in drawn.nodes)
    gates = sum(task.gate is not None for task in tasks.values())
    meta = ", ".join(count(number, noun) for number, noun in ((len(tasks), "task"), (gates, "gate")) if number)
    return Sketch(drawn.width, drawn.height, nodes, drawn.edges, meta)


Look = tuple[str, str, str]
"""State, icon and words of the gravest finding about a task."""


def _node(node: Drawn, task: Task | None, looks: Mapping[str, Look], source: Source) -> SketchNode:
    name, box = harmless(node.name), (node.x, node.y, node.width, node.height)
    if task is None:  # it stands for several tasks
        return SketchNode(node.place, name, harmless(node.title), *box, 1, "", "tool", "more", node.group)
    plain = ("gate", "gate", "") if task.gate is not None else ("tool", "tool", "")
    state, icon, why = looks.get(node.place, plain)
    note = harmless(why or _note(task))
    line = source.place(task.span.start).line
    return SketchNode(node.place, name, _label(node.place, state, note), *box, line, note, state, icon, node.group)


def _places(tasks: Sequence[Task], prefix: str) -> Iterator[tuple[str, Task]]:
    for task in tasks:
        yield prefix + task.id, task
        yield from _places(() if task.agent is not None else inner(task), f"{prefix}{task.id}/")


def _looks(tasks: Mapping[str, Task], findings: Sequence[Diagnostic]) -> dict[str, Look]:
    """By place the look of each task with an error or a warning. A task reaches from where it begins to where the next
    one does."""
    begins = sorted((task.span.start, place) for place, task in tasks.items())
    starts = [start for start, _ in begins]
    looks: dict[str, Look] = {}
    for severity in _GRAVE:
        sign = SEVERITIES[severity]
        for finding in reversed([each for each in findings if each.severity == severity]):
            at = bisect_right(starts, finding.span.start) - 1
            if at >= 0:
                looks[begins[at][1]] = (sign.state, sign.icon, note_text(finding))
    return looks


def _note(task: Task) -> str:
    words = []
    if task.gate is not None:
        who = ", ".join((*task.gate.roles, *task.gate.people))
        words.append(f"{task.gate.need} of {who}" if who else task.gate.kind)
    if task.retry.attempts > 1:
        words.append(f"{task.retry.attempts} attempts")
    if task.fanout is not None:
        words.append("for each item")
    if task.loop is not None:
        words.append(f"at most {task.loop.max} rounds")
    if task.rollback is not None:
        words.append("rollback")
    return ", ".join(words) or (task.uses if task.uses != "shell" else "")


def _label(place: str, state: str, note: str) -> str:
    said = "has findings, " if state in ("bad", "wait") else "gate, " if state == "gate" else ""
    return harmless(f"{place}: {said}{note}".strip(": ,"))
