"""What a task that has not begun waits for, and what it begins with: needs, edges, conditions, gates, a slot."""

from __future__ import annotations

from planrunner.machine import concluding, conditions
from planrunner.machine.commands import AskPeople, Command, Record, Start, settle
from planrunner.machine.computed import compute, is_open
from planrunner.machine.containers import begin, undone_first
from planrunner.machine.endings import not_run
from planrunner.machine.events import TaskDelayed, TaskQueued, TaskSettled
from planrunner.machine.fitting import Fitting
from planrunner.machine.frame import Frame
from planrunner.machine.freshness import before
from planrunner.machine.gates import stage_before, step
from planrunner.machine.joins import Verdict, needs_verdict
from planrunner.machine.keeping import compared, is_still_approved
from planrunner.machine.moves import main_part_done
from planrunner.machine.omission import omit
from planrunner.machine.recovery import reissue
from planrunner.machine.rollback import comes_first
from planrunner.machine.routes import routes_verdict
from planrunner.machine.state import State
from planrunner.machine.statuses import FINAL_STOPS
from planrunner.machine.stops import cut, outlives, stop_detail, stopped, task_deadline, task_deadline_text

_new = tuple.__new__

INSTRUCTION = "instruction"
"""The stage of the gate at which a task in plain words waits for whoever carries it out."""


def before_attempt(state: State, number: int, now: float, ready: list[int]) -> Command | None:
    task = state.specs[number]
    found = state.tasks[number]
    if state.stop_reason and not outlives(state, number):
        return stopped(state, task)
    frame = found.frame
    if state.endings and (command := _ended(state, number)) is not None:
        return command
    if found.gate is not None and not found.gate.is_behind:
        return at_gate(state, number, now)
    if task.finally_ and (not main_part_done(state, frame) or _undoes_first(state, frame)):
        return None
    if task.concluding:
        goes_on, command = concluding.first(state, number)
        if not goes_on:
            return command
    if found.due is not None:
        if found.due <= now:
            return _conditions(state, number, now, ready) if found.reason == "delay" else _begin(state, number, ready)
        failing = cut(state, number)
        return None if failing is None else settle(task, "cancelled", "stopped", stop_detail(state, failing))
    verdict, why = needs_verdict(state, number)
    needs: Verdict = verdict
    edges: Verdict = "met"
    if verdict != "failed" and number in state.shape.routes_in:
        edges, why_edges = routes_verdict(state, number)
        if edges != "met" and verdict != "unmet":
            verdict, why = edges, why_edges
    if verdict == "unmet":
        return omit(state, number, needs, edges, why)
    if verdict == "failed":
        return settle(task, "failed", "join", why, "logic")
    if verdict == "waiting":
        return None
    if state.failing and (failing := cut(state, number)) is not None:
        return settle(task, "cancelled", "stopped", stop_detail(state, failing))
    if frame.limit and number >= frame.limit:
        return None
    if (task.due is not None or task.due_in is not None) and (task_deadline(state, task) or 0.0) <= now:
        return Record(TaskSettled(task.id, "failed", "deadline", task_deadline_text(task), "timeout"))
    return _conditions(state, number, now, ready)


def _undoes_first(state: State, frame: Frame) -> bool:
    if frame.linked is not None:
        return undone_first(state, frame)
    if frame is not state.top or (state.debts is None and state.plan.on_failure != "rollback"):
        return False
    return comes_first(state)


def at_gate(state: State, number: int, now: float) -> Command | None:
    """A task that asks people, or has their answer. Where its level fails, only work that is done still asks."""
    gate = state.tasks[number].gate
    assert gate is not None
    if state.failing and gate.stage != "criteria" and not gate.decision and (failing := cut(state, number)) is not None:
        return settle(state.specs[number], "cancelled", "stopped", stop_detail(state, failing))
    return step(state, number, now)


def _ended(state: State, number: int) -> Command | None:
    return not_run(state, number)


def while_queued(state: State, number: int) -> Command | None:
    task = state.specs[number]
    if state.endings and (command := _ended(state, number)) is not None:
        return command
    if state.stop_reason and not outlives(state, number):
        return stopped(state, task)
    if state.failing and (failing := cut(state, number)) is not None:
        return settle(task, "cancelled", "stopped", stop_detail(state, failing))
    return None


def _conditions(state: State, number: int, now: float, ready: list[int]) -> Command | None:
    """Needs and edges allow the task: ``when``, preconditions and what kind of work it is decide."""
    task = state.specs[number]
    found = state.tasks[number]
    if task.when is not None or task.preconditions:
        goes_on, command = conditions.first(state, number)
        if not goes_on:
            return command
    if task.gate is not None or state.restricted or (task.labels and (state.plan.gated or found.frame.owner >= 0)):
        if task.gate is not None and found.kept is not None and is_still_approved(state, number):
            return settle(task, "completed", "reused", "kept: it asks what it asked, and nothing before it changed")
        if stage := stage_before(state, number):
            return AskPeople(number, stage)
    if not task.uses and number not in state.holders and task.gate is None:
        return AskPeople(number, INSTRUCTION)
    if found.status == "blocked" and found.reason != "budget":
        return None
    if task.computed and (command := _settings(state, number)) is not None:
        return command
    if task.delay is not None and found.due is None and found.attempts == found.past:
        detail = "its `delay` before it starts"
        return Record(TaskDelayed(task.id, now + task.delay, detail=detail))
    return _begin(state, number, ready)


def _begin(state: State, number: int, ready: list[int]) -> Command | None:
    """A task that holds others begins at once; any other waits for a slot."""
    if state.specs[number].computed and (command := _settings(state, number)) is not None:
        return command
    if state.specs[number].fresh is not None:
        if number in state.asked:
            return None
        if command := before(state, number):
            return command
    if number in state.holders:
        return begin(state, number)
    if state.tasks[number].kept is not None and (command := compared(state, number)):
        return command
    ready.append(number)
    return None


def _settings(state: State, number: int) -> Command | None:
    """The settings that the plan computes, which come before anything that goes by them."""
    return compute(state, number) if is_open(state, number) else None


def admit(state: State, ready: list[int], commands: list[Command], fitting: Fitting | None = None) -> None:
    """Give slots to the best of those that became ready and those that wait; the rest of the former queue up."""
    tasks = state.specs
    slow: list[tuple[int, int]] = []
    waiting: list[tuple[int, int]] = []
    for number in ready:
        if not state.trait(tasks[number]).instant:
            slow.append((-tasks[number].priority, number))
        elif fitting is None or fitting.take(number):
            commands.append(_start(state, number, fitting))
        else:
            waiting.append((-tasks[number].priority, number))
    free = state.max_parallel - state.slots
    chosen = _choose(state, slow, free, fitting) if free > 0 and (slow or state.queue.lines) else []
    if chosen and state.queue.lines:  # one that waits may be settled by this very decision
        over = {
            each.event.task for each in commands if isinstance(each, Record) and isinstance(each.event, TaskSettled)
        }
        chosen = [number for number in chosen if tasks[number].id not in over]
    commands.extend(_start(state, number, fitting) for number in chosen)
    if slow or waiting:
        started = set(chosen)
        commands.extend(
            Record(TaskQueued(tasks[number].id)) for _, number in sorted(slow + waiting) if number not in started
        )


def _start(state: State, number: int, fitting: Fitting | None) -> Start:
    """The next attempt, or the same one again where a doubt was settled that way."""
    found = state.tasks[number]
    if found.uncertain:
        return reissue(state, number)
    if fitting is None:
        return _new(Start, (number, found.attempts + 1, 0, {}, False))
    return Start(number, found.attempts + 1, 0, *fitting.chosen(number))


def _choose(state: State, fresh: list[tuple[int, int]], free: int, fitting: Fitting | None) -> list[int]:
    """The tasks that start now, best first, as slots, label limits and budgets allow."""
    if state.stop_reason and state.stop_reason not in FINAL_STOPS:
        return []
    if fitting is None and not (state.queue.lines or state.limits) and len(fresh) <= free:
        return [number for _, number in sorted(fresh)]
    room = {label: limit - state.labels_running.get(label, 0) for label, limit in state.limits.items()}
    most = free if fitting is None else free + fitting.PATIENCE
    lines: dict[tuple[str, ...], list[tuple[int, int]]] = {
        labels: [(-priority, -minus) for priority, minus in line[-most:]] for labels, line in state.queue.lines.items()
    }
    for entry in fresh:
        lines.setdefault(state.limited_labels(state.specs[entry[1]]), []).append(entry)
    for line in lines.values():
        line.sort(reverse=True)
    chosen: list[int] = []
    while len(chosen) < free:
        allowed = [labels for labels, line in lines.items() if line and all(room[label] > 0 for label in labels)]
        if not allowed or (fitting is not None and fitting.misfits > fitting.PATIENCE):
            break
        labels = min(allowed, key=lambda key: lines[key][-1])
        number = lines[labels].pop()[1]
        if fitting is not None and not fitting.take(number):
            continue
        chosen.append(number)
        for label in labels:
            room[label] -= 1
    return chosen
