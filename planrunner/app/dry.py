"""A dry run: the same loop over a journal in memory and a world in which everything goes well."""

from __future__ import annotations

from typing import Any

from planrunner.capabilities.contract import Call
from planrunner.engine.imagined import ImaginedEffects, Script
from planrunner.machine.events import Outcome
from planrunner.plan.model import Output, Plan, Task

Json = Any

TRAIT = ["pure", True, False]


def assumed(plan: Plan) -> Plan:
    """The plan as a dry run walks it: criteria and preconditions are taken to hold, and what waits for a person is
    taken to be done, since an imagined world has neither measurements nor people."""
    return plan._replace(tasks=tuple(_assumed_task(task) for task in plan.tasks))


def _assumed_task(task: Task) -> Task:
    calm = task._replace(expect=(), preconditions=(), postconditions=(), failure_modes=(), timeout=None)
    return calm if task.uses and task.gate is None else calm._replace(gate=None, uses="noop", run=None, inputs=None)


def imagined_effects(now: float) -> ImaginedEffects:
    """Effects that only remember what would have been called."""
    return ImaginedEffects(Script(_outcome, lambda names: {}), now)


def _outcome(call: Call) -> Outcome:
    outputs = {output.name: _placeholder(call.task, output) for output in call.task.outputs}
    if call.task.uses == "noop":
        outputs["value"] = (call.inputs or {}).get("value")
    return Outcome(outputs=outputs, exit_code=0 if call.task.uses == "shell" else None)


def _placeholder(task: Task, output: Output) -> Json:
    values: dict[str, Json] = {
        "int": 0,
        "number": 0,
        "bool": True,
        "duration": 0,
        "size": 0,
        "money": 0,
        "list": [],
        "map": {},
    }
    return values.get(output.type, f"<{task.id}.{output.name}>")
