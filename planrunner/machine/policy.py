"""What the operator's policy makes of a run: tighter budgets, gates for labels, and the rights of each task.

The levels are recorded with the start of the run, and again when it goes on under another policy: replay needs no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from planrunner.machine.events import PlanRefused, PolicyChanged
from planrunner.machine.scope import plan_of
from planrunner.machine.state import Governed, State
from planrunner.machine.statuses import SETTLED, IllegalMove
from planrunner.plan import compiled
from planrunner.plan.model import Budgets
from planrunner.plan.rights import Level, Right, narrows

Json = Any

STAGE = "policy"
"""The stage of the gate before a task for which a policy says to ask."""


def govern(state: State, recorded: Iterable[Mapping[str, Json]]) -> None:
    """Let the levels of a record hold for the run from now on."""
    written = state.plan if state.governed is None else state.governed.plan
    records = list(recorded)
    limits = [compiled.load(record["limits"]) for record in records if record.get("limits")]
    gated = {label: gate for plan in reversed(limits) for label, gate in plan.gated}
    state.governed = Governed(written, tuple(_level(record) for record in records))
    state.plan = written._replace(
        budgets=tightest([written.budgets, *(plan.budgets for plan in limits)]),
        gated=tuple({**dict(written.gated), **gated}.items()),
    )
    state.limit(state.plan.budgets)
    state.restricted = state.restricted or bool(records)
    if state.ledger is not None:
        state.ledger.scopes.clear()  # what was limited before may be limited more


def _level(record: Mapping[str, Json]) -> Level:
    return Level(record["name"], record["policy"], record.get("file", ""))


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


def plan_refused(state: State, event: PlanRefused, at: float) -> None:
    raise IllegalMove(f"`{event.plan}` was not let start: no run has an event that says so")


def tightest(budgets: Iterable[Budgets]) -> Budgets:
    """Limits of which none is above any of those given; what is said first of a warning and of what follows counts."""
    limits = Budgets()
    for each in budgets:
        known = zip(Budgets._fields, limits, each)
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


def asked(state: State, number: int) -> Right | None:
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
    said = [right for _, right in judged(levels, task, env) if right.verdict == "ask"]
    return said[0] if said else None
