"""Looking after attempts that go on for long: timeboxes and the steps of watchdogs.

Alarms follow from the entries of the run alone, so they survive whoever acts on it: a timebox counts from the first
start of the task and goes on while nobody acts on the run, a watchdog counts from the start of the attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.machine.alarms import DEADLINE, TIMEBOX, Alarms
from planrunner.machine.commands import Command, Record
from planrunner.machine.events import AttemptStopping, FrameClosing, TaskSettled, Warned
from planrunner.machine.state import State
from planrunner.machine.statuses import FINAL_STOPS, said
from planrunner.machine.stops import task_deadline, task_deadline_text
from planrunner.plan.expressions.quantities import format_duration
from planrunner.plan.model import Task

REQUEST = "request"
"""Why an attempt ends that somebody called off."""


# Folds


def armed(state: State, number: int, at: float) -> None:
    """An attempt of a task with a timebox or a watchdog begins."""
    alarms = state.alarms = state.alarms or Alarms()
    task, found = state.specs[number], state.tasks[number]
    alarms.drop(number)
    if task.timebox is not None:
        visit, begun = alarms.begun.get(number, (0, at))
        if visit != found.visit:
            begun = at
            alarms.begun[number] = (found.visit, begun)
        alarms.set(begun + task.timebox, number, TIMEBOX)
    deadline = task_deadline(state, task)
    if deadline is not None:
        alarms.set(deadline, number, DEADLINE)
    for step, watch in enumerate(task.watchdog):
        alarms.set(at + watch.after, number, step)


def attempt_over(state: State, number: int) -> None:
    """The watchdog has nothing to look at any more; the timebox goes on over the waits between attempts."""
    alarms = state.alarms
    assert alarms is not None
    alarms.stopping.pop(number, None)
    alarms.asked.pop(number, None)
    for step in range(len(state.specs[number].watchdog)):
        alarms.drop(number, step)


def task_over(state: State, number: int) -> None:
    """The task is settled, or waits for people: no time is taken from it any more."""
    alarms = state.alarms
    assert alarms is not None
    alarms.drop(number)
    alarms.stopping.pop(number, None)
    alarms.asked.pop(number, None)


def warned(state: State, event: Warned, at: float) -> None:
    number, alarms = state.index[event.task], state.alarms
    assert alarms is not None
    for step, watch in enumerate(state.specs[number].watchdog):
        if watch == (event.after, event.do):
            alarms.drop(number, step)
    if event.do == "ask":
        alarms.asked[number] = (event.after, at)
        state.tasks[number].detail = f"somebody should look: it still runs after {format_duration(event.after)}"


def stopping(state: State, event: AttemptStopping, at: float) -> None:
    number, alarms = state.index[event.task], state.alarms or Alarms()
    state.alarms = alarms
    alarms.drop(number)
    alarms.asked.pop(number, None)
    alarms.stopping[number] = (event.failure, event.detail)


FOLDS: dict[type, Callable[[State, Any, float], None]] = {Warned: warned, AttemptStopping: stopping}


# Decisions


def ring(state: State, now: float) -> list[Command]:
    """What follows from the alarms that are due."""
    assert state.alarms is not None
    found: list[Command] = []
    seen: set[int] = set()
    for _, number, step in state.alarms.before(now):
        if number not in seen and (command := _answer(state, number, step)) is not None:
            seen.add(number)
            found.append(command)
    return found


def next_alarm(state: State) -> float | None:
    """When the first alarm from which anything follows is due."""
    assert state.alarms is not None
    return next((at for at, number, step in state.alarms.due if _answer(state, number, step) is not None), None)


def _answer(state: State, number: int, step: int) -> Command | None:
    task, found = state.specs[number], state.tasks[number]
    if step in (TIMEBOX, DEADLINE):
        reason, detail = "timebox", f"its timebox of {format_duration(task.timebox or 0.0)} is over"
        if step == DEADLINE:
            reason, detail = "deadline", task_deadline_text(task)
        if found.status in ("pending", "queued"):
            return Record(TaskSettled(task.id, "failed", reason, detail, "timeout"))
        if number in state.holders:
            return None if found.inner is None or found.inner.closing else Record(FrameClosing(task.id, "timeout"))
        return _end(state, number, "timeout", reason, detail)
    watch = task.watchdog[step]
    if watch.do in ("warn", "ask"):
        return Record(Warned(task.id, found.attempts, watch.after, watch.do)) if _acts(state, number) else None
    failure = "cancelled" if watch.do == "cancel" else "timeout"
    detail = f"its watchdog stopped it: it still ran after {format_duration(watch.after)}"
    return _end(state, number, failure, "watchdog", detail)


def _end(state: State, number: int, failure: str, reason: str, detail: str) -> Command | None:
    if not _acts(state, number):
        return None
    return Record(AttemptStopping(state.specs[number].id, state.tasks[number].attempts, failure, reason, detail))


def _acts(state: State, number: int) -> bool:
    """Whether an attempt is under way that somebody looks after: not while everything is being stopped anyway."""
    found = state.tasks[number]
    if state.stop_reason in ("interrupted", "terminated", "storage", "killed"):
        return False
    return found.status == "running" and found.outcome is None and not found.uncertain


def called_off(state: State, name: str, by: str, why: str) -> AttemptStopping | TaskSettled | str:
    """The event that stops one attempt, or abandons a task that waits for people, on request; or why neither is
    possible."""
    number = state.index.get(name)
    if number is None:
        return f"the run has no task `{name}`"
    if number in state.holders:
        return f"`{name}` holds others: name one of those that run inside it"
    detail = f"by {by}" + (f": {why}" if why else "")
    if state.tasks[number].status == "blocked" and state.stop_reason not in FINAL_STOPS:
        return TaskSettled(name, "abandoned", REQUEST, detail)
    if state.status != "running" or not _acts(state, number):
        return f"`{name}` does not run: it {said(state.tasks[number].status)}"
    return AttemptStopping(name, state.tasks[number].attempts, "cancelled", REQUEST, detail)


def no_room(task: Task, why: str) -> str:
    """Why a task fails that would have been tried again: the sentence for people."""
    return f"its timebox of {format_duration(task.timebox or 0.0)} leaves no room for another attempt after: {why}"


def time_left(state: State, task: Task, due: float) -> bool:
    """Whether an attempt at ``due`` still lies in the timebox of its task."""
    number = state.index[task.id]
    if task.timebox is None or state.alarms is None or number not in state.alarms.begun:
        return True
    return due < state.alarms.begun[number][1] + task.timebox
