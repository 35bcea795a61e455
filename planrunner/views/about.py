"""What a task says of itself for people: whoever is asked about it reads this first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planrunner.jsontext import as_text
from planrunner.views.terminal import cut, harmless

if TYPE_CHECKING:
    from planrunner.machine.state import State
    from planrunner.plan.model import Task

Json = Any

WORDS = (
    "assumptions",
    "risks",
    "effects",
    "environment",
    "evidence",
    "validation",
    "deadline",
    "status",
    "capabilities",
)
"""Keys of a task in words, in the order in which they are shown."""
_LONG = 300


def about(state: State, number: int) -> dict[str, Json]:
    """Title, description, owner, labels and words of a task, its item where it is one of a fan-out, and what the author
    says about failures; without what the task does not say."""
    task = state.specs[number]
    notes = task.notes if isinstance(task.notes, dict) else {}
    found: dict[str, Json] = {"title": task.title, "description": task.description, "owner": task.owner}
    found |= {"within": _within(state, number), "labels": list(task.labels), "item": _item(state, number)}
    found |= {name: notes[name] for name in WORDS if name in notes}
    found["failure_modes"] = failure_modes(task)
    return {name: value for name, value in found.items() if value not in ("", None, [], {})}


def failure_modes(task: Task) -> list[dict[str, str]]:
    """The failures that the author foresaw: what each is called, how it shows and what to do about it."""
    return [
        {"name": mode.name, "detect": mode.detect.text if mode.detect is not None else "", "recover": mode.recover}
        for mode in task.failure_modes
    ]


def advice(task: Task, failure: str) -> str:
    """What the author says is to be done about a failure of this class; empty where a task does it, or nobody says."""
    for mode in task.failure_modes:
        if mode.name == failure and mode.recover not in {edge.target for edge in task.edges}:
            return mode.recover
    return ""


def about_lines(state: State, number: int) -> list[str]:
    """The same as text, a line for each."""
    told = about(state, number)
    modes = told.pop("failure_modes", [])
    lines = [f"{name}: {_text(value)}" for name, value in told.items()]
    for mode in modes:
        detect = f", when {mode['detect']}" if mode["detect"] else ""
        recover = f": {mode['recover']}" if mode["recover"] else ""
        lines.append(f"may fail with {mode['name']}{detect}{recover}")
    return [harmless(cut(line, _LONG)) for line in lines]


def _text(value: Json) -> str:
    if isinstance(value, list):
        return "; ".join(map(_text, value))
    if isinstance(value, dict):
        return "; ".join(f"{name} {_text(item)}" for name, item in value.items())
    return " ".join(as_text(value, 2000).split())


def _item(state: State, number: int) -> Json:
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        if frame.kind == "items":
            return (
                frame.values[number - frame.first] if frame.first <= number < frame.first + len(frame.values) else None
            )
        number, frame = frame.owner, state.tasks[frame.owner].frame
    return None


def _within(state: State, number: int) -> list[str]:
    """The titles of the tasks around it, the outermost first."""
    titles: list[str] = []
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        around = state.specs[frame.owner]
        if around.title and around.title != state.specs[number].title:
            titles.insert(0, around.title)
        frame = state.tasks[frame.owner].frame
    return titles
