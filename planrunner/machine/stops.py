"""Stops and ends: why nothing of a task starts, and what a level of tasks comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from planrunner.machine.commands import Command, Record, settle
from planrunner.machine.events import AttemptStopping
from planrunner.machine.state import State
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


def called_off_inside(state: State) -> list[int]:
    """The tasks that were called off and for which the run ends as cancelled: of one that holds others those inside."""
    cancelled: list[int] = []
    todo = called_off(state)
    while todo:
        number = todo.pop(0)
        inner = state.tasks[number].inner
        held = range(0) if inner is None else range(inner.first, inner.first + inner.size)
        inside = [at for at in held if state.tasks[at].dependency_outcome == state.tasks[at].status == "cancelled"]
        todo += inside
        cancelled += [] if inside else [number]
    return sorted(cancelled)


def stop_detail(state: State, number: int, frame: Frame) -> str:
    """Why a task is cancelled around which ``frame`` fails, and how far it had come."""
    task_state = state.tasks[number]
    came = "started"
    if task_state.gate is not None and task_state.gate.waits:
        came = "answered"
    elif task_state.attempts > task_state.past:
        came = "tried again"
    failed = ", ".join(f"`{state.specs[number].id}`" for number in frame.failures[:3])
    return f"not {came}: {failed} failed and the plan's `on_failure` is {frame.on_failure}"


def outlives(state: State, number: int) -> bool:
    """What stands under ``finally`` comes after every stop that ends the run in order."""
    if state.stop_reason not in FINAL_STOPS or state.stop_reason == "killed":
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


# What a level comes to

EndStatus = Literal["completed", "failed", "cancelled"]


class Ending(NamedTuple):
    status: EndStatus
    reason: str = ""


def ending_of_run(state: State) -> Ending:
    """How the run ends, as it stands now."""
    if state.stop_reason in OUT_OF_BUDGET:
        return Ending("failed", "deadline" if state.stop_reason == "deadline" else "budget")
    if state.compensation_log is not None and state.compensation_log.main.status:
        undone = state.compensation_log.main
        if undone.reason != "doubt":  # a run that was undone did not complete, whatever it was before
            return Ending("failed" if state.failures else "cancelled", undone.status)
    elif state.stop_reason in FINAL_STOPS:
        return Ending("cancelled", state.stop_reason)
    if state.failures:
        return Ending("failed", "failed")
    if state.top.ended >= 0:
        return Ending("completed")
    return Ending("cancelled", "task") if called_off(state) else Ending("completed")


def frame_failure(state: State, frame: Frame) -> tuple[str, str]:
    """Failure class and sentence for a frame in which everything is settled; empty when it went well."""
    if frame.closing == "timeout":
        return "timeout", frame.why or "ran longer than its timeout"
    if frame.closing == "budget":
        return "budget", frame.why or "a budget of it is used up"
    if frame.closing:
        return "cancelled", f"stopped: {frame.closing}"
    if len(frame.failures) > frame.tolerate:
        first = frame.failures[0]
        task, task_state = state.specs[first], state.tasks[first]
        count = f"{len(frame.failures)} of {frame.size} items failed, the first is " if frame.kind == "items" else ""
        return task_state.failure or "logic", f"{count}`{task.id}`{'' if count else ' failed'}: {task_state.detail}"
    if frame.ended >= 0:
        return "", ""
    inner = range(frame.first, frame.first + frame.size)
    tasks = state.tasks
    stopped = [number for number in inner if tasks[number].dependency_outcome == tasks[number].status == "cancelled"]
    if stopped and not (len(frame.failures) + len(stopped) <= frame.tolerate and undisturbed(state, frame.owner)):
        return "cancelled", f"`{state.specs[stopped[0]].id}` was cancelled: {state.tasks[stopped[0]].detail}"
    return "", ""


def main_part_done(state: State, frame: Frame) -> bool:
    """Everything but what stands under ``finally`` is settled, and no failure waits for its handlers."""
    return not frame.open and not _is_recovering(state, frame)


def others_done(state: State, frame: Frame) -> bool:
    """The same for everything but the task that stands for ``done``, which is open."""
    return frame.open == 1 and not _is_recovering(state, frame)


def _is_recovering(state: State, frame: Frame) -> bool:
    return any(state.tasks[number].frame is frame for number in state.recovering)


def level_of(state: State, frame: Frame) -> Frame | None:
    """The nearest level around a frame of which only ``finally`` is left, or nothing; None while all still run."""
    while frame.owner >= 0:
        if frame.finals and main_part_done(state, frame):
            return frame
        frame = state.tasks[frame.owner].frame
    return frame if main_part_done(state, frame) else None


def status_of_level(state: State, level: Frame) -> EndStatus:
    """What a level comes to."""
    if level.owner < 0 or state.stop_reason in FINAL_STOPS:
        return ending_of_run(state).status
    failure = frame_failure(state, level)[0]
    return "completed" if not failure else "cancelled" if failure == "cancelled" else "failed"


def limit_reached(state: State, level: Frame) -> tuple[str, str]:
    """The limit of the plan that ended the run, rather than a task that failed: the class and a sentence; empty where
    none did. Where a limit ends a level inside the run, nothing of that starts any more to read it."""
    if level.owner >= 0 or state.stop_reason not in OUT_OF_BUDGET:
        return "", ""
    words = stop_text(state) if state.stop_reason != "budget" else state.stop_comment
    return "deadline" if state.stop_reason == "deadline" else "budget", words or "a budget of the plan is used up"


def is_under_way(state: State, number: int) -> bool:
    """Whether an attempt is under way that is looked after: not while everything is being stopped anyway."""
    task_state = state.tasks[number]
    if state.stop_reason in _AT_ONCE:
        return False
    return task_state.status == "running" and task_state.outcome is None and not task_state.uncertain
