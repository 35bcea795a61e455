"""What a level comes to: the run, a linked plan or a subplan, once all but its ``finally`` is settled."""

from __future__ import annotations

from typing import Literal, NamedTuple

from planrunner.machine.graph import Frame
from planrunner.machine.state import State
from planrunner.machine.stops import FINAL_STOPS, OUT_OF_BUDGET, called_off, stop_text, undisturbed

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
