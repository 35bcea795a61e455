"""Words by which people are asked: labels that are nearly those of a gate, and options that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.plan.model import Task
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.gates import LABELS, gated_labels, spelt
from planrunner.plan.rules.view import PlanView, every_task, find_word, names, span_of

_SHORT = 5
"""Characters up to which a label is only one edit from another."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    if not view.whole:
        return
    tasks = [task for task in every_task(view.plan.tasks) if task.labels]
    if not tasks:
        return
    gated = {label for level in view.levels for label in gated_labels(level.data)} | dict(view.plan.gated).keys()
    for task in tasks:
        for label in task.labels:
            if label in gated or label in LABELS:
                continue
            usual = set() if spelt(label) in LABELS else LABELS - gated  # that of another spelling counts as it is
            near = nearest(label, sorted(gated) + sorted(usual), 1 if len(label) <= _SHORT else 2)
            if near is not None:
                yield _misspelt(view, task, label, (near, near in gated))


def _misspelt(view: PlanView, task: Task, label: str, meant: tuple[str, bool]) -> Diagnostic:
    near, is_gated = meant
    span = find_word(view, task, label, "labels")
    asks = "for which a gate is demanded" if is_gated else "for which people are usually asked"
    message = f"the label `{label}` of `{task.id}` is not `{near}`, {asks}"
    fix = Fix(f"write `{near}`", (Edit(span, near),), safe=False) if _is_written(view, span, label) else None
    return Diagnostic("PLAN619", message, span, help=f"did you mean `{near}`?", fix=fix)


def _is_written(view: PlanView, span: object, label: str) -> bool:
    start, end = getattr(span, "start", 0), getattr(span, "end", 0)
    return view.source.text[start:end] == label


def check_options(view: PlanView) -> Iterable[Diagnostic]:
    for here, task in enumerate(view.plan.tasks):
        gate = task.gate
        if (
            gate is None
            or view.graph.dependents[here]
            or any(each.each is not None or not each.name for each in gate.options)
        ):
            continue
        ways = {option.target for option in gate.options if option.target}
        idle = [option for option in gate.options if not option.target]
        if not ways or not idle or any(edge.target not in ways for edge in task.edges):
            continue
        listed = names([option.name for option in idle])
        which = f"the option {listed}" if len(idle) == 1 else f"the options {listed}"
        message = f"{which} of `{task.id}` {'leads' if len(idle) == 1 else 'lead'} nowhere, though others lead on"
        span = idle[0].span if idle[0].span.end else span_of(task, "options", "gate")
        help_ = f"add `to: TASK` to it, or a task that needs `{task.id}` and asks `tasks.{task.id}.outputs.choice`"
        yield Diagnostic("PLAN620", message, span, help=help_)
