"""The envelope of a run before it starts: what runs in which order, what is skipped, who is asked, and the worst case
of everything, as far as a plan and its parameters can tell."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from planrunner.app.proof.bounds import Bound, attempts_of, bound_of, compared, task_bound, with_slots
from planrunner.app.proof.names import asks, demands, walk
from planrunner.capabilities.files.inputs import written
from planrunner.engine.calls import rendered
from planrunner.engine.containers import items
from planrunner.machine.graph import Shape
from planrunner.machine.joins import value_of, with_values
from planrunner.machine.questions import who_may
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.quantities import format_duration
from planrunner.plan.expressions.values import EvaluationError, TemplateError, text_of
from planrunner.plan.model import Expression, Fanout, Gate, Plan, Task
from planrunner.plan.tasks import comes_last, inner
from planrunner.plan.templates import references, render

Json = Any


_DECIDABLE = frozenset({"params", "env", "plan"})
_SYSTEM = ("host", "os")
"""The one fact of the world that does not change before the run."""
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)


class _Here:
    """The names of a plan, and the operating system that it is looked at on."""

    def __init__(self, scope: TaskScope) -> None:
        self._scope = scope

    def resolve(self, name: str) -> Json:
        return {"os": os.uname().sysname.lower()} if name == "host" else self._scope.resolve(name)


class KnownPlan:
    """A plan with the values that are known before it runs."""

    __slots__ = ("_scope", "demanded", "plan", "selected", "state", "traits")

    def __init__(
        self, plan: Plan, params: Mapping[str, Json], traits: Mapping[str, Json], env: Mapping[str, str]
    ) -> None:
        self.traits = traits
        self.demanded = demands(plan)
        self.state = State(plan, "")
        self.state.params = dict(params)
        self.state.environment = {"env": dict(env)}
        self._scope = TaskScope(self.state, -1)
        self.plan = plan._replace(tasks=tuple([self._set(task) for task in plan.tasks]))
        self.selected: frozenset[str] | None = None

    def _set(self, task: Task) -> Task:
        """A task, and what it holds but for linked plans, with those of its computed settings that are known."""
        if task.subplan:
            task = task._replace(subplan=tuple([self._set(each) for each in task.subplan]))
        if task.loop is not None:
            task = task._replace(loop=task.loop._replace(tasks=tuple([self._set(each) for each in task.loop.tasks])))
        if not task.computed:
            return task
        told = [one for one in task.computed if all(path[0] in _DECIDABLE for path in one.expression.paths)]
        values = {one.name: value_of(one, self._scope)[0] for one in told}
        known = {name: value for name, value in values.items() if value is not None}
        left = tuple([one for one in task.computed if one.name not in known])
        return with_values(task, known)._replace(computed=left)

    def may_run(self, selected: Collection[str] | None, unsettled: Collection[str] | None) -> set[str]:
        """The written paths of the tasks that may run, as far as parameters tell; ``unsettled`` are those at the top
        that have not come to their end (None: all)."""
        self.selected = None if selected is None else frozenset(selected)
        paths: set[str] = set()
        waiting = [row for row in rows_of(self) if unsettled is None or row["task"] in unsettled]
        for row in waiting:
            if row["what"] not in OUT:
                paths.add(row["task"])
                waiting += row.get("inner", ())
        return paths

    def holds(self, condition: Expression | None) -> bool | None:
        """Whether a condition holds, None where only the run can tell."""
        if condition is None:
            return True
        if any(path[0] not in _DECIDABLE and path != _SYSTEM for path in condition.paths):
            return None
        try:
            return truth(condition.tree, _Here(self._scope))
        except EvaluationError:
            return None

    def filled(self, text: str) -> str:
        """A text with the templates filled in whose values are known; environment variables stay as they are written,
        since they may be secrets."""

        def one(match: re.Match[str]) -> str:
            paths = [path for path, _, _ in references(match[0])]
            if any(path[0] not in ("params", "plan") for path in paths):
                return match[0]
            try:
                return text_of(render(match[0], self._scope))
            except (TemplateError, EvaluationError):
                return match[0]

        return text if "{%" in text else _TEMPLATE.sub(one, text)

    def value(self, given: Json) -> Json:
        """A value with its templates filled in; raises TemplateError and EvaluationError where only the run can, or
        where an environment variable would show, which may be a secret."""
        for text in _texts(given):
            if "{{" in text and any(path[0] not in ("params", "plan") for path, _, _ in references(text)):
                raise TemplateError("it has no value yet")
        return rendered(given, self._scope)

    def count(self, fanout: Fanout) -> int | None:
        """How many items a fan-out has, None where only the run can tell."""
        reads = set() if fanout.foreach is None else {path[0] for path in fanout.foreach.paths}
        if reads - _DECIDABLE or re.search(r"\b(tasks|loop|item)\b", str(fanout.items) + str(fanout.matrix)):
            return None
        try:
            return len(items(fanout, self._scope))
        except Exception:  # whatever is wrong with the items is the run's to say
            return None


def _texts(given: Json) -> Iterator[str]:
    if isinstance(given, str):
        yield given
    elif isinstance(given, (dict, list, tuple)):
        for each in given.values() if isinstance(given, dict) else given:
            yield from _texts(each)


def envelope(known: KnownPlan, parallel: int) -> dict[str, Json]:
    """The envelope as plain data; equal plans and parameters give equal envelopes."""
    plan = known.plan
    rows = _rows(known, plan.tasks, "", parallel)
    going = {row["task"] for row in rows if row["what"] not in OUT}
    running = [task for task in plan.tasks if task.id in going]
    worst = bound_of(running, known.count, parallel)
    return {
        "plan": plan.id,
        "title": plan.title,
        "tasks": rows,
        "time": _time(plan, worst, parallel),
        "worst": {
            "attempts": worst.attempts,
            "cost": worst.cost,
            "tokens": worst.tokens,
            "unknown": list(worst.unpriced),
        },
        "budgets": compared(plan, {**worst._asdict(), "time": with_slots(worst, parallel), "calls": worst.attempts}),
        "writes": _writes(known, running),
        "irreversible": [path for path, task in walk(running) if is_irreversible(known, task)],
        "asks": _asks(known, running),
        "max_parallel": parallel,
        "on_failure": plan.on_failure,
    }


def rows_of(known: KnownPlan) -> list[dict[str, Json]]:
    """The tasks in the order in which they can start, with what becomes of each."""
    return _rows(known, known.plan.tasks, "", known.plan.max_parallel)


def _time(plan: Plan, worst: Bound, parallel: int) -> dict[str, Json]:
    limits = [limit for limit in (plan.budgets.time, plan.deadline) if limit is not None]
    return {
        "critical_path": worst.path,
        "along": list(worst.counted),
        "at_most": with_slots(worst, parallel),
        "limit": min(limits, default=None),
        "unknown": list(worst.open),
        "uncounted": list(worst.uncounted),
    }


def _rows(
    known: KnownPlan, tasks: Sequence[Task], prefix: str, parallel: int, around: str = ""
) -> list[dict[str, Json]]:
    """The tasks of one level in the order in which they can start, with what becomes of each; ``around`` is what
    becomes of the task that holds them."""
    shape = Shape()
    index = shape.add(tasks)
    fates: dict[int, tuple[str, str]] = {}
    waves = _waves(tasks, shape)
    order = sorted(range(len(tasks)), key=lambda number: (waves[number], number))
    for number in order:
        fates[number] = _held(_fate(known, tasks, number, shape, fates), around)
    del index
    return [_row(known, tasks[number], prefix, waves[number], fates[number], parallel) for number in order]


def _waves(tasks: Sequence[Task], shape: Shape) -> list[int]:
    """The wave of each task: one after the last of what it waits for; ``done`` comes last, and ``finally`` after it."""
    waves: dict[int, int] = {}

    def wave(number: int, seen: frozenset[int]) -> int:
        if number not in waves:
            before = [*shape.needs[number], *(route.source for route in shape.routes_in.get(number, ()))]
            waves[number] = 1 + max((wave(other, seen | {number}) for other in before if other not in seen), default=0)
        return waves[number]

    for number in range(len(tasks)):
        wave(number, frozenset())
    last = max((waves[number] for number, task in enumerate(tasks) if not comes_last(task)), default=0)
    finals = last + any(task.concluding for task in tasks)
    return [
        waves[number] + (finals if task.finally_ else last if task.concluding else 0)
        for number, task in enumerate(tasks)
    ]


OUT = ("skipped", "omitted", "left out")
"""What becomes of a task that does not run."""


def _held(fate: tuple[str, str], around: str) -> tuple[str, str]:
    """The fate of a task inside another: it does not run where that one does not, and surely runs only if it does."""
    if around in OUT:
        return around, ""
    return (around, fate[1]) if around in ("decided", "on failure") and fate[0] == "runs" else fate


def _fate(
    known: KnownPlan, tasks: Sequence[Task], number: int, shape: Shape, fates: Mapping[int, tuple[str, str]]
) -> tuple[str, str]:
    """What becomes of a task, and why: runs, asks, skipped, omitted, left out, decided while it runs, or only where
    something fails."""
    task = tasks[number]
    if known.selected is not None and tasks is known.plan.tasks and task.id not in known.selected and not task.finally_:
        return "left out", "not selected"
    needs = shape.needs[number]
    if needs and task.join.kind == "all":
        gone = [tasks[need].id for need in needs if fates[need][0] in ("skipped", "omitted")]
        if gone:
            return "omitted", f"needs `{gone[0]}`"
    routes = shape.routes_in.get(number, ())
    if routes:
        fate = _routed(known, tasks, routes, fates)
        if fate is not None:
            return fate
    holds = known.holds(task.when)
    if holds is False:
        return "skipped", f"`{task.when.text}` is false" if task.when else ""
    if holds is None and task.when is not None:
        return "decided", f"when `{task.when.text}`"
    if task.join.kind == "expression" and task.join.expression is not None:
        return "decided", f"needs `{task.join.expression.text}`"
    return _kind(task)


def _routed(
    known: KnownPlan, tasks: Sequence[Task], routes: Sequence[Any], fates: Mapping[int, tuple[str, str]]
) -> tuple[str, str] | None:
    """The fate of a task that edges lead to; None where one of them is sure to fire when all goes well."""
    alive = [route for route in routes if fates.get(route.source, ("runs", ""))[0] not in OUT]
    open_ = [route for route in alive if known.holds(route.edge.condition) is not False]
    if not open_:
        sources = ", ".join(f"`{tasks[route.source].id}`" for route in routes)
        return "omitted", f"no edge from {sources} can be taken"
    well = [route for route in open_ if route.edge.on != "failure"]
    if not well:
        sources = ", ".join(f"`{tasks[route.source].id}`" for route in open_)
        return "on failure", f"only if {sources} fails"
    if all(route.edge.otherwise or known.holds(route.edge.condition) is None for route in well):
        return "decided", " or ".join(_condition(tasks, route) for route in well)
    return None


def _condition(tasks: Sequence[Task], route: Any) -> str:
    edge = route.edge
    return f"else of `{tasks[route.source].id}`" if edge.condition is None else f"`{edge.condition.text}`"


def _kind(task: Task) -> tuple[str, str]:
    if task.gate is not None:
        return "asks", who_decides(task.gate)
    if inner(task) or task.fanout is not None:
        return "runs", ""
    if not task.uses:
        return "asks", "an instruction in plain words"
    words = [each.text for each in (*task.preconditions, *task.expect, *task.postconditions) if each.expression is None]
    return "runs", f"then a person judges: {'; '.join(words)}" if words else ""


def who_decides(gate: Gate) -> str:
    """Who decides a gate, in words."""
    count = f"{gate.need} of " if gate.need > 1 else ""
    return f"{gate.kind} by {count}{who_may(gate)}"


def _row(known: KnownPlan, task: Task, prefix: str, wave: int, fate: tuple[str, str], parallel: int) -> dict[str, Json]:
    bound = task_bound(task, known.count, parallel, prefix)
    row: dict[str, Json] = {"task": prefix + task.id, "wave": wave, "what": fate[0], "why": fate[1]}
    row["title"] = task.title
    row["calls"] = task.uses
    row["command"] = _command(known, task)
    row["effect"] = effect_of(known, task)
    row["attempts"] = attempts_of(task)
    row["worst"] = bound.path
    if row["task"] in known.demanded:
        row["first"] = [f"{who_decides(gate)} (label {label})" for label, gate in known.demanded[row["task"]]]
    if task.gate is not None and task.gate.expires is not None:
        row["expires"] = f"{format_duration(task.gate.expires)}, then {task.gate.on_expiry or 'reject'}"
    if task.fresh is not None:
        row["reuse"] = "done already where its inputs and outputs are those of the last time"
    if task.fanout is not None:
        items = known.count(task.fanout)
        row["items"] = items if items is not None else task.fanout.max_items
    if task.loop is not None:
        row["rounds"] = task.loop.max
    if task.rollback is not None:
        row["rollback"] = task.rollback.uses
    held = inner(task)
    if held:
        row["inner"] = _rows(known, held, f"{prefix}{task.id}/", parallel, fate[0])
    return row


def _command(known: KnownPlan, task: Task) -> str:
    if isinstance(task.run, tuple):
        return " ".join(known.filled(str(word)) for word in task.run)
    if isinstance(task.run, str):
        return known.filled(task.run).strip()
    if task.concluding:
        return "; ".join(each.text for each in task.expect)
    return task.command.strip()


def effect_of(known: KnownPlan, task: Task) -> str:
    """The effect class of a task: its own, or that of its capability."""
    if task.effect is not None:
        return task.effect
    trait = known.traits.get(task.uses)
    return str(trait[0]) if trait else ""


def _writes(known: KnownPlan, tasks: Sequence[Task]) -> list[dict[str, Json]]:
    """The paths that tasks say they write."""
    result = []
    for path, task in walk(tasks):
        given = task.inputs if isinstance(task.inputs, dict) else {}
        if task.uses.startswith(("files.", "http.download")) and effect_of(known, task) not in ("read", "pure"):
            paths = written(task.uses, given)
            result += [{"task": path, "path": known.filled(each), "as": task.uses} for each in paths]
        result += [
            {"task": path, "path": known.filled(each.path), "as": "artifact"} for each in task.artifacts if each.path
        ]
        result += [
            {"task": path, "path": known.filled(each.path), "as": "output"} for each in task.outputs if each.path
        ]
    return result


def is_irreversible(known: KnownPlan, task: Task) -> bool:
    """Whether nothing undoes the effect of a task: as PLAN604 has it, also of one that may be repeated, unless the task
    itself says that it is one."""
    return bool(task.uses) and not inner(task) and _changes(known, task) and not _undone(known, task)


def _changes(known: KnownPlan, task: Task) -> bool:
    if task.effect is not None:
        return task.effect in ("unsafe", "checkable")
    return effect_of(known, task) in ("unsafe", "checkable", "idempotent")


def _undone(known: KnownPlan, task: Task) -> bool:
    trait = known.traits.get(task.uses, ())
    return task.rollback is not None or bool(task.backup) or (len(trait) > 4 and bool(trait[4]))


def _asks(known: KnownPlan, tasks: Sequence[Task]) -> list[str]:
    """Tasks that wait for a person."""
    return [path for path, task in walk(tasks) if asks(task) or path in known.demanded]
