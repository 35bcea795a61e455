"""Fan-outs that are written out have no more items than they may, and no more than anybody would have meant; names have
a length that files, pages and terminals bear."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import MAX_ITEMS, Fanout, Task
from planrunner.plan.rules.view import PlanView, span_of
from planrunner.source import Span

MANY = 10_000
"""Instances of one task from which on a plan is asked whether it means them."""


LONGEST = 100
"""Characters of a name: files and folders are called by it, with more around it."""


def check_names(view: PlanView) -> Iterable[Diagnostic]:
    for what, name, span in _names(view):
        if len(name) > LONGEST:
            message = f"{what} `{name[:20]}…` has {len(name):,} characters, and may have {LONGEST}"
            yield Diagnostic("PLAN622", message, span, help="titles and descriptions may be longer")


def _names(view: PlanView) -> Iterable[tuple[str, str, Span]]:
    """The names that a view gives, each with what it is and its place; artifacts and outputs that have no name but
    their path may be as long as paths."""
    plan = view.plan
    if not view.outer:
        yield "the name of the plan", plan.id, plan.span
        yield from (("the parameter", each.name, each.span) for each in plan.params)
        yield from (("the output", each.name, each.span) for each in plan.outputs)
        yield from (("the artifact", each.name, each.span) for each in plan.artifacts if each.name != each.source)
        yield from (("the hypothesis", each.name, each.span) for each in plan.hypotheses)
    for task in plan.tasks:
        yield "the id", task.id, task.span
        yield from (("the label", each, span_of(task, "labels")) for each in task.labels)
        yield from (("the output", each.name, each.span) for each in task.outputs if each.name != each.path)
        yield from (("the artifact", each.name, each.span) for each in task.artifacts if each.name != each.path)
        yield from (("the failure mode", each.name, each.span) for each in task.failure_modes if each.detect)
        if task.fanout is not None:
            yield "the name of an item", task.fanout.name, span_of(task, "as")
        if task.loop is not None and isinstance(task.loop.carry, dict):
            yield from (("the carried value", each, span_of(task, "loop")) for each in task.loop.carry)
        if task.gate is not None:
            yield "the window", task.gate.window, span_of(task, "window")
            yield from (("the field", each.name, each.span) for each in task.gate.form)
            yield from (("the option", each.name, each.span) for each in task.gate.options if each.name != each.title)


def check(view: PlanView) -> Iterable[Diagnostic]:
    for task in view.plan.tasks:
        if task.fanout is not None:
            yield from _too_many(view, task, task.fanout)


def _too_many(view: PlanView, task: Task, fanout: Fanout) -> Iterable[Diagnostic]:
    sizes = _sizes(fanout)
    if not sizes:
        return
    place = span_of(task, "matrix", "foreach")
    most = fanout.max_items or MAX_ITEMS
    count = math.prod(sizes)
    if count > most and (left := _left(fanout, count, most)) > most:
        written = f"`max_items` is {most}" if fanout.max_items else f"the maximum is {most}"
        less = f", {left} without those that `exclude` leaves out" if left < count else ""
        message = f"`{task.id}` has {_times(sizes)} items{less}, and {written}"
        help_ = f"say `max_items: {left}` if that is intended" if fanout.max_items else "split the work differently"
        yield Diagnostic("PLAN508", message, place, help=help_)
        return
    around = [each for outer in view.around.items for each in _sizes(outer)]
    before = math.prod(around)
    meant = fanout.max_items is not None and not around
    if before <= MANY < before * count and not meant:
        message = f"`{task.id}` runs {_times([*around, *sizes])} times"
        help_ = "confirm the number with `max_items`" if not around else "nest fewer or smaller fan-outs"
        yield Diagnostic("PLAN509", message, place, help=help_)


def _sizes(fanout: Fanout) -> list[int]:
    """The lengths of the lists that are written out, each; none where one is only known in a run."""
    if fanout.matrix is None:
        return [len(fanout.items)] if isinstance(fanout.items, list) else []
    lists = [axis.items for axis in fanout.axes]
    return [len(each) for each in lists] if all(isinstance(each, list) for each in lists) else []


def _excludes(fanout: Fanout) -> list[dict[str, object]]:
    found = fanout.matrix.get("exclude") if isinstance(fanout.matrix, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _left(fanout: Fanout, count: int, most: int) -> int:
    """How many combinations ``exclude`` leaves, as a run counts them: it makes no more than ``MAX_ITEMS`` to find
    out."""
    patterns = _excludes(fanout)
    if not patterns or count > max(most, MAX_ITEMS):
        return count
    if any("{{" in str(pattern) for pattern in patterns):
        return 0  # what is left out is only known in a run
    names = [axis.name for axis in fanout.axes]
    combinations = (dict(zip(names, values, strict=True)) for values in product(*(axis.items for axis in fanout.axes)))
    return sum(
        not any(all(one.get(name) == value for name, value in pattern.items()) for pattern in patterns)
        for one in combinations
    )


def _times(sizes: list[int]) -> str:
    """``30 × 30 × 30 = 27000``."""
    return str(sizes[0]) if len(sizes) == 1 else f"{' × '.join(map(str, sizes))} = {math.prod(sizes)}"
