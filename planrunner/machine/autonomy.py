"""What a run may change of its own plan without a person: nothing of policy, budgets, gates, criteria and done work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from planrunner.machine.state import State
from planrunner.plan.identity import Difference, differences, digest
from planrunner.plan.model import Plan, Task
from planrunner.plan.rights import Level
from planrunner.plan.tasks import every, every_secret

Json = Any

USUAL = 3
"""Revisions that a run makes on its own where the policy does not say how many."""

_PROSE = frozenset({"title", "description", "owner", "version", "notes"})
_GUARDS = frozenset(
    "budgets policy secrets labels env gate expect postconditions preconditions failure_modes allow_failure "
    "when join finally concluding ends_plan irreversible".split()
)
"""Fields of a task that hold it back, or decide whether it went well."""
_HARMLESS = ("pure", "read")


def granted(levels: Iterable[Level], plan: Plan) -> int:
    """How many revisions a run may make on its own: what the operator's levels grant, the least of all; 0 where none
    does, or one of them or the plan says no."""
    said = [level.data.get("autonomous") for level in levels if isinstance(level.data, dict)]
    own = plan.policy.get("autonomous") if isinstance(plan.policy, dict) else None
    grants = [_number(each) for each in said if each is not None]
    return min([*grants, *([] if own is None else [_number(own)])]) if grants else 0


def _number(said: Json) -> int:
    if isinstance(said, dict):
        return int(said.get("revisions", USUAL))
    return USUAL if said is True else 0


def beyond(state: State, before: Plan, after: Plan) -> list[str]:
    """Why a person has to decide on a revision, a sentence each; empty where the run may make it on its own. ``state``
    is that of the run before it."""
    changes = differences(before, after)
    then, now = _by_name(before), _by_name(after)
    touched = {
        change.what.removeprefix("task ").partition("/")[0] for change in changes if change.what.startswith("task ")
    }
    why = [*_of_plan(changes), *_of_done(state, touched), *_of_tasks(changes, then), *_of_edges(then, now)]
    why += _of_rights(then, [now[name] for name in now if name in touched or name not in then])
    why += _of_gates(state, then, now, touched)
    return list(dict.fromkeys(why))


def _by_name(plan: Plan) -> dict[str, Task]:
    return {task.id: task for task in plan.tasks}


def _of_plan(changes: Iterable[Difference]) -> Iterator[str]:
    for what, change, fields in changes:
        if what == "plan":
            yield from (f"it changes `{name}` of the plan" for name, _, _ in fields if name not in _PROSE)
        elif what.startswith("edge ") and (change == "removed" or " on " in what):
            yield f"{what} is {change}"
        elif not what.startswith(("task ", "edge ", "output ")):
            yield f"it changes {what}" if change == "changed" else f"{what} is {change}"


def _of_done(state: State, touched: Iterable[str]) -> Iterator[str]:
    for name in sorted(touched):
        number = state.index.get(name)
        task_state = None if number is None else state.tasks[number]
        if task_state is not None and task_state.attempts and task_state.status not in ("failed", "cancelled"):
            yield f"it touches `{name}`, which has been executed ({task_state.status})"


def _of_tasks(changes: Iterable[Difference], then: Mapping[str, Task]) -> Iterator[str]:
    for what, change, fields in changes:
        name = what.removeprefix("task ")
        if not what.startswith("task "):
            continue
        yield from (f"it changes `{field}` of `{name}`" for field, _, _ in fields if field in _GUARDS)
        old = then.get(name)
        if change == "removed":
            guards = old is not None and (old.gate is not None or old.finally_ or old.concluding)
            yield f"it removes `{name}`" + (", which guards the run" if guards else "")


def _of_edges(then: Mapping[str, Task], now: Mapping[str, Task]) -> Iterator[str]:
    for name in then.keys() & now.keys():
        before, after = (digest(Task(name, edges=each[name].edges)) for each in (then, now))
        if before != after:
            yield f"it changes where `{name}` leads"


def _of_rights(then: Mapping[str, Task], changed: Iterable[Task]) -> Iterator[str]:
    known = {name for task in then.values() for name in _called(task)}
    for task in changed:
        yield from (
            f"`{task.id}` calls `{name}`, which no task did before" for name in _called(task) if name not in known
        )
        if task.id not in then and every_secret((task,)):
            yield f"`{task.id}` is given secrets"


def _of_gates(state: State, then: Mapping[str, Task], now: Mapping[str, Task], touched: set[str]) -> Iterator[str]:
    """Whatever came after a gate still does, and what is new or changed and acts comes after each one that is open."""
    for name in then.keys() & now.keys():
        if lost := _gates(then, name) - _gates(now, name):
            yield f"`{name}` no longer comes after the gate {', '.join(f'`{gate}`' for gate in sorted(lost))}"
    waiting = {name for name, task in then.items() if task.gate is not None and not _decided(state, name)}
    for name in sorted(touched & now.keys()):
        task = now[name]
        if task.gate is None and _acts(state, task) and (before := waiting - _gates(now, name)):
            yield f"`{name}` acts and does not come after the gate {', '.join(f'`{gate}`' for gate in sorted(before))}"


def _decided(state: State, name: str) -> bool:
    number = state.index.get(name)
    return number is not None and state.tasks[number].status == "completed"


def _gates(tasks: Mapping[str, Task], name: str) -> set[str]:
    """The gates that a task comes after, by its needs."""
    found: set[str] = set()
    waiting, seen = [name], {name}
    while waiting:
        task = tasks.get(waiting.pop())
        for need in task.needs if task is not None else ():
            if need in seen:
                continue
            seen.add(need)
            waiting.append(need)
            if need in tasks and tasks[need].gate is not None:
                found.add(need)
    return found


def _acts(state: State, task: Task) -> bool:
    """Whether a task may change anything, whatever it says itself of its effect."""
    called = [each.uses for each in every([task]) if each.uses]
    return any(name not in state.traits or state.traits[name].effect not in _HARMLESS for name in called)


def _called(task: Task) -> set[str]:
    actions = [action for each in every([task]) for action in (each, each.rollback) if action is not None]
    return {action.uses for action in actions if action.uses}
