"""Review windows gather gates that can wait at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.model import Gate, Task
from planrunner.plan.rules.gates import label_place
from planrunner.plan.rules.view import PlanView, find_word, span_of
from planrunner.plan.tasks import inside
from planrunner.source import Span


def check(view: PlanView) -> Iterable[Diagnostic]:
    demanded = {label: gate for label, gate in view.plan.gated if gate.window}
    yield from _in_line(view, demanded)
    if view.whole:
        yield from _alone(view, demanded)


def _windows(task: Task, demanded: dict[str, Gate]) -> set[str]:
    own = {task.gate.window} if task.gate is not None else set()
    return (own | {demanded[label].window for label in task.labels if label in demanded}) - {""}


def _in_line(view: PlanView, demanded: dict[str, Gate]) -> Iterator[Diagnostic]:
    """Gates of one window of which one waits for the other, so that they never wait together."""
    by_window: dict[str, list[int]] = {}
    for at, task in enumerate(view.plan.tasks):
        for name in _windows(task, demanded):
            by_window.setdefault(name, []).append(at)
    for name, places in by_window.items():
        pairs = [(one, other) for one in places for other in places if one != other]
        before = view.graph.precedes(pairs)
        told: set[int] = set()
        for (one, other), precedes in zip(pairs, before, strict=True):
            if precedes and other not in told:
                told.add(other)
                yield _finding(view, name, view.plan.tasks[one], view.plan.tasks[other])


def _finding(view: PlanView, name: str, first: Task, task: Task) -> Diagnostic:
    message = f"`{task.id}` comes after `{first.id}` in the window `{name}`: they never wait at the same time"
    labels = (Label(first.span, f"`{first.id}` is decided first"),)
    place = find_word(view, task, name, "window")
    return Diagnostic("PLAN612", message, place, labels=labels, help="use another window, or remove `window`")


def _alone(view: PlanView, demanded: dict[str, Gate]) -> Iterator[Diagnostic]:
    """Windows of a single gate, which have no effect."""
    counts: dict[str, int] = {}
    places: dict[str, Span] = {gate.window: label_place(view, label) for label, gate in demanded.items()}
    for task, many in _every(view.plan.tasks, False):
        for name in _windows(task, demanded):
            counts[name] = counts.get(name, 0) + (2 if many else 1)
            places.setdefault(name, span_of(task, "window"))
    for name, count in counts.items():
        if count == 1:
            message = f"the window `{name}` has a single gate, so nothing is reviewed together"
            yield Diagnostic("PLAN612", message, places[name], help="add it to other gates, or remove it")


def _every(tasks: Iterable[Task], many: bool) -> Iterator[tuple[Task, bool]]:
    """Every task, and whether it may be there more than once, as a round or an item."""
    for task in tasks:
        several = many or task.loop is not None or task.fanout is not None
        yield task, several
        yield from _every(inside(task), several)
