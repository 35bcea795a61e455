"""A dry run: the same loop over a journal in memory and a world in which everything goes well."""

from __future__ import annotations

from typing import Any

from planrunner.capabilities.contract import Call
from planrunner.engine.imagined import ImaginedEffects, Script
from planrunner.machine.events import Outcome
from planrunner.plan.model import Gate, Output, Plan, Task

Json = Any

TRAIT = ["pure", True, False]


def assumed(plan: Plan) -> Plan:
    """The plan as a dry run walks it: criteria and preconditions are taken to hold, and what waits for a person is
    taken to be done, since an imagined world has neither measurements nor people."""
    return plan._replace(tasks=tuple(_assumed_task(task) for task in plan.tasks), gated=())


def _assumed_task(task: Task) -> Task:
    calm = task._replace(expect=(), preconditions=(), postconditions=(), failure_modes=(), timeout=None)
    if task.gate is not None:
        return calm._replace(gate=None, uses="noop", run=None, inputs=None, outputs=_answers(task.gate, task.outputs))
    if task.subplan or task.loop is not None or task.sub is not None:
        return _assumed_inside(calm)
    return calm if task.uses else calm._replace(uses="noop", run=None, inputs=None)


def _assumed_inside(task: Task) -> Task:
    loop = task.loop
    return task._replace(
        subplan=tuple(map(_assumed_task, task.subplan)),
        loop=None if loop is None else loop._replace(tasks=tuple(map(_assumed_task, loop.tasks))),
        sub=None if task.sub is None else assumed(task.sub),
    )


def _answers(gate: Gate, declared: tuple[Output, ...]) -> tuple[Output, ...]:
    """A gate is taken to be approved: the first option is chosen and the form is filled with defaults."""
    values: dict[str, Json] = {"decision": "approved", "by": "assumed", "reason": "", "comment": ""}
    if gate.options:
        values["choice"] = gate.options[0].name
    for field in gate.form:
        example = field.choices[0] if field.choices else _PLACEHOLDERS.get(field.type, f"<{field.name}>")
        values[field.name] = example if field.default is None else field.default
    return (*declared, *(Output(name, value=value) for name, value in values.items()))


def imagined_effects(now: float) -> ImaginedEffects:
    """Effects that only remember what would have been called."""
    return ImaginedEffects(Script(_outcome, lambda names: {}), now)


def _outcome(call: Call) -> Outcome:
    outputs = {output.name: _placeholder(call.task, output) for output in call.task.outputs}
    if call.task.uses == "noop":
        outputs["value"] = (call.inputs or {}).get("value")
    return Outcome(outputs=outputs, exit_code=0 if call.task.uses == "shell" else None)


def _placeholder(task: Task, output: Output) -> Json:
    return _PLACEHOLDERS.get(output.type, f"<{task.id}.{output.name}>")


_PLACEHOLDERS: dict[str, Json] = {
    "int": 0, "number": 0, "bool": True, "duration": 0, "size": 0, "money": 0,
    "list": [], "map": {},
}
