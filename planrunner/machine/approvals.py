"""What an approval is for: the question with its evidence, and what the gate releases. ``digest`` binds a vote to both;
where the digest of a gate is another one than its voters saw, the gate asks again.

A gate of the plan releases every task after it, on its own level and on those around it, as the plan defines them. So
does an instruction that a person carries out. A gate that a label, a policy or a precondition puts before a task
releases that task. Criteria that people judge are about an attempt that has ended: they release nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256
from typing import Any

from planrunner.jsontext import stable_json
from planrunner.machine.events import GateReopened
from planrunner.machine.state import GateState, State
from planrunner.machine.statuses import SETTLED
from planrunner.plan.identity import digest as definition
from planrunner.plan.identity import paths_read, plain_task
from planrunner.plan.model import Plan, Task

Json = Any

_SHAPING = ("env", "policy", "budgets", "gated", "on_failure", "rollback")
"""Fields of a plan that shape what its tasks do, and what their failure leads to; with the values that they read."""
_OF_THE_PLAN = ("gate", "instruction")
"""Stages of the gates that what comes after them waits for."""


def digest(state: State, number: int, gate: GateState) -> str:
    """What an approval is for, in one word: another run, task, visit, policy, question or piece of evidence gives
    another, and so does another definition of anything that the gate releases."""
    seen = [[item.get(key) for key in ("kind", "name", "digest", "problem")] for item in gate.evidence]
    released = release(state, number, gate.stage)
    name = unvisited(state.specs[number].id)
    return _hash(["gate", state.run_id, name, gate.visit, released, gate.policy, gate.request, seen])[:40]


def stands(state: State, number: int, gate: GateState) -> bool:
    """Whether what people said at the gate is about the run as it is."""
    return not gate.shown or gate.shown == digest(state, number, gate)


def void(state: State) -> set[int]:
    """The tasks whose gates were approved for something that is otherwise now. What a gate before a task released has
    begun with its attempt."""
    return {
        number
        for number, task_state in enumerate(state.tasks)
        if (gate := task_state.gate) is not None
        and gate.decision == "approved"
        and gate.stage != "criteria"
        and (gate.stage in _OF_THE_PLAN or task_state.attempts == task_state.past)
        and not stands(state, number, gate)
    }


def reopened(before: State, after: State, without: Collection[int]) -> list[GateReopened]:
    """The events by which the gates of a revised run that are not decided ask again, where what they ask about or
    release is otherwise than before; ``without`` are those that are reset."""
    return [
        GateReopened(
            after.specs[number].id,
            gate.visit,
            gate.request,
            gate.evidence,
            gate.policy,
            digest(after, number, gate),
            changes(before, after, number, gate),
        )
        for number, task_state in enumerate(after.tasks)
        if (gate := task_state.gate) is not None
        and gate.opened
        and not gate.decision
        and task_state.status not in SETTLED
        and number not in without
        and not stands(after, number, gate)
    ]


def changes(before: State, after: State, number: int, gate: GateState) -> tuple[str, ...]:
    """The names of what the gate of a task (``number`` after) releases otherwise than before, tasks first."""
    name = after.specs[number].id
    then = {} if name not in before.index else dict(_parts(before, before.index[name], gate.stage))
    now = dict(_parts(after, number, gate.stage))
    names = [each for each in {**now, **then} if now.get(each) != then.get(each)]
    return tuple(names) or ("the run",)


def released(state: State, number: int) -> list[int]:
    """The tasks that a gate of the plan releases: all after it, on its level and on those around it."""
    found: list[int] = []
    while number >= 0:
        known, todo = {number}, [number]
        while todo:
            for other in state.shape.following(todo.pop()):
                if other not in known:
                    known.add(other)
                    todo.append(other)
        found += sorted(known - {number})
        number = state.tasks[number].frame.owner
    return found


def unvisited(path: str) -> str:
    """The path of a task, however often what holds it was opened: ``s@2/ok`` is ``s/ok``."""
    return _VISIT.sub("", path)


_VISIT = re.compile(r"@\d+(?=[/#\[]|$)")


def approvers(gate: GateState) -> list[str]:
    """Who approved of a gate, also where more have to."""
    if gate.decision:
        return list(gate.by) if gate.decision == "approved" else []
    return [vote.by for vote in gate.votes if vote.verdict == "approve"]


def reason(names: Iterable[str], by: Iterable[str]) -> str:
    """Why a gate asks again: ``deploy changed since ana approved``."""
    listed, who = list(names), ", ".join(by)
    more = f" and {len(listed) - 5} more" if listed[5:] else ""
    said = f"{', '.join(listed[:5])}{more} changed" if listed else "what it releases changed"
    return f"{said} since {who} approved" if who else said


def release(state: State, number: int, stage: str = "gate") -> str:
    """The digest of what a gate releases."""
    plan = [_shaping(state), _own(state, number)]
    if stage not in _OF_THE_PLAN:
        return _hash(plan if stage != "criteria" else plan[:1])
    while number >= 0:
        plan.append(_after(state, number))
        number = state.tasks[number].frame.owner
        if number >= 0:
            plan.append(_around(state, number))
    return _hash(plan)


def _parts(state: State, number: int, stage: str) -> Iterator[tuple[str, str]]:
    """Each thing that the digest of a release is made of, by its name for people."""
    if stage != "criteria":
        yield unvisited(state.specs[number].id), _own(state, number)
    if stage in _OF_THE_PLAN:
        for each in released(state, number):
            yield unvisited(state.specs[each].id), _own(state, each)
        while (number := state.tasks[number].frame.owner) >= 0:
            yield unvisited(state.specs[number].id), _around(state, number)
    for name in _SHAPING:
        yield f"`{name}` of the plan", _shape(state, (name,))


def _after(state: State, number: int) -> str:
    """The digest of all that comes after a task on its level. Each digest holds those of what follows at once, so that
    all gates of a large run take as long as one."""
    known, todo = state.releases, [number]
    while todo:
        at = todo[-1]
        following = state.shape.following(at)
        missing = [other for other in following if (other, "") not in known]
        if missing:
            todo += missing
            continue
        todo.pop()
        known[at, ""] = _hash(sorted(_own(state, other) + known[other, ""] for other in following))
    return known[number, ""]


def _own(state: State, number: int) -> str:
    """The digest of a task with all that it holds, and of the parameters and variables that it reads."""
    known = state.releases.get((number, "own"))
    if known is None:
        item = state.containers.get(number)
        tasks = [state.specs[number]] if item is None else [state.specs[number], item]
        known = state.releases[number, "own"] = _hash([*map(_meaning, tasks), _values(state, tasks)])
    return known


def _around(state: State, owner: int) -> str:
    """The digest of a container around a gate, without what it holds; of a loop with it, since each round is followed
    by the next."""
    task = state.specs[owner]
    if task.loop is not None:
        return _own(state, owner)
    bare = task._replace(subplan=(), steps=())
    if task.sub is not None:
        bare = bare._replace(sub=task.sub._replace(tasks=()))
    return _hash([_meaning(bare), _values(state, [bare])])


def _meaning(task: Task) -> str:
    return definition(without_limits(plain_task(task)._replace(id=unvisited(task.id))))


def without_limits(task: Task) -> Task:
    """A task without the time that its gate leaves people: that is about the question, not about what is released."""
    return task if task.gate is None else task._replace(gate=task.gate._replace(expires=None))


def differs(one: Task, other: Task | None) -> bool:
    """Whether two definitions of a task are not the same, its title and other prose aside."""
    return other is None or _meaning(one) != _meaning(other)


def _values(state: State, parts: list[Json]) -> list[tuple[str, str, str]]:
    """The values of the parameters, the variables and the plan of the run that tasks, or fields of a plan, read."""
    plan = state.plan
    given: dict[str, dict[str, Json]] = {
        "params": state.params,
        "env": state.environment.get("env", {}),
        "plan": {"id": plan.id, "name": plan.id, "title": plan.title, "version": plan.version},
    }
    return sorted(
        {
            (root, name, stable_json(value))
            for root, *rest in {path[:2] for path in paths_read(parts)}
            if root in given
            for name, value in given[root].items()
            if not rest or rest[0] == name
        }
    )


def _shaping(state: State) -> str:
    """The digest of what the plan says for all of its tasks, without what the operator adds."""
    known = state.releases.get((-1, "shaping"))
    if known is None:
        known = state.releases[-1, "shaping"] = _shape(state, _SHAPING)
    return known


def _shape(state: State, names: tuple[str, ...]) -> str:
    plan = _plan(state)
    fields = {name: getattr(plan, name) for name in names}
    if "gated" in fields:
        fields["gated"] = tuple((label, gate._replace(expires=None)) for label, gate in plan.gated)
    said, values = definition(Plan("", **fields)), _values(state, list(fields.values()))
    return _hash([said, values]) if values else said


def _plan(state: State) -> Plan:
    return state.plan if state.governed is None else state.governed.plan


def _hash(value: Json) -> str:
    return sha256(stable_json(value).encode("utf-8", "surrogatepass")).hexdigest()
