"""Budgets and limits: depth of subplans, what tasks may spend, labels of limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.agents import ASKING, REFLECTION, UNNAMED
from planrunner.plan.model import Budgets, Task
from planrunner.plan.rules.view import PlanView, every_task, find_word, has_key, label_of_no_task, names, span_of
from planrunner.plan.tasks import tells_usage
from planrunner.source import Span


def check(view: PlanView) -> Iterable[Diagnostic]:
    plan = view.plan
    if not view.outer and plan.budgets.depth is not None:
        yield from _depth(plan.budgets.depth, _levels(plan.tasks), "the plan", _plan_place(view, "depth"))
    for task in plan.tasks:
        if task.budgets.depth is not None:
            yield from _depth(task.budgets.depth, _levels((task,)), f"`{task.id}`", span_of(task, "budgets"))


def _depth(most: int, levels: int, whose: str, place: Span) -> Iterable[Diagnostic]:
    if levels > most:
        message = f"{whose} nests {levels} levels of subplans, its budget allows {most}"
        yield Diagnostic("PLAN503", message, place, help=f"set `depth: {levels}`, or nest fewer levels")


def _levels(tasks: Iterable[Task]) -> int:
    """How deep subplans stand in each other; a loop does not count as a level. The lowering has bounded the depth."""
    deepest = 0
    for task in tasks:
        inner = task.sub.tasks if task.sub is not None else task.subplan
        if inner or task.subplan_file:
            deepest = max(deepest, 1 + _levels(inner))
        elif task.loop is not None:
            deepest = max(deepest, _levels(task.loop.tasks))
    return deepest


def _plan_place(view: PlanView, key: str) -> Span:
    """Where a key of the plan's budgets stands, before its first task; else the plan's name."""
    end = min((task.span.start for task in view.plan.tasks), default=len(view.source.text))
    match = re.compile(rf"\b{key}\b").search(view.source.text, view.plan.span.start, end)
    return Span(*match.span()) if match else view.plan.span


LABELLED = 5
"""How many of the other tasks a finding points at."""
_PRICED = ("cost", "tokens")
"""What an attempt may use any amount of; of calls it sets one aside where nothing is said."""


def check_spending(view: PlanView) -> Iterable[Diagnostic]:
    """One finding for the plan and each of what is spent, since one default mends it for all tasks."""
    if not view.whole:
        return
    spending: dict[str, list[Task]] = {}
    reporting: dict[str, tuple[Task, list[str]]] = {}
    for task, what in _unlimited(view, view.plan.tasks, (view.plan.budgets,)):
        capability = view.capabilities.get(task.uses)
        if task.agent is None and (capability is None or what not in capability.spends):
            reporting.setdefault(task.id, (task, []))[1].append(what)
        else:
            spending.setdefault(what, []).append(task)
    for what, tasks in spending.items():
        yield _finding(what, tasks)
    for task, kinds in reporting.values():
        yield _unbounded(task, kinds)
    yield from _linked(view, view.plan.tasks, (view.plan.budgets,))


def _linked(view: PlanView, tasks: Iterable[Task], around: tuple[Budgets, ...]) -> Iterator[Diagnostic]:
    """The same of tasks in linked plans, at what links them: a budget around that counts for them too."""
    for task in tasks:
        budgets = (*around, task.budgets)
        if task.sub is not None:
            found: dict[tuple[str, bool], list[str]] = {}
            for inner, what in _unlimited(view, task.sub.tasks, budgets):
                capability = view.capabilities.get(ASKING if inner.agent is not None else inner.uses)
                spends = capability is not None and what in capability.spends
                found.setdefault((what, spends), []).append(f"{task.id}/{inner.id}")
            for (what, spends), ids in found.items():
                verb = ("spends" if len(ids) == 1 else "spend") if spends else "may report"
                whose = "its" if len(ids) == 1 else "their"
                message = f"{names(ids)} {verb} {what}, which a budget here limits, without a limit of {whose} own"
                help_ = f"write `budgets: {{{what}: …}}` at each, or under `defaults` of the linked plan"
                yield Diagnostic("PLAN506" if spends else "PLAN511", message, span_of(task, "subplan"), help=help_)
            yield from _linked(view, task.sub.tasks, budgets)
        elif task.agent is None:
            yield from _linked(view, (*task.subplan, *(task.loop.tasks if task.loop is not None else ())), budgets)


def _unbounded(task: Task, kinds: list[str]) -> Diagnostic:
    words = " and ".join(kinds)
    message = f"the script of `{task.id}` reports {words}, which a budget limits, without a limit of its own"
    limits = ", ".join(f"{what}: …" for what in kinds)
    return Diagnostic("PLAN511", message, span_of(task, "run", "with"), help=f"add `budgets: {{{limits}}}`")


def _unlimited(view: PlanView, tasks: Iterable[Task], around: tuple[Budgets, ...]) -> Iterator[tuple[Task, str]]:
    """The tasks that spend what a budget around them limits, or report that they do, and say nothing of it
    themselves."""
    limited = [what for what in _PRICED if any(getattr(budgets, what) is not None for budgets in around)]
    for task in tasks:
        capability = view.capabilities.get(ASKING if task.agent is not None else task.uses) if limited else None
        if REFLECTION in (task.notes or {}):
            continue  # it takes a share
        reported = _reported(task) if limited else ()
        for what in (*(capability.spends if capability is not None else ()), *reported):
            if what in limited and getattr(task.budgets, what) is None and not _misspelt(view, task, what):
                yield task, what
        if task.agent is None and (inner := (*task.subplan, *(task.loop.tasks if task.loop is not None else ()))):
            yield from _unlimited(view, inner, (*around, task.budgets))


def _misspelt(view: PlanView, task: Task, what: str) -> bool:
    """Whether the task says a limit, with a value that the schema has refused."""
    if not (view.refused and has_key(task, "budgets")):
        return False
    span = find_word(view, task, what, "budgets")
    return view.source.text[span.start : span.end] == what


def _reported(task: Task) -> tuple[str, ...]:
    """What the script of a task reports by its own text: all where it names none of it."""
    if not tells_usage(task):
        return ()
    text = f"{task.run} {task.inputs}"
    return tuple(what for what in _PRICED if what in text) or _PRICED


def _finding(what: str, tasks: list[Task]) -> Diagnostic:
    first, *others = tasks
    if not others:
        whose = f"`{first.uses}`"
        if first.agent is not None:
            whose = "the agent" if first.agent.name == UNNAMED else f"the agent `{first.agent.name}`"
        message = f"{whose} of `{first.id}` spends {what}, which a budget limits, without a limit of its own"
        return Diagnostic("PLAN506", message, span_of(first, "uses", "agent"), help=f"add `budgets: {{{what}: …}}`")
    message = f"{len(tasks)} tasks spend {what}, which a budget limits, without a limit of their own: "
    return Diagnostic(
        "PLAN506",
        message + names(task.id for task in tasks),
        span_of(first, "uses", "agent"),
        labels=tuple(Label(span_of(task, "uses", "agent"), f"`{task.id}` as well") for task in others[:LABELLED]),
        help=f"give all tasks a limit by `defaults: {{budgets: {{{what}: …}}}}`, or each its own `budgets`",
    )


_KEY = r"(?m)(?:^|[{,])\s*[\"']?limits[\"']?\s*:"


def check_limits(view: PlanView) -> Iterable[Diagnostic]:
    if not view.plan.limits or not view.whole:
        return
    tasks = list(every_task(view.plan.tasks))
    if any(task.subplan_file and task.sub is None for task in tasks):
        return  # its tasks have labels that are not known here
    labels = dict.fromkeys(label for task in tasks for label in task.labels)
    for label, _ in view.plan.limits:
        if label not in labels:
            message = f"the limit `{label}` has no effect: no task has that label"
            yield label_of_no_task(view, ("PLAN213", message, _place(view, label)), label, list(labels))


def _place(view: PlanView, label: str) -> Span:
    """Where the label stands under `limits`, or the plan's name where it is written in another way."""
    text = view.source.text
    key = re.search(_KEY, text)
    found = re.compile(rf"(?<![\w-]){re.escape(label)}(?![\w-])").search(text, key.end()) if key else None
    return Span(*found.span()) if found else view.plan.span
