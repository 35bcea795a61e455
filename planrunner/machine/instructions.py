"""Tasks in plain words, which somebody carries out: what they are told, and what follows from their word."""

from __future__ import annotations

from typing import Any

from planrunner.machine.commands import AskPeople, Command, Record
from planrunner.machine.events import TaskSettled
from planrunner.machine.judge import judge
from planrunner.machine.state import State
from planrunner.plan.model import Task

Json = Any

TEXT = "text"
"""The output, and the field of the form, that says what was done."""


def question(task: Task) -> str:
    """What somebody is asked to do."""
    words = task.command.strip()
    return f"carry this out: {words}" if words else f"carry `{task.id}` out: nothing else says how to do it"


def form(task: Task) -> list[dict[str, Json]]:
    """The fields to be filled: every declared output that nothing else gives, and what was done."""
    asked = [output for output in task.outputs if output.value is None and not output.path and output.name != TEXT]
    found: list[dict[str, Json]] = []
    for output in asked:
        about = {"description": output.description} if output.description else {}
        found.append({"name": output.name, "type": output.type, "required": True, **about})
    return [*found, {"name": TEXT, "type": "string", "default": "", "description": "what was done, else the reason"}]


def results(task: Task, outputs: dict[str, Json]) -> dict[str, Json]:
    """The outputs of a task that was carried out: what was filled in, the text, and the files that it declares."""
    files = {output.name: output.path for output in task.outputs if output.path}
    constants = {output.name: output.value for output in task.outputs if output.value is not None}
    return {**files, **constants, **outputs, TEXT: outputs.get(TEXT) or outputs["reason"]}


def carried_out(state: State, number: int, how: str) -> Command:
    """People approved, or say that it is done: the criteria of the task decide; those in words are asked about."""
    task, found = state.specs[number], state.tasks[number]
    verdict = judge(state, number)
    if verdict.failure:
        return Record(TaskSettled(task.id, "failed", verdict.reason, verdict.detail, verdict.failure))
    if verdict.words and "criteria" not in found.cleared:
        return AskPeople(number, "criteria")
    return Record(TaskSettled(task.id, "completed", "", how))
