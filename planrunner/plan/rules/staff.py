"""Gates ask for roles that somebody of the project has, and for no more people than there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Approvers, Gate, Task
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.labelled import label_place
from planrunner.plan.rules.view import PlanView, find_word, names, span_of
from planrunner.source import Span

Place = Callable[[str], Span]
"""Where a role stands in the text."""

APPROVER_CODES = ("PLAN607",)


def check_approvers(view: PlanView) -> Iterable[Diagnostic]:
    if view.people is None:
        return
    for task in view.plan.tasks:
        for key, asked in _asked(task.gate):
            yield from _unmet(view, asked, f"the gate `{task.id}`", partial(_in_task, view, task, key))
    if view.whole:
        for label, gate in view.plan.gated:
            for _, asked in _asked(gate):
                yield from _unmet(view, asked, f"the gate for the label `{label}`", partial(_in_policy, view, label))


def _asked(gate: Gate | None) -> Iterable[tuple[str, Approvers]]:
    if gate is not None:
        yield "approvers", Approvers(gate.roles, gate.people, gate.need)
        if gate.escalate is not None:
            yield "escalate", gate.escalate


def _in_task(view: PlanView, task: Task, key: str, role: str) -> Span:
    return find_word(view, task, role, key, "gate") if role else span_of(task, key, "gate")


def _in_policy(view: PlanView, label: str, role: str) -> Span:
    return label_place(view, label)


def _unmet(view: PlanView, asked: Approvers, whose: str, place: Place) -> Iterable[Diagnostic]:
    """Roles that nobody has, or fewer people with one of them than have to agree."""
    staff = view.people or {}
    known = list(dict.fromkeys(role for roles in staff.values() for role in roles))
    lacking = [role for role in asked.roles if role not in known]
    for role in lacking:
        close = nearest(role, known)
        message = f"{whose} asks for the role `{role}`, which nobody of the project has"
        help_ = (
            f"did you mean `{close}`?" if close else f"`people` in planrunner.yaml gives {names(known) or 'no roles'}"
        )
        yield Diagnostic("PLAN607", message, place(role), help=help_)
    able = {name for name, roles in staff.items() if set(roles) & set(asked.roles)} | set(asked.people)
    if asked.roles and not lacking and len(able) < asked.need:
        count = "1 person" if len(able) == 1 else f"{len(able)} people"
        message = f"{whose} needs {asked.need} people to agree, and {count} may: {names(sorted(able))}"
        yield Diagnostic("PLAN607", message, place(""), help="give the role to more people, or lower `count`")
