"""What has no effect: keys that a run does not carry out, parameters that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from planrunner.diagnostics import Diagnostic
from planrunner.plan.keys import TASK
from planrunner.plan.model import Task
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.rules.view import PlanView, every_task, has_key, names, plan_key, span_of
from planrunner.plan.templated import is_template, templates
from planrunner.source import Span
from planrunner.syntax.tree import Json

_READ = r"params\s*(?:\.\s*([A-Za-z_][A-Za-z0-9_-]*)|\[\s*[\"']([^\"']+)[\"']|(\[\s*[A-Za-z_]|\}\}|\||\)))"
"""One parameter, or (last group) all of them: ``{{ params }}`` and ``params[name]``."""


def check_params(view: PlanView) -> Iterable[Diagnostic]:
    """Looks at the text as it stands: a read in a comment is one too, and so is a misspelt one, reported elsewhere."""
    if not view.plan.params or view.outer:
        return
    known = [param.name for param in view.plan.params]
    missing = set(known)
    read: set[str] = set()
    for match in re.finditer(_READ, "\n".join([view.source.text, *_in_files(view)])):
        if match[3]:
            return
        name = match[1] or match[2]
        if name not in read:
            read.add(name)
            missing.discard(name)
            if not missing:
                return
    missing -= _read_by_commands(view)
    missing -= {nearest(name, known) for name in read.difference(known)}
    for param in view.plan.params:
        if param.name in missing and not _subtracted(param.name, read):
            yield Diagnostic("PLAN209", f"nothing reads the parameter `{param.name}`", param.span)


def _in_files(view: PlanView) -> Iterator[str]:
    """The texts of a plan that may stand in a file of instructions."""
    if "file:" in view.source.text:
        for task in every_task(view.plan.tasks):
            yield from templates([task.agent.prompt] if task.agent is not None else task.inputs)


def _read_by_commands(view: PlanView) -> set[str]:
    """The parameters that commands name without ``params``."""
    calls = [call for task in every_task(view.plan.tasks) if task.command for call in task.subplan]
    return {match[1] for call in calls for text in templates(call.inputs) for match in re.finditer(_READ, text)}


def _subtracted(name: str, read: set[str]) -> bool:
    """``params.a-b`` may be a subtraction that reads ``a``."""
    return any(other.startswith(f"{name}-") for other in read)


NOT_OBEYED = frozenset(["tools", "data", "foreign", "autonomous", "budgets", "plans"])
"""Keys of a policy that no run obeys where a plan says them."""

_SAID_BY = {
    "tools": "the tools of agents are capabilities: write `policy: {capabilities: …}`",
    "budgets": "the limits of a plan stand under `budgets` of the plan",
    "data": "write how data is handled in `description`",
}
"""What a plan says instead."""


def check_keys(view: PlanView) -> Iterable[Diagnostic]:
    if view.whole and isinstance(view.plan.policy, dict):
        off = {"autonomous"} if view.plan.policy.get("autonomous") is False else set()  # which a run obeys
        idle = [str(key) for key in view.plan.policy if key in NOT_OBEYED - off]
        if idle:
            place = plan_key(view, "policies" if "\npolicies" in view.source.text else "policy")
            what = f"the plan's `policy` for {names(idle)}"
            instead = "only planrunner.yaml grants that" if idle == ["autonomous"] else "it has no effect"
            help_ = "; ".join(_SAID_BY[key] for key in idle if key in _SAID_BY)
            yield _finding(what, place, instead)._replace(help=help_)

    if not view.outer:
        yield from _idle_keys(view)
    for task in view.plan.tasks:
        yield from _out_of_place(task)
        if isinstance(task.notes, dict) and "validation" in task.notes and has_key(task, "validation"):
            what = f"`validation` of `{task.id}`"
            yield without_effect(what, span_of(task, "validation"), "a list of expressions or words is checked")


_OF_CONTAINERS = tuple(row.name for row in TASK.keys if "containers" in row.idle)
"""Keys without an effect on a task with steps or rounds, which starts nothing itself."""
_OF_LINKED = (*_OF_CONTAINERS, *(row.name for row in TASK.keys if "linked" in row.idle))
"""The same of a task whose subplan is a plan of its own, which says its environment itself."""
_OF_PEOPLE = tuple(row.name for row in TASK.keys if "people" in row.idle)
"""Keys without an effect on a gate or an instruction: no attempt can be timed, repeated or undone."""


def _out_of_place(task: Task) -> Iterable[Diagnostic]:
    """Keys of a task that belong to work which it does not do itself."""
    if task.loop is not None or task.steps or task.subplan:
        idle, why, help_ = _OF_CONTAINERS, "the tasks inside it do the work", "write it on the tasks inside"
        if task.agent is not None:  # the calls that it wants are settled so
            idle = tuple(key for key in idle if key != "on_doubt")
    elif task.subplan_file:
        idle, why, help_ = _OF_LINKED, "its subplan is a plan of its own", "write it there; `params` hands values over"
    elif task.gate is not None or not (task.uses or task.run is not None):
        idle, why, help_ = _OF_PEOPLE, "people do this task", "write it on the task that does the work"
        if has_key(task, "timeout") or has_key(task, "timebox"):
            help_ = "limit their time with `expires` of a gate, or `deadline`"
    else:
        return
    keys = [key for key in idle if has_key(task, key) and not _is_told_elsewhere(task, key)]
    if keys:
        what = f"{names(keys)} of `{task.id}` {'has' if len(keys) == 1 else 'have'} no effect"
        yield Diagnostic("PLAN021", f"{what}: {why}", span_of(task, *keys), help=help_)


def _is_told_elsewhere(task: Task, key: str) -> bool:
    """A rollback in words and the inputs of an instruction are for people to read; a delay of a task without any action
    is an error already."""
    return (
        (key == "rollback" and task.rollback is None)
        or (key == "with" and task.gate is None)
        or (key == "delay" and not task.command)
    )


IDLE = {
    "memory": "tasks remember with `memory.put` and recall with `memory.get`",
    "labels": "limits and policies look at the labels of tasks",
}
"""Keys of a plan that nothing looks at, and what that means."""


def _idle_keys(view: PlanView) -> Iterable[Diagnostic]:
    notes = view.plan.notes if isinstance(view.plan.notes, dict) else {}
    for key, instead in IDLE.items():
        if not notes.get(key):
            continue
        remembered = _remembered(view) if key == "memory" else set()
        if remembered:
            yield from _memory(view, notes[key], remembered)
        else:
            yield without_effect(f"`{key}` of a plan", plan_key(view, key), instead)


def _remembered(view: PlanView) -> set[str]:
    """The keys of memory that tasks name, templates included."""
    calls = (task.inputs for task in every_task(view.plan.tasks) if task.uses.startswith("memory."))
    return {str(inputs["key"]) for inputs in calls if isinstance(inputs, dict) and "key" in inputs}


def _memory(view: PlanView, said: Json, remembered: set[str]) -> Iterable[Diagnostic]:
    """Keys that the plan names and no task has; what else the plan says of its memory."""
    place = plan_key(view, "memory")
    sections = said if isinstance(said, dict) else {"keys": said}
    lists = [sections.get(section, []) for section in _KEYS_OF_MEMORY]
    named = [str(key) for keys in lists for key in (keys if isinstance(keys, list) else [keys])]
    if not any(is_template(key) for key in remembered):
        for key in islice((key for key in dict.fromkeys(named) if key not in remembered), _SHOWN):
            instead = f"no task has it{meant(nearest(key, islice(remembered, _LOOKED_THROUGH)))}"
            yield without_effect(f"the memory key `{key}` of the plan", place, instead)
    for section in sections:
        if section not in _KEYS_OF_MEMORY:
            yield without_effect(f"`{section}` in the `memory` of a plan", place, "each task has its own")


_KEYS_OF_MEMORY = ("keys", "read", "write")
_SHOWN, _LOOKED_THROUGH = 20, 1000
"""Keys that are reported, and keys among which the nearest is looked for."""


def without_effect(what: str, span: Span, instead: str) -> Diagnostic:
    return Diagnostic("PLAN021", f"{what} has no effect in this version: {instead}", span)


def _finding(what: str, span: Span, instead: str) -> Diagnostic:
    return Diagnostic("PLAN020", f"{what} is not executed by this version: {instead}", span)
