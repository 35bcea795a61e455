"""Where a budget limits what capabilities spend, every task that spends says how much it may use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Budgets, Task
from planrunner.plan.rules.view import PlanView, span_of

CODES = ("PLAN506",)

_PRICED = ("cost", "tokens")
"""What an attempt may use any amount of; of calls it sets one aside where nothing is said."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    if view.whole:
        yield from _within(view, view.plan.tasks, (view.plan.budgets,))


def _within(view: PlanView, tasks: Iterable[Task], around: tuple[Budgets, ...]) -> Iterator[Diagnostic]:
    limited = [what for what in _PRICED if any(getattr(budgets, what) is not None for budgets in around)]
    for task in tasks:
        capability = view.capabilities.get(task.uses) if limited else None
        for what in capability.spends if capability is not None else ():
            if what in limited and getattr(task.budgets, what) is None:
                message = (
                    f"`{task.uses}` of `{task.id}` spends {what}, which a budget limits, without a limit of its own"
                )
                yield Diagnostic("PLAN506", message, span_of(task, "uses"), help=f"add `budgets: {{{what}: …}}`")
        if inner := (*task.subplan, *(task.loop.tasks if task.loop is not None else ())):
            yield from _within(view, inner, (*around, task.budgets))
