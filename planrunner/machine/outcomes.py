"""What follows from the end of an attempt: done, asked about, tried again, sent back or failed."""

from __future__ import annotations

from planrunner.machine.commands import AskPeople, Command, Record, settle
from planrunner.machine.containers import step
from planrunner.machine.events import RetryScheduled
from planrunner.machine.evolve import CUT_OFF
from planrunner.machine.gates import sentence
from planrunner.machine.judge import Verdict, judge
from planrunner.machine.judging import unmet
from planrunner.machine.keeping import is_all_kept
from planrunner.machine.linked import unclean
from planrunner.machine.recovery import recover
from planrunner.machine.retry import again, delay
from planrunner.machine.rework import by_edge
from planrunner.machine.starting import at_gate
from planrunner.machine.state import State, TaskState
from planrunner.machine.statuses import FINAL_STOPS
from planrunner.machine.stops import closed, give_up, is_given_up, outlives, stopped
from planrunner.machine.watch import no_room, time_left
from planrunner.plan.model import Task


def after_attempt(state: State, number: int, now: float) -> Command | None:
    task = state.specs[number]
    found = state.tasks[number]
    if found.outcome is None:
        if number in state.holders:
            return step(state, number, now)
        if not found.uncertain:
            return None
        if is_given_up(state, number):
            return give_up(state, number)
        rests = state.stop_reason not in ("", "budget") and not outlives(state, number)
        return None if rests else recover_attempt(state, number)
    if found.outcome.failure in CUT_OFF:
        return stopped(state, task, "stopped: ")
    if found.outcome.failure == "cancelled":
        return settle(task, "cancelled", "stopped", found.outcome.message)
    if found.kept is None and not (found.outcome.failure or task.expect or task.postconditions or task.failure_modes):
        return settle(task, "completed", "", _at_bound(task, found))
    verdict = judge(state, number)
    if verdict.words and "criteria" not in found.cleared:
        verdict = unmet(found.gate, found.attempts) or verdict
    if not verdict.failure:
        return _after_success(state, number, verdict, now)
    ends = state.stop_reason in FINAL_STOPS and not outlives(state, number)
    ends = ends or (bool(state.closing) and closed(state, number) == "budget")
    ends = ends or (number in state.holders and _left_behind(state, number))
    if not ends and again(task.retry, found.attempts - found.past, verdict.failure):
        key = f"{state.seed}:{task.id}:{found.attempts}"
        due = now + delay(task.retry, found.attempts - found.past, key)
        if task.timebox is None or _in_timebox(state, task, due):
            return Record(RetryScheduled(task.id, found.attempts, due, verdict.failure))
        verdict = _no_room(task, verdict)
    goes_back = number in state.shape.reworks and not ends
    if goes_back and (back := by_edge(state, number, verdict.detail, verdict.failure)):
        return back
    return settle(task, "failed", verdict.reason, verdict.detail, verdict.failure)


def _after_success(state: State, number: int, verdict: Verdict, now: float) -> Command | None:
    """Nothing speaks against the attempt: the task is done, unless criteria in plain words are still to be decided."""
    task, found = state.specs[number], state.tasks[number]
    if verdict.words and "criteria" not in found.cleared:
        return _asks_criteria(state, number, now)
    if found.kept is not None and number in state.holders and is_all_kept(state, number):
        return settle(task, "completed", "reused", "kept: nothing inside it would be called otherwise")
    return settle(task, "completed", "", _judged(found) if verdict.words else _at_bound(task, found))


def _at_bound(task: Task, found: TaskState) -> str:
    """Why a loop ended that may end at its bound."""
    bounded = task.loop is not None and task.loop.at_bound == "continue" and found.outcome is not None
    return found.outcome.message if bounded and found.outcome is not None else ""


def _left_behind(state: State, number: int) -> bool:
    """A linked plan was not wholly undone, though it has to be before anything begins again."""
    frame = state.tasks[number].inner
    if frame is None or frame.undoing is None:
        return False
    return unclean(frame.undoing)


def _asks_criteria(state: State, number: int, now: float) -> Command | None:
    found = state.tasks[number]
    asked = found.gate is not None and (found.gate.stage, found.gate.attempt) == ("criteria", found.attempts)
    return at_gate(state, number, now) if asked else AskPeople(number, "criteria")


def _judged(found: TaskState) -> str:
    """Who decided the criteria in plain words of a task, and how."""
    return sentence(found.gate) if found.gate is not None and found.gate.stage == "criteria" else ""


def _in_timebox(state: State, task: Task, due: float) -> bool:
    return time_left(state, task, due)


def _no_room(task: Task, verdict: Verdict) -> Verdict:
    return verdict._replace(failure="timeout", reason="timebox", detail=no_room(task, verdict.detail))


def recover_attempt(state: State, number: int) -> Command | None:
    return recover(state, number)
