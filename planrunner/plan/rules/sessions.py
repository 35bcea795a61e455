"""Sessions of agents: tasks that continue the same session have a defined order."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.model import Task
from planrunner.plan.rules.view import PlanView, span_of

CODES = ("PLAN851",)


def check(view: PlanView) -> Iterable[Diagnostic]:
    tasks = view.plan.tasks
    by_session: dict[str, list[int]] = {}
    for here, task in enumerate(tasks):
        if task.agent is not None and task.agent.session:
            by_session.setdefault(task.agent.session, []).append(here)
    pairs = [pair for positions in by_session.values() for pair in pairwise(positions)]
    before = view.graph.precedes([*pairs, *((second, first) for first, second in pairs)]) if pairs else []
    for (first, second), forth, back in zip(pairs, before, before[len(pairs) :]):
        if not (forth or back):
            yield _finding(tasks[first], tasks[second])


def _finding(first: Task, second: Task) -> Diagnostic:
    session = second.agent.session if second.agent is not None else ""
    return Diagnostic(
        "PLAN851",
        f"`{first.id}` and `{second.id}` continue the session `{session}` in no defined order",
        span_of(second, "session"),
        labels=(Label(span_of(first, "session"), f"`{first.id}` continues it too"),),
        help=f"order the tasks (`needs: [{first.id}]`), or give each its own session",
    )
