"""Why nothing of a task starts any more: the run was stopped, its level fails, or what it belongs to is closing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.machine.commands import Command, settle
from planrunner.machine.statuses import FINAL_STOPS, OUT_OF_BUDGET
from planrunner.plan.expressions.quantities import format_duration

if TYPE_CHECKING:
    from planrunner.machine.frame import Frame
    from planrunner.machine.state import State, TaskState
    from planrunner.plan.model import Plan, Task


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
        found = state.tasks[number]
        frame = found.frame
        stops = frame.failing and number not in state.shape.tolerant and not found.insisted
        if stops and not (found.overlooks and all(overlooked(state, found, failed) for failed in frame.failures)):
            return frame
        number = frame.owner
    return None


def overlooked(state: State, found: TaskState, other: int) -> bool:
    """Whether a task begins anew beside what ``other`` came to before."""
    return (state.specs[other].id, state.tasks[other].visit) in found.overlooks


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
    return [number for number, task in enumerate(tasks) if task.standing == "cancelled" and task.status in ended]


def stop_detail(state: State, frame: Frame) -> str:
    failed = ", ".join(f"`{state.specs[number].id}`" for number in frame.failures[:3])
    return f"not started: {failed} failed and the plan's `on_failure` is {frame.on_failure}"


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
    """Nothing starts any more: a used-up budget and a cancelled run cancel for good, after a pause and an interruption
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
    """That a task has come to its deadline, as a sentence."""
    said = task.notes.get("deadline", "") if isinstance(task.notes, dict) else ""
    return f"its deadline ({said}{' from the start of the run' if task.due_in is not None else ''}) has passed"


def deadline_text(plan: Plan) -> str:
    """That the run has come to the deadline of its plan, as a sentence."""
    if plan.deadline is None:
        said = plan.notes.get("deadline", "") if isinstance(plan.notes, dict) else ""
        return f"the deadline of the plan ({said}) has passed"
    return f"the deadline of the plan ({format_duration(plan.deadline or 0.0)} from the start of the run) has passed"


def stop_text(state: State) -> str:
    """Who stopped the run and why, as a sentence."""
    words = {"pause": "paused", "rollback": "rolled back", "storage": "parked, its storage failed"}
    if state.stop_reason == "deadline":
        return deadline_text(state.plan)
    if state.stop_reason == "time":
        return "the time budget of the plan is used up"
    text = f"the run was {words.get(state.stop_reason, state.stop_reason)}"
    if state.stop_by:
        text += f" by {state.stop_by}"
    return f"{text}: {state.stop_comment}" if state.stop_comment else text


def is_given_up(state: State, number: int) -> bool:
    """A cancelled run asks nobody what became of an attempt; a probe that is under way may still tell."""
    cancelled = state.stop_reason in ("rollback", "cancelled", "killed") and not outlives(state, number)
    return cancelled and number not in state.asked


def give_up(state: State, number: int) -> Command:
    found = state.tasks[number]
    detail = f"whether attempt {found.attempts} took effect is not known, and {stop_text(state)}"
    return settle(state.specs[number], "cancelled", state.stop_reason, detail)
