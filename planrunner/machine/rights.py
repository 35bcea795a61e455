"""Rights: tighter budgets and gates by the policies around a task, and what a run may change of its own plan without a
person: nothing of policy, budgets, gates, criteria and done work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from planrunner.machine.events import PolicyChanged
from planrunner.machine.scope import TaskScope, plan_of
from planrunner.machine.state import Governed, State
from planrunner.machine.statuses import SETTLED
from planrunner.plan import compiled
from planrunner.plan.expressions.values import EvaluationError, TemplateError
from planrunner.plan.identity import Difference, differences, digest, guards
from planrunner.plan.model import Budgets, Plan, Task
from planrunner.plan.rights import Decision, Level, narrows
from planrunner.plan.tasks import every, every_secret, tools_of
from planrunner.plan.templates import render
from planrunner.records import fields

Json = Any

POLICY = "policy"
"""The stage of the gate before a task for which a policy says to ask."""


def govern(state: State, recorded: Iterable[Mapping[str, Json]]) -> None:
    """Let the levels of a policy hold for the run from now on. They are recorded with its start, and again when it goes
    on under another policy: replay needs no file."""
    written = state.plan if state.governed is None else state.governed.plan
    records = list(recorded)
    limits = [compiled.load(record["limits"]) for record in records if record.get("limits")]
    gated = {label: gate for plan in reversed(limits) for label, gate in plan.gated}
    levels = tuple(Level(record["name"], record["policy"], record.get("file", "")) for record in records)
    state.governed = Governed(written, levels)
    state.plan = written._replace(
        budgets=tightest([written.budgets, *(plan.budgets for plan in limits)]),
        gated=tuple({**dict(written.gated), **gated}.items()),
    )
    state.limit(state.plan.budgets)
    state.restricted = state.restricted or bool(records)


def tightest(budgets: Iterable[Budgets]) -> Budgets:
    """Limits of which none is above any of those given; what is said first of a warning and of what follows counts."""
    limits = Budgets()
    for each in budgets:
        known = [(name, getattr(limits, name), getattr(each, name)) for name in fields(Budgets)]
        limits = Budgets(**{name: _tighter(name, one, other) for name, one, other in known})
    return limits


def _tighter(name: str, one: Json, other: Json) -> Json:
    if name in ("warn", "on_exhausted"):
        return one or other
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def levels_of(state: State, number: int) -> tuple[Level, ...]:
    """The levels that hold for a task: the operator's, that of the plan, those around the task, and its own."""
    task, frame = state.specs[number], state.tasks[number].frame
    levels = [Level(f"task {task.id}", task.policy)]
    while frame.owner >= 0:
        owner = state.specs[frame.owner]
        if frame.linked is not None:
            levels.append(Level(f"the plan {frame.linked.id}", frame.linked.policy, frame.linked.file))
        levels.append(Level(f"task {owner.id}", owner.policy))
        frame = state.tasks[frame.owner].frame
    levels.append(Level("the plan", state.plan.policy))
    if state.governed is not None:
        levels += reversed(state.governed.levels)
    return tuple(level for level in reversed(levels) if narrows(level.data))


def hook_asks(state: State, number: int) -> str:
    """What a hook of an agent asks people before a call that its model wants; empty where none asks."""
    frame = state.tasks[number].frame
    if frame.kind != "items" or not tools_of(state.specs[frame.owner]):
        return ""
    return str(frame.values[number - frame.first].get("ask") or "")


def policy_asks(state: State, number: int) -> Decision | None:
    """What a policy says to ask people about before a task starts; None where nothing is to be asked."""
    task = state.specs[number]
    if not task.uses or number in state.containers:
        return None
    frame = state.tasks[number].frame
    levels = levels_of(state, number)
    if not levels:
        return None
    from planrunner.plan.policy_checks import judged

    env = state.plan.env if frame.owner < 0 else plan_of(state, frame)[0].env
    said = [right for _, right in judged(levels, _as_wanted(state, number, task), env) if right.verdict == "ask"]
    return said[0] if said else None


def _as_wanted(state: State, number: int, task: Task) -> Task:
    """A call that a model wants, with the values that it gave: they do not change any more. What is asked about one
    tool of a server is not asked about all of them."""
    frame = state.tasks[number].frame
    if frame.kind != "items" or not tools_of(state.specs[frame.owner]):
        return task
    try:
        return task._replace(inputs=render(task.inputs, TaskScope(state, number)))
    except (TemplateError, EvaluationError):  # the attempt fails of it, and says so
        return task


def policy_changed(state: State, event: PolicyChanged, at: float) -> None:
    state.environment = {**state.environment, "policy": list(event.levels)}
    govern(state, event.levels)
    for number, task in enumerate(state.tasks):
        if task.status in SETTLED:
            continue
        state.candidates[number] = None
        if task.status in ("pending", "blocked"):  # what was said yes to was said under another policy
            task.cleared = ()
        if task.gate is not None and not task.gate.decision:
            task.gate.votes = []


# What a run may revise on its own

USUAL = 3
"""Revisions that a run makes on its own where the policy does not say how many."""

_PROSE = frozenset({"title", "description", "owner", "version", "notes"})
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
    for what, change, changed in changes:
        if what == "plan":
            yield from (f"it changes `{name}` of the plan" for name, _, _ in changed if name not in _PROSE)
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
    for what, change, changed in changes:
        name = what.removeprefix("task ")
        if not what.startswith("task "):
            continue
        yield from (f"it changes `{field}` of `{name}`" for field, _, _ in changed if field in guards())
        old = then.get(name)
        if change == "removed":
            guard = old is not None and (old.gate is not None or old.finally_ or old.concluding)
            yield f"it removes `{name}`" + (", which guards the run" if guard else "")


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
