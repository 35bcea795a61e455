"""A role that a task declares is the role it has in the graph."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.rules.view import PlanView, span_of

ROLE_CODES = ("PLAN110",)

_MEANING = {
    "START": "no task before it",
    "EXIT": "no task after it",
    "LINEAR": "one task before and one after",
    "DECISION": "edges that an outcome or a condition chooses",
    "BRANCH": "more than one task after it, whatever happens",
    "SPLIT": "a fan-out, a loop or a subplan",
    "MERGE": "more than one task before it",
}


def check_roles(view: PlanView) -> Iterable[Diagnostic]:
    for here, task in enumerate(view.plan.tasks):
        if task.role:
            played = view.graph.roles(here)
            if task.role.upper() not in played:
                meaning = _MEANING.get(task.role.upper(), "no such role")
                message = (
                    f"`{task.id}` declares the role {task.role} but its place in the graph is {' and '.join(played)}"
                )
                help_ = f"{task.role} means: {meaning}"
                yield Diagnostic("PLAN110", message, span_of(task, "role"), help=help_)
