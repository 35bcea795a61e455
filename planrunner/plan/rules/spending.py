"""Where a budget limits what capabilities spend, every task that spends says how much it may use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.model import Budgets, Task
from planrunner.plan.rules.view import PlanView, names, span_of

SPENDING_CODES = ("PLAN506",)

LABELLED = 5
"""How many of the other tasks a finding points at."""
_PRICED = ("cost", "tokens")
"""What an attempt may use any amount of; of calls it sets one aside where nothing is said."""


def check_spending(view: PlanView) -> Iterable[Diagnostic]:
    """One finding for the plan and each of what is spent, since one default mends it for all tasks."""
    if not view.whole:
        return
    spending: dict[str, list[Task]] = {}
    for task, what in _unlimited(view, view.plan.tasks, (view.plan.budgets,)):
        spending.setdefault(what, []).append(task)
    for what, tasks in spending.items():
        yield _finding(what, tasks)


def _unlimited(view: PlanView, tasks: Iterable[Task], around: tuple[Budgets, ...]) -> Iterator[tuple[Task, str]]:
    """The tasks that spend what a budget around them limits and say nothing of it themselves."""
    limited = [what for what in _PRICED if any(getattr(budgets, what) is not None for budgets in around)]
    for task in tasks:
        capability = view.capabilities.get(task.uses) if limited else None
        for what in capability.spends if capability is not None else ():
            if what in limited and getattr(task.budgets, what) is None:
                yield task, what
        if inner := (*task.subplan, *(task.loop.tasks if task.loop is not None else ())):
            yield from _unlimited(view, inner, (*around, task.budgets))


def _finding(what: str, tasks: list[Task]) -> Diagnostic:
    first, *others = tasks
    if not others:
        message = f"`{first.uses}` of `{first.id}` spends {what}, which a budget limits, without a limit of its own"
        return Diagnostic("PLAN506", message, span_of(first, "uses"), help=f"add `budgets: {{{what}: …}}`")
    message = f"{len(tasks)} tasks spend {what}, which a budget limits, without a limit of their own: "
    return Diagnostic(
        "PLAN506",
        message + names(task.id for task in tasks),
        span_of(first, "uses"),
        labels=tuple(Label(span_of(task, "uses"), f"`{task.id}` as well") for task in others[:LABELLED]),
        help=f"give all tasks a limit by `defaults: {{budgets: {{{what}: …}}}}`, or each its own `budgets`",
    )
