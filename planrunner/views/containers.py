"""Containers (loops, fan-outs, subplans) in a few words: their progress, their rounds, the names of tasks inside
them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.escapes import harmless
from planrunner.jsontext import as_text
from planrunner.machine.events import FrameOpened
from planrunner.machine.names import held_tasks, item_label, local_name
from planrunner.machine.state import State
from planrunner.plan.tasks import tools_of
from planrunner.views.terminal import cut, plural

if TYPE_CHECKING:
    from planrunner.machine.graph import Frame


ITEM = 28
"""Columns that the value of an item takes at most."""


def name_inside(state: State, number: int) -> str:
    """How a task is called below what holds it; an item also by its value: ``[3] docs``, ``[seed=1]`` in a matrix."""
    if values := item_label(state, number):
        return values
    if called := call_text(state, number):
        return called
    frame = state.tasks[number].frame
    name = local_name(state, number)
    if frame.kind == "items" and (value := item_text(frame.values[number - frame.first])):
        return f"{name} {value}"
    return name


CALL = 64
"""Columns of a call that a model asks for."""


def is_of_calls(state: State, number: int) -> bool:
    """Whether a task holds the calls that a model asks for."""
    return bool(tools_of(state.specs[number]))


def call_text(state: State, number: int) -> str:
    """A call that a model asks for: ``files.read path=notes.txt``; empty for any other task."""
    frame = state.tasks[number].frame
    if frame.kind != "items" or not is_of_calls(state, frame.owner):
        return ""
    call = frame.values[number - frame.first]
    given = [f"{name}={as_text(value)}" for name, value in (call.get("arguments") or {}).items()]
    return cut(harmless(" ".join([call["tool"], *given])), CALL)


def item_text(value: object) -> str:
    """An item in a few words: a scalar, or the scalars of a mapping; empty for anything else."""
    if isinstance(value, dict):
        parts = [f"{key}={as_text(part)}" for key, part in value.items() if isinstance(part, (str, int, float))]
        text = " ".join(parts)
    else:
        text = as_text(value) if isinstance(value, (str, int, float)) else ""
    return cut(harmless(text), ITEM)


def around_text(state: State, number: int) -> str:
    """What a task stands in, the outermost first: ``polish (round 2 of 4) > fan (item 3: docs, 1 of 6 failed)``."""
    parts = []
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        name = local_name(state, frame.owner)
        if called := call_text(state, number):
            name = called
        elif frame.kind == "items":
            value = item_text(frame.values[number - frame.first])
            failed = f", {len(frame.failures):,} of {frame.size:,} failed" if frame.failures else ""
            name += f" (item {number - frame.first}{f': {value}' if value else ''}{failed})"
        elif text := round_text(state, frame):
            name += f" ({text})"
        parts.append(name)
        number = frame.owner
        frame = state.tasks[number].frame
    return " > ".join(reversed(parts))


def settled(frame: Frame) -> int:
    """How many tasks of a frame are settled."""
    return frame.size - frame.open - frame.finals_open


def round_text(state: State, frame: Frame) -> str:
    """``round 2 of 5``; empty for any other frame."""
    loop = state.specs[frame.owner].loop
    return f"round {frame.round} of {loop.max}" if frame.kind == "round" and loop is not None else ""


def opened_text(state: State, number: int, event: FrameOpened) -> str:
    """``started: 40 items, 4 at once``, ``round 2 of 5``: what is said when a task begins to hold others. The state may
    be ahead of the event."""
    task = state.specs[number]
    if event.kind == "round":
        return f"round {event.number} of {task.loop.max if task.loop is not None else event.number}"
    if event.kind == "subplan":
        return f"started: {plural(len(held_tasks(state, number)), 'task')}"
    at_once = task.fanout.max_parallel if task.fanout is not None else None
    most = f", {at_once} at once" if at_once and at_once < len(event.values) else ""
    return f"started: {plural(len(event.values), 'item')}{most}"


def progress_text(state: State, frame: Frame, active: int = 0) -> str:
    """``3/40 done, 2 running, 1 failed`` and for a loop ``round 2 of 5, 1/3 done``; costs the same for any size."""
    parts = [round_text(state, frame), f"{settled(frame):,}/{frame.size:,} done"]
    if active:
        parts.append(f"{active:,} running")
    if frame.failures:
        parts.append(f"{len(frame.failures):,} failed")
    if frame.closing:
        parts.append(f"stopping: {frame.closing}")
    return ", ".join(part for part in parts if part)


def active(state: State, frame: Frame) -> int:
    """How many tasks of a frame run, or hold one that does."""
    owners: set[int] = set()
    for number in state.running:
        inner = state.tasks[number].frame
        while inner is not frame and inner.owner >= 0:
            number = inner.owner
            inner = state.tasks[number].frame
        if inner is frame:
            owners.add(number)
    return len(owners)


def end_text(state: State, frame: Frame) -> str:
    """``6 items``, ``6 items, 1 failed``, ``3 rounds``, ``4 tasks``: what a task that is settled has held."""
    if frame.kind == "round":
        loop = state.specs[frame.owner].loop
        most = f" of at most {loop.max}" if loop is not None and loop.max != frame.round else ""
        return plural(frame.round, "round") + most
    text = plural(frame.size, "item" if frame.kind == "items" else "task")
    return f"{text}, {len(frame.failures)} failed" if frame.failures else text
