"""The graph beside the text of a plan: each task leads to its line, and those with findings stand out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from planrunner.diagnostics import Diagnostic
from planrunner.escapes import harmless
from planrunner.plan.model import Plan, Task
from planrunner.plan.tasks import inner
from planrunner.source import Source
from planrunner.views.page.code import SEVERITIES, note_text
from planrunner.views.page.figures import count
from planrunner.views.page.graph import Edge, picture
from planrunner.views.terminal import cut

_LETTERS = 22
"""Letters of the small text of a node."""


class SketchNode(NamedTuple):
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


class Sketch(NamedTuple):
    """The drawing, and ``meta`` which counts what is in it."""

    width: float
    height: float
    nodes: tuple[SketchNode, ...]
    edges: tuple[Edge, ...]
    meta: str


def sketch(plan: Plan, source: Source, findings: Sequence[Diagnostic]) -> Sketch:
    """The drawing of a plan, which may have errors."""
    drawn = picture(plan, upright=True)
    tasks = dict(_places(plan.tasks, ""))
    nodes = []
    for node in drawn.nodes:
        task = tasks.get(node.place)
        state, icon, why = _look(task, findings) if task is not None else ("tool", "more", node.title)
        note = _note(task) if task is not None and not why else why
        nodes.append(
            SketchNode(
                *(node.place, harmless(node.name), _label(node.place, state, note), node.x, node.y),
                *(node.width, node.height, _line(task, source), cut(harmless(note), _LETTERS), state, icon, node.group),
            )
        )
    gates = sum(task.gate is not None for task in tasks.values())
    meta = ", ".join(count(number, noun) for number, noun in ((len(tasks), "task"), (gates, "gate")) if number)
    return Sketch(drawn.width, drawn.height, tuple(nodes), drawn.edges, meta)


def _places(tasks: Sequence[Task], prefix: str) -> Iterator[tuple[str, Task]]:
    for task in tasks:
        yield prefix + task.id, task
        yield from _places(() if task.agent is not None else inner(task), f"{prefix}{task.id}/")


def _line(task: Task | None, source: Source) -> int:
    return 0 if task is None else source.place(task.span.start).line


def _look(task: Task, findings: Sequence[Diagnostic]) -> tuple[str, str, str]:
    """State, icon and words of the gravest finding inside a task; those of what it is without one."""
    mine = [finding for finding in findings if task.span.start <= finding.span.start < task.span.end]
    for severity, sign in SEVERITIES.items():
        if severity == "note":
            break
        for finding in mine:
            if finding.severity == severity:
                return sign.state, sign.icon, note_text(finding)
    return ("gate", "gate", "") if task.gate is not None else ("tool", "tool", "")


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
