"""Stops: why nothing of a task starts, and when timebox, deadline or watchdog stop an attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.machine.commands import Command, Record, settle
from planrunner.machine.events import AttemptStopping, FrameClosing, TaskSettled, Warned
from planrunner.machine.state import State
from planrunner.machine.timers import DEADLINE, LOOK, TIMEBOX, Alarms, Timer
from planrunner.plan.expressions.quantities import format_duration
from planrunner.plan.model import Task

if TYPE_CHECKING:
    from planrunner.machine.graph import Frame
    from planrunner.machine.state import TaskState
    from planrunner.plan.model import Plan

STOPS: dict[str, int] = {
    "": 0,
    "pause": 1,
    "interrupted": 2,
    "terminated": 2,
    "hangup": 2,
    "quit": 2,
    "storage": 2,
    "budget": 3,
    "revision": 3,
    "time": 4,
    "deadline": 4,
    "rollback": 5,
    "cancelled": 5,
    "killed": 6,
}
"""Why nothing starts any more; a stop gives way only to a graver one."""

OUT_OF_BUDGET: frozenset[str] = frozenset({"budget", "time", "deadline"})
"""Limits of the plan that end the run: a budget is used up (what runs may end), or that of time, or the deadline has
passed (what runs is stopped)."""

FINAL_STOPS: frozenset[str] = OUT_OF_BUDGET | {"rollback", "cancelled", "killed"}
"""After these the run is not parked but comes to its end."""

_AT_ONCE = frozenset({"interrupted", "terminated", "hangup", "quit", "storage", "killed"})
"""Stops with which all that runs is stopped as well."""

GOES_ON = ("", *OUT_OF_BUDGET, "rollback")
"""Reasons for a stop that do not keep a rollback from going on."""


def closed(state: State, number: int) -> str:
    """Why a frame around a task is being stopped; empty where none is."""
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        if frame.closing:
            return frame.closing
        frame = state.tasks[frame.owner].frame
    return ""


def cut(state: State, number: int) -> Frame | None:
    """The frame that is failing around a task that is neither a handler nor under ``finally`` there."""
    while number >= 0:
        if state.specs[number].finally_:
            return None
        task_state = state.tasks[number]
        frame = task_state.frame
        stops = frame.failing and number not in state.shape.tolerant and not task_state.insisted
        if stops and not (
            task_state.overlooks and all(overlooked(state, task_state, failed) for failed in frame.failures)
        ):
            return frame
        number = frame.owner
    return None


def overlooked(state: State, task_state: TaskState, other: int) -> bool:
    """Whether a task is reset beside what ``other`` came to before."""
    return (state.specs[other].id, state.tasks[other].visit) in task_state.overlooks


def undisturbed(state: State, number: int) -> bool:
    """Whether nothing stops a task from outside: if it is cancelled then for itself, or for what it holds."""
    if state.stop_reason in FINAL_STOPS or closed(state, number):
        return False
    return not state.failing or cut(state, number) is None


def was_called_off(state: State, number: int) -> bool:
    """Whether a task that settles as cancelled had begun and was called off, for itself or for what it holds."""
    outcome = state.tasks[number].outcome
    return outcome is not None and outcome.failure == "cancelled" and undisturbed(state, number)


def called_off(state: State) -> list[int]:
    """Tasks of the plan itself that were cancelled or abandoned one by one while the run went on, and that nothing made
    good."""
    if not (state.counts.get("cancelled") or state.counts.get("abandoned")):
        return []
    ended = ("cancelled", "abandoned")
    tasks = state.tasks[: state.top.size]
    return [
        number for number, task in enumerate(tasks) if task.dependency_outcome == "cancelled" and task.status in ended
    ]


def stop_detail(state: State, number: int, frame: Frame) -> str:
    """Why a task is cancelled around which ``frame`` fails, and how far it had come (told since edition 11)."""
    task_state = state.tasks[number]
    came = "started"
    if state.edition > 10 and task_state.gate is not None and task_state.gate.waits:
        came = "answered"
    elif state.edition > 10 and task_state.attempts > task_state.past:
        came = "tried again"
    failed = ", ".join(f"`{state.specs[number].id}`" for number in frame.failures[:3])
    return f"not {came}: {failed} failed and the plan's `on_failure` is {frame.on_failure}"


def outlives(state: State, number: int) -> bool:
    """What stands under ``finally`` comes after every stop that ends the run in order."""
    if state.stop_reason not in (*OUT_OF_BUDGET, "rollback", "cancelled"):
        return False
    while number >= 0:
        if state.specs[number].finally_:
            return True
        number = state.tasks[number].frame.owner
    return False


def stopped(state: State, task: Task, before: str = "") -> Command | None:
    """Nothing starts any more: a used-up budget and a cancelled run cancel finally, after a pause and an interruption
    the task is left for the resume."""
    if state.stop_reason == "deadline":
        return settle(task, "cancelled", "deadline", f"{before}{deadline_text(state.plan)}")
    if state.stop_reason == "time":
        return settle(task, "cancelled", "budget", f"{before}the time budget of the plan is used up")
    if state.stop_reason == "budget":
        return settle(task, "cancelled", "budget", before + state.stop_comment)
    if state.stop_reason in FINAL_STOPS:
        return settle(task, "cancelled", state.stop_reason, before + stop_text(state))
    return None


def deadline_of(state: State) -> float | None:
    """When the run must be done; None where its plan does not say."""
    plan = state.plan
    if plan.deadline is not None:
        return state.started_at + plan.deadline
    return plan.due


def task_deadline(state: State, task: Task) -> float | None:
    """When a task must be done; None where it does not say."""
    return state.started_at + task.due_in if task.due_in is not None else task.due


def task_deadline_text(task: Task) -> str:
    """That a task has reached its deadline, as a sentence."""
    said = task.notes.get("deadline", "") if isinstance(task.notes, dict) else ""
    return f"its deadline ({said}{' from the start of the run' if task.due_in is not None else ''}) has passed"


def deadline_text(plan: Plan) -> str:
    """That the run has reached the deadline of its plan, as a sentence."""
    if plan.deadline is None:
        said = plan.notes.get("deadline", "") if isinstance(plan.notes, dict) else ""
        return f"the deadline of the plan ({said}) has passed"
    return f"the deadline of the plan ({format_duration(plan.deadline or 0.0)} from the start of the run) has passed"


def stop_text(state: State) -> str:
    """Who stopped the run and why, as a sentence."""
    words = {"pause": "paused", "rollback": "rolled back", "storage": "paused, its storage failed"}
    if state.stop_reason == "revision":
        return f"`{state.stop_by}` proposes another plan"
    if state.stop_reason == "deadline":
        return deadline_text(state.plan)
    if state.stop_reason == "time":
        return "the time budget of the plan is used up"
    text = f"the run was {words.get(state.stop_reason, state.stop_reason)}"
    if state.stop_by:
        text += f" by {state.stop_by}"
    return f"{text}: {state.stop_comment}" if state.stop_comment else text


def is_given_up(state: State, number: int) -> bool:
    """A cancelled run does not ask what became of an attempt; a probe that is under way may still tell."""
    cancelled = state.stop_reason in ("rollback", "cancelled", "killed") and not outlives(state, number)
    return cancelled and number not in state.asked


def give_up(state: State, number: int) -> Command:
    task_state = state.tasks[number]
    detail = f"whether attempt {task_state.attempts} took effect is not known, and {stop_text(state)}"
    return settle(state.specs[number], "cancelled", state.stop_reason, detail)


def ended_by(state: State, number: int) -> str:
    """Why a task is not run, since another one has ended its plan or one around it; empty where none has. What stands
    under ``finally``, what decides whether the plan is done, and what a person named still run."""
    while number >= 0:
        task, task_state = state.specs[number], state.tasks[number]
        if task.finally_ or task.concluding or task_state.insisted:
            return ""
        by = task_state.frame.ended
        if by >= 0 and not (task_state.overlooks and overlooked(state, task_state, by)):
            return f"`{state.specs[by].id}` has ended the plan" if by != number else ""
        number = task_state.frame.owner
    return ""


def not_run(state: State, number: int) -> Command | None:
    """The end of a task that has not begun, or waits for another attempt; None where it goes on."""
    task_state = state.tasks[number]
    why = ended_by(state, number)
    began = task_state.attempts > task_state.past
    return settle(state.specs[number], "cancelled" if began else "skipped", "ended", why) if why else None


def stop_ended(state: State) -> list[Command]:
    """What still runs in a plan that has ended."""
    commands: list[Command] = []
    for number in state.running:
        at = state.tasks[number]
        known = at.outcome is not None or at.uncertain
        if known or (state.alarms is not None and number in state.alarms.stopping):
            continue
        if why := ended_by(state, number):
            event = AttemptStopping(state.specs[number].id, at.attempts, "cancelled", "ended", why)
            commands.append(Record(event))
    return commands


# Folds


def armed(state: State, number: int, at: float) -> None:
    """An attempt of a task with a timebox or a watchdog begins."""
    alarms = state.alarms = state.alarms or Alarms()
    task, task_state, wheel = state.specs[number], state.tasks[number], state.wheel
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
    if state.alarms is None or number not in state.alarms.begun or state.edition < 10:
        return
    visit, begun = state.alarms.begun[number]
    state.alarms.begun[number] = (visit, begun + seconds)
    state.wheel.set(begun + seconds + (state.specs[number].timebox or 0.0), number, TIMEBOX)


def attempt_over(state: State, number: int) -> None:
    """The watchdog has nothing to look at any more; the timebox goes on over the waits between attempts."""
    alarms = state.alarms
    assert alarms is not None
    alarms.stopping.pop(number, None)
    alarms.asked.pop(number, None)
    for step in range(len(state.specs[number].watchdog)):
        state.wheel.drop(number, step)


def task_over(state: State, number: int) -> None:
    """The task is settled, or waits for people: no time is taken from it any more."""
    alarms = state.alarms
    assert alarms is not None
    state.wheel.drop_alarms(number)
    alarms.stopping.pop(number, None)
    alarms.asked.pop(number, None)


def warned(state: State, event: Warned, at: float) -> None:
    number, alarms = state.index[event.task], state.alarms
    assert alarms is not None
    for step, watch in enumerate(state.specs[number].watchdog):
        if watch == (event.after, event.do):
            state.wheel.drop(number, step)
    if event.do == "ask":
        alarms.asked[number] = (event.after, at)
        state.tasks[number].detail = f"needs attention: it still runs after {format_duration(event.after)}"


def attempt_stopping(state: State, event: AttemptStopping, at: float) -> None:
    number, alarms = state.index[event.task], state.alarms or Alarms()
    state.alarms = alarms
    state.wheel.drop_alarms(number)
    alarms.asked.pop(number, None)
    alarms.stopping[number] = (event.failure, event.detail)


# Decisions


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
            return Record(FrameClosing(task.id, "timeout", detail if state.edition > 9 else ""))
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


def is_under_way(state: State, number: int) -> bool:
    """Whether an attempt is under way that is looked after: not while everything is being stopped anyway."""
    task_state = state.tasks[number]
    if state.stop_reason in _AT_ONCE:
        return False
    return task_state.status == "running" and task_state.outcome is None and not task_state.uncertain


def no_room(task: Task, why: str) -> str:
    """Why a task fails that would have been tried again: the sentence for people."""
    return f"its timebox of {format_duration(task.timebox or 0.0)} leaves no room for another attempt after: {why}"


def time_left(state: State, task: Task, due: float) -> bool:
    """Whether an attempt at ``due`` still lies in the timebox of its task."""
    number = state.index[task.id]
    if task.timebox is None or state.alarms is None or number not in state.alarms.begun:
        return True
    return due < state.alarms.begun[number][1] + task.timebox
