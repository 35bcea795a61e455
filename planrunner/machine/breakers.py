"""Circuit breakers: after so many failures in a row of what they watch nothing more of it starts for a while; then one
attempt is let through, and how that goes decides for the rest. And the breaker of a loop that gets nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from planrunner.machine.circuit import Circuit
from planrunner.machine.commands import Command, Record, Start
from planrunner.machine.events import Outcome, TaskDelayed
from planrunner.machine.frame import Frame
from planrunner.machine.moves import move, set_timer
from planrunner.machine.state import State
from planrunner.plan.model import Breaker

_NO_VERDICT = ("interrupted", "unstarted", "cancelled")


def fits(pattern: str, name: str) -> bool:
    """Whether the name of a capability fits a pattern in which ``*`` stands for anything."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    if not name.startswith(first) or not name.endswith(rest[-1]) or len(name) < len(first) + len(rest[-1]):
        return False
    at, end = len(first), len(name) - len(rest[-1])
    for part in rest[:-1]:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _watching(state: State, number: int) -> Iterator[tuple[Breaker, Circuit]]:
    uses = state.specs[number].uses
    for at, breaker in enumerate(state.plan.breakers):
        if uses and fits(breaker.uses, uses):
            yield breaker, state.circuits.setdefault(at, Circuit())


def attempt_started(state: State, number: int) -> None:
    """An attempt begins: behind an open breaker it is the one that tries."""
    for _, circuit in _watching(state, number):
        circuit.waiting.pop(number, None)
        if circuit.since is not None:
            circuit.trial = number


def attempt_ended(state: State, number: int, outcome: Outcome, at: float) -> None:
    """Count failures in a row; a success closes the circuit."""
    if outcome.failure in _NO_VERDICT:
        return
    for breaker, circuit in _watching(state, number):
        if not outcome.failure:
            circuit.failures, circuit.since = 0, None
            _wake(state, circuit, at)
        else:
            circuit.failures += 1
            if circuit.failures >= breaker.failures and (circuit.since is None or circuit.trial == number):
                circuit.since = at
        if circuit.trial == number:
            circuit.trial = -1


def _wake(state: State, circuit: Circuit, at: float) -> None:
    for number in circuit.waiting:
        if state.tasks[number].status == "pending" and state.tasks[number].reason == "breaker":
            set_timer(state, number, at)
    circuit.waiting.clear()


def held_back(state: State, commands: Sequence[Command], now: float) -> list[Command]:
    """The commands, with a delay in place of each start that an open breaker does not let through."""
    trying: set[int] = set()
    return [
        (_delayed(state, command, now, trying) or command) if isinstance(command, Start) else command
        for command in commands
    ]


def _delayed(state: State, start: Start, now: float, trying: set[int]) -> Record | None:
    if start.reissue:
        return None
    for breaker, circuit in _watching(state, start.number):
        if circuit.since is None:
            continue
        until = circuit.since + breaker.cooldown
        others = id(circuit) in trying or _is_tried(state, circuit)
        if now >= until and not others:
            trying.add(id(circuit))
            continue
        detail = f"`{breaker.uses}` failed {circuit.failures} times in a row"
        detail += ": another task tries first" if now >= until else f": nothing of it starts for {breaker.cooldown:g} s"
        due = until if now < until else now + breaker.cooldown
        return Record(TaskDelayed(state.specs[start.number].id, due, breaker.uses, detail))
    return None


def _is_tried(state: State, circuit: Circuit) -> bool:
    if circuit.trial < 0:
        return False
    found = state.tasks[circuit.trial]
    return found.status == "running" and found.outcome is None


def task_delayed(state: State, event: TaskDelayed, at: float) -> None:
    number = state.index[event.task]
    found, task = state.tasks[number], state.specs[number]
    if found.status == "queued":
        state.queue.remove(state.limited_labels(task), task.priority, number)
        move(state, number, found, "pending")
    found.reason, found.detail = "breaker" if event.breaker else "delay", event.detail
    state.candidates.pop(number, None)
    set_timer(state, number, event.due)
    for breaker, circuit in _watching(state, number):
        if breaker.uses == event.breaker:
            circuit.waiting[number] = None


# Loops


def signature(state: State, frame: Frame) -> tuple[tuple[str, str, str], ...]:
    """How a round failed: what failed, in which class and why; empty for one that went well."""
    names = {number: name for name, number in frame.index.items()}
    return tuple((names[at], state.tasks[at].failure, state.tasks[at].detail) for at in frame.failures)


def follow(state: State, before: Frame, frame: Frame, carries: bool) -> None:
    """Tell a new round how many before it, in a row, changed nothing that is carried, and how many failed alike."""
    frame.sign = signature(state, before)
    frame.alike = alike(state, before)
    frame.same = before.same + 1 if carries and frame.values == before.values else 0


def alike(state: State, frame: Frame) -> int:
    """Rounds in a row that failed alike, this one included."""
    sign = signature(state, frame)
    if not sign:
        return 0
    return frame.alike + 1 if sign == frame.sign else 1


FOLDS: dict[type, Callable[[State, Any, float], None]] = {TaskDelayed: task_delayed}
