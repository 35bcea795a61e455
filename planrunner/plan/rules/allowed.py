"""What a task says it may use: names and families that are there, and nothing else is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic
from planrunner.plan.holding import every
from planrunner.plan.model import Task
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.unexecuted import without_effect
from planrunner.plan.rules.view import PlanView, find_word, has_key, names, span_of

CAPABILITY_CODES = ("PLAN009",)


def check_capabilities(view: PlanView) -> Iterable[Diagnostic]:
    for task in view.plan.tasks:
        notes = task.notes if isinstance(task.notes, dict) else {}
        said = notes.get("capabilities")
        if said and has_key(task, "capabilities"):
            yield from _held_to(view, task, [said] if isinstance(said, str) else [str(each) for each in said])


def _held_to(view: PlanView, task: Task, allowed: list[str]) -> Iterator[Diagnostic]:
    """An unknown name limits nothing by itself: where all are unknown, they name tools that people have."""
    known = list(view.capabilities)
    unknown = [name for name in allowed if not any(_means(name, other) for other in known)]
    for name in unknown:
        near = nearest(name, known)
        meant = f", did you mean `{near}`?" if near else ""
        what = f"`capabilities` of `{task.id}`"
        instead = f"`{name}` is neither a capability nor a family of them{meant}"
        yield without_effect(what, find_word(view, task, name, "capabilities"), instead)
    if len(unknown) == len(allowed):
        return
    for used in dict.fromkeys(_used(task)):
        if not any(_means(name, used) for name in allowed):
            message = f"`{task.id}` uses `{used}`, and its `capabilities` allow {names(allowed)} alone"
            span = span_of(task, "uses", "run", "command", "capabilities")
            yield Diagnostic("PLAN009", message, span, help=f"add `{used}` to `capabilities`, or use one of them")


def _used(task: Task) -> Iterator[str]:
    """What the task and those inside it call, what undoes or replaces them included."""
    for each in every((task,)):
        yield from (name for name in (each.uses, *_beside(each)) if name)


def _beside(task: Task) -> Iterator[str]:
    yield from (action.uses for action in (task.rollback, task.degraded) if action is not None)


def _means(allowed: str, name: str) -> bool:
    """Whether an entry, a name or a family with or without ``.*``, means a capability."""
    family = allowed.removesuffix(".*")
    return name == allowed or name.startswith(f"{family}.")
