"""Time limits of tasks: timeboxes, deadlines and watchdogs, and the time of those that hold others, which stands still
while it waits for people."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from planrunner.machine.commands import Command, Record
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    AttemptStopping,
    Event,
    FactsObserved,
    FactsRequested,
    FrameClosing,
    FrameOpened,
    GateDecided,
    GateExamined,
    GateOpened,
    GateReopened,
    GateRequested,
    GateVoted,
    PeopleAwaited,
    RetryScheduled,
    RunEnded,
    RunParked,
    RunResumed,
    SettingsComputed,
    TaskDelayed,
    TaskQueued,
    TaskSettled,
    Warned,
)
from planrunner.machine.graph import Frame
from planrunner.machine.names import is_within
from planrunner.machine.state import State
from planrunner.machine.stops import is_under_way, task_deadline, task_deadline_text
from planrunner.machine.timers import DEADLINE, LOOK, TIMEBOX, Alarms, TimeMeter, Timer
from planrunner.plan.expressions.quantities import format_duration
from planrunner.plan.model import Task

# Alarms: timeboxes, deadlines and watchdogs


def attempt_started(state: State, event: AttemptStarted, at: float) -> None:
    """An attempt of a task with a timebox, a deadline or a watchdog begins."""
    number = state.index[event.task]
    task, task_state, wheel = state.specs[number], state.tasks[number], state.wheel
    if task.timebox is None and not task.watchdog and task.due is None and task.due_in is None:
        return
    alarms = state.alarms = state.alarms or Alarms()
    wheel.drop_alarms(number)
    if task.timebox is not None:
        visit, begun = alarms.begun.get(number, (0, at))
        if visit != task_state.visit:
            begun = at
            alarms.begun[number] = (task_state.visit, begun)
        wheel.set(begun + task.timebox, number, TIMEBOX)
    deadline = task_deadline(state, task)
    if deadline is not None:
        wheel.set(deadline, number, DEADLINE)
    for step, watch in enumerate(task.watchdog):
        wheel.set(at + watch.after, number, step)


def timebox_put_off(state: State, number: int, seconds: float) -> None:
    """Of a task that holds others, some seconds do not count for its timebox."""
    if state.alarms is None or number not in state.alarms.begun:
        return
    visit, begun = state.alarms.begun[number]
    state.alarms.begun[number] = (visit, begun + seconds)
    state.wheel.set(begun + seconds + (state.specs[number].timebox or 0.0), number, TIMEBOX)


def attempt_ended(state: State, event: AttemptEnded, at: float) -> None:
    """The watchdog has nothing to look at any more; the timebox goes on over the waits between attempts."""
    alarms, number = state.alarms, state.index[event.task]
    if alarms is None:
        return
    alarms.stopping.pop(number, None)
    alarms.asked.pop(number, None)
    for step in range(len(state.specs[number].watchdog)):
        state.wheel.drop(number, step)


def task_settled(state: State, event: TaskSettled, at: float) -> None:
    """The task is settled, or waits for people: no time is taken from it any more."""
    drop_alarms(state, state.index[event.task])


def drop_alarms(state: State, number: int) -> None:
    """Nothing stops a task any more when its time is over."""
    alarms = state.alarms
    if alarms is None:
        return
    state.wheel.drop_alarms(number)
    alarms.stopping.pop(number, None)
    alarms.asked.pop(number, None)


def warned(state: State, event: Warned, at: float) -> None:
    number, alarms = state.index[event.task], state.alarms
    assert alarms is not None
    for step, watch in enumerate(state.specs[number].watchdog):
        if (watch.after, watch.do) == (event.after, event.do):
            state.wheel.drop(number, step)
    if event.do == "ask":
        alarms.asked[number] = (event.after, at)
        state.tasks[number].detail = f"needs attention: it still runs after {format_duration(event.after)}"


def attempt_stopping(state: State, event: AttemptStopping, at: float) -> None:
    state.use("alarms")
    number, alarms = state.index[event.task], state.alarms or Alarms()
    state.alarms = alarms
    state.wheel.drop_alarms(number)
    alarms.asked.pop(number, None)
    alarms.stopping[number] = (event.failure, event.detail)


def ring(state: State, due: list[Timer]) -> list[Command]:
    """What follows from the alarms among the timers that are due."""
    commands: dict[int, Command] = {}
    for _, number, kind in sorted((at, number, kind) for at, kind, number in due if kind != LOOK):
        if number not in commands and (command := alarm(state, number, kind)) is not None:
            commands[number] = command
    return list(commands.values())


def alarm(state: State, number: int, kind: int) -> Command | None:
    """What follows when a timebox, a deadline or a step of a watchdog is due; None where nothing does."""
    task, task_state = state.specs[number], state.tasks[number]
    if kind in (TIMEBOX, DEADLINE):
        reason, detail = "timebox", f"its timebox of {format_duration(task.timebox or 0.0)} is over"
        if kind == DEADLINE:
            reason, detail = "deadline", task_deadline_text(task)
        if task_state.status in ("pending", "queued"):
            return Record(TaskSettled(task.id, "failed", reason, detail, "timeout"))
        if number in state.containers:
            if task_state.inner is None or task_state.inner.closing:
                return None
            return Record(FrameClosing(task.id, "timeout", detail))
        return _end(state, number, "timeout", reason, detail)
    watch = task.watchdog[kind]
    if watch.do in ("warn", "ask"):
        return (
            Record(Warned(task.id, task_state.attempts, watch.after, watch.do)) if is_under_way(state, number) else None
        )
    failure = "cancelled" if watch.do == "cancel" else "timeout"
    detail = f"its watchdog stopped it: it still ran after {format_duration(watch.after)}"
    return _end(state, number, failure, "watchdog", detail)


def _end(state: State, number: int, failure: str, reason: str, detail: str) -> Command | None:
    if not is_under_way(state, number):
        return None
    return Record(AttemptStopping(state.specs[number].id, state.tasks[number].attempts, failure, reason, detail))


def no_room(task: Task, why: str) -> str:
    """Why a task fails that would have been tried again: the sentence for people."""
    return f"its timebox of {format_duration(task.timebox or 0.0)} leaves no room for another attempt after: {why}"


def time_left(state: State, task: Task, due: float) -> bool:
    """Whether an attempt at ``due`` still lies in the timebox of its task."""
    number = state.index[task.id]
    if task.timebox is None or state.alarms is None or number not in state.alarms.begun:
        return True
    return due < state.alarms.begun[number][1] + task.timebox


# Meters: the time of tasks that hold others


def limit_time(state: State, number: int, at: float) -> None:
    """A container begins at ``at``: look at it when the time of this attempt is over. A ``deadline`` is for all that
    passes; ``timeout``, ``timebox`` and ``budgets.time`` are for the time in which something moves.
    The limits of a fan-out's items are their own."""
    task = state.specs[number]
    line: list[float | None] = []
    moving = [task.budgets.time]
    if task.timebox is not None:
        moving.append(math.inf)  # the alarm of the timebox is put off while the meter is paused
    if task.fanout is None:
        moving.append(task.timeout)
        if task.sub is not None:
            line.append(task.sub.deadline)
            moving.append(task.sub.budgets.time)
    ends = min((at + limit for limit in line if limit is not None), default=None)
    limit = min((limit for limit in moving if limit is not None), default=None)
    if task.sub is not None and task.sub.due is not None:
        ends = task.sub.due if ends is None else min(ends, task.sub.due)
    if limit is not None:
        meter_started(state, number, at, limit, ends)
    elif ends is not None:
        state.wheel.set(ends, number)


def meter_started(state: State, number: int, at: float, limit: float, due: float | None) -> None:
    """A task with ``limit`` seconds begins."""
    state.use("meters")
    state.meters[number] = TimeMeter(limit, at, due)
    _set_meter(state, number)


def _set_meter(state: State, number: int) -> None:
    """Look at the task when the first of its limits is reached."""
    meter = state.meters[number]
    ends = meter.due
    if meter.since is not None:
        used_up = meter.since + meter.left
        ends = used_up if ends is None else min(ends, used_up)
    if ends is None or ends == math.inf:
        state.wheel.drop(number)
    else:
        state.wheel.set(ends, number)


def _pause_meter(state: State, number: int, at: float) -> None:
    meter = state.meters[number]
    if meter.since is not None:
        meter.left -= at - meter.since
        meter.since, meter.paused = None, at
        state.wheel.drop(number, TIMEBOX)
        _set_meter(state, number)


def _meter_goes_on(state: State, number: int, at: float, idle: float = 0.0) -> None:
    """The time counts again from ``at`` on; of a meter that was not paused, the last ``idle`` seconds did not count."""
    meter = state.meters[number]
    put_off = idle if meter.since is not None else at - meter.paused
    meter.since = at if meter.since is None else meter.since + idle
    _set_meter(state, number)
    timebox_put_off(state, number, put_off)


def meters_run(state: State, number: int, at: float) -> None:
    """Something begins, or a person has decided: the time of the run and of all that is around it counts again."""
    if state.active_since is None:
        state.active_since = at
    while number >= 0 and state.meters:
        meter = state.meters.get(number)
        if meter is not None and meter.since is None:
            _meter_goes_on(state, number, at)
        number = state.tasks[number].frame.owner


def something_began(state: State, event: AttemptStarted, at: float) -> None:
    if state.meters or state.active_since is None:
        meters_run(state, state.index[event.task], at)


def run_rested(state: State, event: RunParked | RunEnded, at: float) -> None:
    meters_paused(state, at)


def meters_paused(state: State, at: float) -> None:
    """No process acts on the run any more."""
    for number in state.meters:
        _pause_meter(state, number, at)


def run_resumed(state: State, event: RunResumed, at: float) -> None:
    """A process acts on the run again; of a runner that was killed the seconds since its last entry do not count."""
    for number in state.meters:
        _meter_goes_on(state, number, at, event.idle)


def people_awaited(state: State, event: PeopleAwaited, at: float) -> None:
    state.use("meters")
    if event.task:
        _pause_meter(state, state.index[event.task], at)
    elif state.active_since is not None:
        state.active += at - state.active_since
        state.active_since = None


def stir(state: State, event: Event, at: float) -> None:
    """Note inside which tasks an event may have changed whom their time waits for."""
    if not state.meters:
        return
    if type(event) in _OF_ONE_TASK:
        state.stirred.add(state.index[event.task])  # type: ignore[union-attr]
    elif type(event) is not PeopleAwaited:
        state.stirred = set(state.meters)


_OF_ONE_TASK = frozenset(
    {AttemptStarted, AttemptEnded, TaskSettled, TaskQueued, TaskDelayed, RetryScheduled, FrameOpened}
    | {SettingsComputed, FactsRequested, FactsObserved}
    | {GateRequested, GateExamined, GateOpened, GateReopened, GateVoted, GateDecided}
)
"""Events that change nothing but the task that they name, and those around it."""


def pause_meters(state: State) -> list[Command]:
    """The tasks inside which only people can move anything from now on. Only those are looked at inside which something
    has changed since the last look (``stirred``)."""
    if not state.stirred or not (state.counts.get("blocked") or state.counts.get("in_doubt")):
        return []
    looked_at: set[int] = set()
    waiting: set[int] = set()
    for number in state.stirred:
        while number >= 0 and number not in looked_at:
            looked_at.add(number)
            meter = state.meters.get(number)
            if meter is not None and meter.since is not None and _waits_for_people(state, number):
                waiting.add(number)
            number = state.tasks[number].frame.owner
    ordered = [number for number in state.meters if number in waiting] if len(waiting) > 1 else waiting
    return [Record(PeopleAwaited(state.specs[number].id)) for number in ordered]


_FEW = 8
"""Running tasks that are asked for before all that is inside a task is looked at."""


def _waits_for_people(state: State, owner: int) -> bool:
    frame = state.tasks[owner].inner
    assert frame is not None
    if any(is_within(state, number, owner) for number in islice(state.running, _FEW)):
        return False  # what most looks at a large frame find
    people = False
    for number in _inside(state, frame):
        status = state.tasks[number].status
        if status not in _OPEN:
            continue
        if number in state.running or number in state.asked or number in state.held or status == "queued":
            return False
        if status == "pending" and state.wheel.due(number) is not None:
            return False
        people = people or status in ("blocked", "in_doubt")
    return people


def _inside(state: State, frame: Frame) -> Iterator[int]:
    """The tasks of a frame, at whatever depth."""
    frames = [frame]
    while frames:
        one = frames.pop()
        for number in range(one.first, one.first + one.size):
            yield number
            inner = state.tasks[number].inner
            if inner is not None:
                frames.append(inner)


_OPEN = frozenset({"pending", "queued", "running", "blocked", "in_doubt"})
