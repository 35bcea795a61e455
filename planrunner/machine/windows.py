"""Review windows: gates of one name that are shown and approved together once all that can be reached wait."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from planrunner.machine.gates import spec
from planrunner.machine.names import owners, written_of
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED
from planrunner.plan.model import Gate, Task
from planrunner.plan.tasks import comes_last, every
from planrunner.records import Struct


class Window(Struct):
    """The gates of a window by number: ``waiting`` for people; and the tasks ``coming``, whose gates the run reaches
    without them."""

    name: str
    waiting: tuple[int, ...]
    coming: tuple[str, ...]


def windows(state: State, waiting: list[int]) -> dict[str, Window]:
    """The windows with gates among the ``waiting`` ones, in their order."""
    by_name: dict[str, list[int]] = {}
    for number in waiting:
        if name := window_of(state, number):
            by_name.setdefault(name, []).append(number)
    if not by_name:
        return {}
    blocked = {number for number, task in enumerate(state.tasks) if task.status == "blocked"}
    blocked |= {owner for number in blocked for owner in owners(state, number)}
    return {
        name: Window(name, tuple(numbers), tuple(_coming(state, name, blocked))) for name, numbers in by_name.items()
    }


def window_of(state: State, number: int) -> str:
    """The window of the gate that a task waits at; empty for a gate that is reviewed alone."""
    gate = state.tasks[number].gate
    return spec(state, number, gate.stage).window if gate is not None else ""


def shown(state: State, window: Window) -> str:
    """The digest of everything that a window shows: another gate, or another sight of one, gives another."""
    gates = [(state.specs[number].id, state.tasks[number].gate) for number in window.waiting]
    seen = "".join(f"{name}\0{gate.shown}\0" for name, gate in gates if gate is not None)
    return sha256(seen.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _coming(state: State, name: str, blocked: set[int]) -> Iterator[str]:
    """Tasks with a gate of the window ahead of them that no person's answer comes before."""
    for number, task_state in enumerate(state.tasks):
        if task_state.status in SETTLED or number in blocked:
            continue
        if _has_gate(state, number, name) and not _waits_for_people(state, number, blocked):
            yield written_of(state.specs[number].id)


def _has_gate(state: State, number: int, name: str) -> bool:
    """Whether a gate of the window is ahead of a task, or of what it has not opened yet."""
    task = state.specs[number]
    item = state.containers.get(number)
    inside: tuple[Task, ...] = () if state.tasks[number].inner is not None else (item if item is not None else task,)
    cleared = state.tasks[number].cleared
    labels = dict(state.plan.gated)
    own = _gates(task, labels)
    if any(gate.window == name and stage not in cleared for stage, gate in own):
        return True
    return any(gate.window == name for each in every(inside) for _, gate in _gates(each, labels))


def _gates(task: Task, labels: dict[str, Gate]) -> Iterator[tuple[str, Gate]]:
    """The gates of a task by their stages: its own, and those that its labels demand."""
    if task.gate is not None:
        yield "gate", task.gate
    for label in task.labels if labels else ():
        if label in labels and task.fanout is None:
            yield f"label:{label}", labels[label]


def _waits_for_people(state: State, number: int, blocked: set[int]) -> bool:
    """Whether something before a task, or before what holds it, waits for people; or its level has failed."""
    todo, known = [number, *owners(state, number)], set[int]()
    while todo:
        at = todo.pop()
        if at in known:
            continue
        known.add(at)
        if state.tasks[at].frame.failing or _is_behind_all(state, at, blocked):
            return True
        before = (*state.shape.needs[at], *(route.source for route in state.shape.routes_in.get(at, ())))
        if any(other in blocked for other in before):
            return True
        todo += [other for other in before if state.tasks[other].status not in SETTLED]
    return False


def _is_behind_all(state: State, number: int, blocked: set[int]) -> bool:
    """Whether a task follows a blocked one of its level without needing it: under ``finally``, or as an item that
    begins when an earlier one has ended."""
    frame = state.tasks[number].frame
    if not (comes_last(state.specs[number]) or 0 < frame.limit <= number or number in state.turns):
        return False
    return any(frame.first <= other < frame.first + frame.size for other in blocked)
