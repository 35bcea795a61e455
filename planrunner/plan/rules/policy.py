"""What a policy refuses a task already as it is written: such a plan does not start."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.commandlist import unread
from planrunner.plan.judging import Wanted, refusal
from planrunner.plan.model import Task
from planrunner.plan.rights import Right
from planrunner.plan.rules.places import Within, place_of, value_place
from planrunner.plan.rules.reading import Text
from planrunner.plan.rules.view import PlanView, find_word, span_of
from planrunner.plan.standing import refused_tasks
from planrunner.plan.touching import Ground
from planrunner.source import Span

CODES = ("PLAN801",)

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


def _unread(view: PlanView, task: Task, wanted: Wanted, right: Right) -> Diagnostic | None:
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
    message = f"`{task.id}`: {whose} denies `{_short(right.entry)}`, and this line of the script cannot be read for it"
    return Diagnostic("PLAN801", message, place, help=_READABLE)


_READABLE = (
    "only plain commands, quotes, redirections, lists, `if` and `while` are read: write a command as a list "
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


def _place(view: PlanView, task: Task, wanted: Wanted) -> Span:
    if wanted.at:
        return _place_of_file(view, task, wanted)
    keys = _KEYS[wanted.section]
    place = find_word(view, task, wanted.entry, *keys)
    return place if place != task.span else span_of(task, *keys)


def _place_of_file(view: PlanView, task: Task, wanted: Wanted) -> Span:
    key, *path = wanted.at
    if key in ("outputs", "artifacts", "backup", "evidence"):
        return find_word(view, task, str(path[0]), str(key))
    action = task.degraded if key == "degraded" else task.rollback
    inputs = task.inputs if key == "with" or action is None else {"with": action.inputs}
    return value_place(view, Within(task, str(key), inputs), tuple(path))[0]
