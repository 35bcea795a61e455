"""Gates that a revision of a run overrules: approvals that are void, gates that are gone or are otherwise, tasks that
no longer wait for one. It takes the right to decide them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from planrunner.app.people.gates import reason_not_allowed
from planrunner.errors import Denied, Hint, NextStep
from planrunner.machine.approvals import approvers, reason
from planrunner.machine.events import GateReopened, TasksReset
from planrunner.machine.gates import asks_people
from planrunner.machine.names import written_of
from planrunner.machine.questions import Question
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED
from planrunner.plan.identity import digest, plain_task
from planrunner.plan.model import Gate, Plan, Task
from planrunner.plan.tasks import inside, written_tasks
from planrunner.records import Struct
from planrunner.views.revision import Revision

_DECIDED = ("approved", "rejected", "expired")
"""Decisions of people, or for want of them."""


def asks_again(
    before: State, after: State, reset: TasksReset | None, reopened: Iterable[GateReopened]
) -> tuple[tuple[str, str], ...]:
    """The gates that people approved of, in part or wholly, and that ask again under the revision, with the reason."""
    found = {**after.again, **({} if reset is None else reset.changed)}
    for event in reopened:
        gate = before.tasks[before.index[event.task]].gate
        if gate is not None and (by := approvers(gate)):
            found[event.task] = reason(event.changed, by)
    return tuple(found.items())


class Guard(Struct):
    """A gate of people as the plan writes it: the ``task`` that is one, or that a ``label`` puts one before; those
    whose tasks it ``releases``, by their paths in the plan."""

    task: Task
    gate: Gate
    label: str = ""
    releases: frozenset[str] = frozenset()

    @property
    def meaning(self) -> str:
        """Who decides and what follows. What is asked and shown may change: they are asked about that."""
        gate = self.gate._replace(ask="", evidence=None, options=(), form=(), expires=None, window="")
        return digest((Task("") if self.label else plain_task(self.task))._replace(needs=(), gate=gate))


def overruled(before: State, after: State) -> tuple[tuple[str, str], ...]:
    """The gates of people, by their paths in the plan, that the revision takes away or changes, or that tasks do not
    wait for any more, with what is done to them."""
    then, now = _guards(before.plan), _guards(after.plan)
    known = written_tasks(after.plan)
    found = dict(_unconfirmed(before, known))
    standing = _standing(before) if then else {}
    for (path, label), guard in then.items():
        other = now.get((path, label))
        if path not in standing.get(path, {path}) or (label and path not in known):
            continue
        if other is None:
            found[path] = f"its label `{label}` demands no decision" if label else "it is not a gate"
        elif other.meaning != guard.meaning:
            found[path] = "the gate is changed"
        elif freed := sorted((guard.releases - other.releases) & known.keys()):
            found[path] = f"{', '.join(f'`{each}`' for each in freed[:5])} no longer waits for it"
    return tuple(found.items())


def _standing(state: State) -> dict[str, set[str]]:
    """For each task that the run has opened, by its path in the plan: that path while a gate there is to be decided or
    was decided by people, in one of its rounds or items; else nothing."""
    found: dict[str, set[str]] = {}
    for number, task_state in enumerate(state.tasks):
        path, gate = written_of(state.specs[number].id), task_state.gate
        standing = found.setdefault(path, set())
        if task_state.status not in SETTLED or (gate is not None and gate.decision in _DECIDED):
            standing.add(path)
    return found


def _unconfirmed(state: State, known: dict[str, Task]) -> Iterator[tuple[str, str]]:
    """The tasks that wait for people to confirm something in words which they do not ask any more."""
    for number, task_state in enumerate(state.tasks):
        gate = task_state.gate
        task = known.get(written_of(state.specs[number].id))
        if task is None or gate is None or not gate.waits or task_state.status in SETTLED:
            continue
        asked = {each.text for each in (*task.preconditions, *task.expect, *task.postconditions)}
        if gate.stage in ("preconditions", "criteria") and not asked.issuperset(gate.request.get("words", ())):
            yield written_of(state.specs[number].id), "it does not ask people what it waits for"


def _guards(plan: Plan) -> dict[tuple[str, str], Guard]:
    """The gates of people that a plan has, by the path of their task and the label that demands them."""
    return dict(_level(plan.tasks, "", dict(plan.gated), frozenset()))


def _level(
    tasks: Sequence[Task], prefix: str, gated: dict[str, Gate], after: frozenset[str]
) -> Iterator[tuple[tuple[str, str], Guard]]:
    following = _following(tasks)
    for task in tasks:
        path = prefix + task.id
        if (task.gate is not None and asks_people(task.gate)) or inside(task):
            behind = after | {prefix + name for name in _behind(task.id, following)}
            if task.gate is not None and asks_people(task.gate):
                yield (path, ""), Guard(task, task.gate, "", behind)
            inner = {**dict(task.sub.gated), **gated} if task.sub is not None else gated
            yield from _level(inside(task), f"{path}/", inner, behind)
        for label in task.labels:
            if label in gated and task.gate is None and asks_people(gated[label]):
                yield (path, label), Guard(task, gated[label], label)


def _following(tasks: Iterable[Task]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for task in tasks:
        for need in task.needs:
            found.setdefault(need, []).append(task.id)
        found.setdefault(task.id, []).extend(edge.target for edge in task.edges if not edge.rework)
    return found


def _behind(name: str, following: dict[str, list[str]]) -> set[str]:
    known, todo = {name}, [name]
    while todo:
        new = [other for other in following.get(todo.pop(), ()) if other not in known]
        known.update(new)
        todo += new
    return known - {name}


def require_decider(made: Revision, before: State, decides: bool) -> None:
    """Raises Denied for a revision that overrules gates, where the caller may not decide them."""
    hint = Hint("what waits: ", NextStep("gates", made.run_id))
    for gate, what in () if decides else (*made.overruled, *made.asks_again):
        raise Denied(f"the revision overrules the gate `{gate}` ({what}), which takes the right to decide it", hint)
    guards = _guards(before.plan) if made.overruled else {}
    for path, what in made.overruled:
        for guard in (guard for (each, _), guard in guards.items() if each == path):
            starter = str(before.environment.get("user") or "")
            asks = (guard.gate.roles, guard.gate.people, guard.gate.not_starter, starter)
            if why := reason_not_allowed(Question("gate", path, "", -1, None, *asks), before):
                raise Denied(f"the revision overrules the gate `{path}` ({what}): {why}", hint)
