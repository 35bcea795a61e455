"""The graph beside the text of a plan: each task leads to its line, and those with findings stand out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from planrunner.diagnostics import Diagnostic, Severity
from planrunner.escapes import harmless
from planrunner.plan.model import Plan, Task
from planrunner.plan.tasks import inner
from planrunner.source import Source
from planrunner.views.page.code import SEVERITIES, note_text
from planrunner.views.page.figures import count
from planrunner.views.page.graph import Drawn, Edge, picture

_GRAVE: tuple[Severity, ...] = ("warning", "error")
"""Severities that mark a task, the gravest last."""


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
