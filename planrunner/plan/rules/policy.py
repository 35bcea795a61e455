"""What is allowed: a policy refuses no task as it is written, its entries can match, and a task uses only the
capabilities that it lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic
from planrunner.plan.access import Ground, refused_tasks
from planrunner.plan.model import Task
from planrunner.plan.nearest import meant, nearest_capability
from planrunner.plan.policy_checks import IneffectiveEntry, Known, ineffective_entries, refusal
from planrunner.plan.rights import Access, Decision
from planrunner.plan.rules.texts import Text, Within, place_of, value_place
from planrunner.plan.rules.unused import without_effect
from planrunner.plan.rules.view import PlanView, find_word, has_key, names, span_of
from planrunner.plan.shell.commands import unread
from planrunner.plan.tasks import every
from planrunner.source import Span

_KEYS = {"capabilities": ("uses", "run"), "network": ("with",), "env": ("env", "run"), "dependencies": ("with", "run")}
"""Where a task says what a section of a policy is about."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    if not view.whole or not (view.levels or view.plan.policy or any(_restricts(task) for task in written(view))):
        return
    own = {id(task): task for task in written(view)}
    for name, task, wanted, right in refused_tasks(view.plan, view.levels, Ground(view.capabilities, view.directory)):
        here = own.get(id(task)) or _owner(view, name)
        place = _place(view, task, wanted) if id(task) in own else here.span
        unclear = _unread(view, task, wanted, right) if id(task) in own else None
        yield unclear or Diagnostic("PLAN801", f"`{name}`: {refusal(wanted, right)}", place)


def _unread(view: PlanView, task: Task, wanted: Access, right: Decision) -> Diagnostic | None:
    """The finding about a script of which an entry denies some commands, and whose commands cannot all be told."""
    if wanted.section != "capabilities" or "run:" not in right.entry or not isinstance(task.run, str):
        return None
    at = unread(task.run, task.shell)
    if at is None:
        return None
    first = task.run.rfind("\n", 0, max(at - (task.run[at : at + 1] in ("", "\n")), 0)) + 1
    end = task.run.find("\n", first)
    line = task.run[first : end if end >= 0 else len(task.run)]
    start = first + len(line) - len(line.lstrip())
    alone = view._replace(plan=view.plan._replace(tasks=(task,)))
    place = place_of(alone, Text(0, "run", "before", task.run), start, first + len(line))
    level = right.level
    whose = (level.file or level.name) if level is not None else "the policy"
    message = (
        f"`{task.id}`: {whose} denies `{_short(right.entry)}`, and this line of the script cannot be checked against it"
    )
    return Diagnostic("PLAN801", message, place, help=_READABLE)


_READABLE = (
    "only plain commands, quotes, redirections, lists, `if` and `while` can be checked: write a command as a list "
    "(`run: [git, status]`), a loop as `foreach`, a substitution as a task with `stdout: text`, a here-document with "
    "`files.write`"
)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def written(view: PlanView) -> Iterable[Task]:
    """The tasks of this file, those of its subplans and loops included."""
    todo = list(view.plan.tasks)
    for task in todo:
        yield task
        inner = task.sub.tasks if task.sub is not None and not task.sub.file else ()
        todo += (*task.subplan, *(task.loop.tasks if task.loop is not None else ()), *inner)


def _restricts(task: Task) -> bool:
    return task.policy is not None or (task.sub is not None and task.sub.policy is not None)


def _owner(view: PlanView, name: str) -> Task:
    """The task of the plan itself that the path of another one begins with."""
    return view.plan.tasks[view.positions[name.partition("/")[0]]]


def _place(view: PlanView, task: Task, wanted: Access) -> Span:
    if wanted.at:
        return _place_of_file(view, task, wanted)
    keys = _KEYS[wanted.section]
    place = find_word(view, task, wanted.entry, *keys)
    return place if place != task.span else span_of(task, *keys)


def _place_of_file(view: PlanView, task: Task, wanted: Access) -> Span:
    key, *path = wanted.at
    if key in ("outputs", "artifacts", "backup", "evidence"):
        return find_word(view, task, str(path[0]), str(key))
    inputs = task.inputs if key == "with" or task.rollback is None else {"with": task.rollback.inputs}
    return value_place(view, Within(task, str(key), inputs), tuple(path))[0]


def check_entries(view: PlanView) -> Iterable[Diagnostic]:
    if not view.whole:
        return
    owners = [Task(view.plan.id, policy=view.plan.policy, spans=_spans(view))] if view.plan.policy else []
    owners += [task for task in written(view) if task.policy]
    if not owners:
        return
    built_in = getattr(view.capabilities, "built_in", view.capabilities.keys)
    known = Known(view.capabilities.get, built_in, view.capabilities.keys)
    for owner in owners:
        yield from (_finding(view, owner, found) for found in ineffective_entries(owner.policy, known))


def _finding(view: PlanView, owner: Task, found: IneffectiveEntry) -> Diagnostic:
    place, _ = value_place(view, Within(owner, "policy", owner.policy), found.path)
    return Diagnostic(found.code, found.message, place, help=found.help)


def _spans(view: PlanView) -> tuple[tuple[str, Span], ...]:
    """Where the plan's own policy stands; its tasks are indented deeper."""
    key = r"[\"']?(polic(?:y|ies))[\"']?\s*[:={]"
    text = view.source.text
    match = re.search(rf"(?m)^{key}", text) or re.search(rf"(?m)(?:^\s+|[{{,]\s*){key}", text)
    return (("policy", Span(*match.span(1)) if match is not None else view.plan.span),)


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
        guess = meant(nearest_capability(name, known))
        what = f"`capabilities` of `{task.id}`"
        instead = f"`{name}` is not a capability or a family{guess}"
        yield without_effect(what, find_word(view, task, name, "capabilities"), instead)
    if len(unknown) == len(allowed):
        return
    for used, (where, by) in _used(task).items():
        if not any(_means(name, used) for name in allowed):
            of_it = f"the `rollback` of `{where.id}`" if by == "rollback" else f"`{where.id}`"
            held = "its `capabilities`" if where is task else f"the `capabilities` of `{task.id}`"
            message = f"{of_it} uses `{used}`, but {held} allow only {names(allowed)}"
            keys = ["rollback"] if by and where is task else ["uses", "run", "command", "capabilities"]
            place = span_of(task, *keys)  # what is inside may stand in another file
            yield Diagnostic("PLAN009", message, place, help=f"add `{used}` to `capabilities`, or use one of them")


def _used(task: Task) -> dict[str, tuple[Task, str]]:
    """What the task and those inside it call, what undoes them included: each with the first task that does and
    whether its ``rollback`` does."""
    found: dict[str, tuple[Task, str]] = {}
    for each in every((task,)):
        for action, by in ((each, ""), (each.rollback, "rollback")):
            if action is not None and action.uses:
                found.setdefault(action.uses, (each, by))
    return found


def _means(allowed: str, name: str) -> bool:
    """Whether an entry, a name or a family with or without ``.*``, means a capability."""
    family = allowed.removesuffix(".*")
    return name == allowed or name.startswith(f"{family}.")
