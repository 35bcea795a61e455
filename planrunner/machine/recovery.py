"""What becomes of attempts of unknown end, of handled failures, and of services when a run goes on."""

from __future__ import annotations

from typing import Any

from planrunner.machine.budgets import given_up, sentence, used_up
from planrunner.machine.commands import AskProbe, Command, Record, Start
from planrunner.machine.events import (
    DoubtSettled,
    FailureResolved,
    Outcome,
    RollbackStarted,
    StopRequested,
    TaskSettled,
)
from planrunner.machine.joins import has_next
from planrunner.machine.ledger import amount
from planrunner.machine.names import agent_of
from planrunner.machine.rollback import undoing
from planrunner.machine.state import State, TaskState
from planrunner.machine.statuses import (
    IllegalMove,
    after_settling,
    set_dependency_outcome,
    tell_recovering,
)
from planrunner.machine.stops import FINAL_STOPS

BY_RULE = "the stop that was under way"
"""Who settles the doubt about an attempt that was being stopped finally when its runner died."""


def reissue(state: State, number: int) -> Start:
    """The same attempt once more; what it has set aside is still there."""
    task_state = state.tasks[number]
    reserved: dict[str, Any] = {}
    if state.ledger is not None:
        holding = state.ledger.holdings.get(number, {})
        reserved = {what: amount(what, held) for what, held in holding.items()}
    return Start(number, task_state.attempts, task_state.reissues + 1, reserved)


def out_of_budget(state: State, number: int) -> Command | None:
    """The end of a cut-off attempt that may spend, where a limit around it is used up meanwhile: it does not start
    again."""
    if state.ledger is None or (short := used_up(state, number)) is None:
        return None
    task = state.specs[number]
    detail = f"attempt {state.tasks[number].attempts} was cut off, and {sentence(state, short)}"
    return Record(TaskSettled(task.id, "failed", "budget", detail, "budget"))


def recover(state: State, number: int) -> Command | None:
    """The way on for an uncertain attempt; None while it waits for an answer."""
    return _way_on(state, number, state.unattended)


def on_resume(state: State, number: int) -> str:
    """What a resumed run does by itself about an attempt that was cut off, said of the run: ``starts it again``; empty
    where a person has to say how the attempt ended."""
    task_state = state.tasks[number]
    if task_state.outcome is not None and task_state.outcome.failure == "unstarted":
        return "starts it"
    if task_state.status == "in_doubt" and task_state.reason in _ASKED:
        return ""
    step = _way_on(state, number, unattended=False)
    if isinstance(step, Start):
        return "starts it again"
    event = step.event if isinstance(step, Record) else None
    if isinstance(event, TaskSettled):
        told = "tells the model" if agent_of(state, number) is not None else "lets it fail"
        return "" if event.status == "in_doubt" else told
    return "rolls it back" if isinstance(event, RollbackStarted) else "finds out how it ended"


def is_done(task_state: TaskState) -> bool:
    """Whether the work of a task is done, and its files were to be kept when the runner died."""
    return task_state.outcome is not None and not task_state.outcome.failure


def left_text(state: State, number: int) -> str:
    """How a running task stands while no process holds the run; empty for any other."""
    task_state = state.tasks[number]
    if task_state.status != "running" or state.status in ("pending", "running"):
        return ""
    if task_state.inner is not None:
        return "waits for its tasks"
    if is_done(task_state):
        return "its files were being kept; `resume` finishes it"
    then = on_resume(state, number)
    return f"interrupted; `resume` {then}" if then else "interrupted, result unknown; decide with `resume --settle`"


_ASKED = ("ask", "rollback")
"""Reasons of a task in doubt that waits for a person."""


def _way_on(state: State, number: int, unattended: bool) -> Command | None:
    task = state.specs[number]
    task_state = state.tasks[number]
    if task_state.status == "in_doubt" and task_state.reason in _ASKED:
        return None
    if state.alarms is not None and (known := state.alarms.stopping.get(number)):
        return Record(DoubtSettled(task.id, task_state.attempts, "failed", BY_RULE, known[0]))
    effect = state.trait(task).effect
    if task_state.reason == "retry" or task.on_doubt == "retry" or effect in ("pure", "read", "idempotent"):
        return out_of_budget(state, number) or reissue(state, number)
    if task.on_doubt == "fail":
        detail = f"attempt {task_state.attempts} was cut off and `on_doubt` is fail"
        return Record(TaskSettled(task.id, "failed", "doubt", detail, "doubt"))
    if state.trait(task).probe and task.on_doubt in ("", "probe") and task_state.reason != "unknown":
        waits = number in state.asked or (bool(state.stop_reason) and state.stop_reason not in FINAL_STOPS)
        return None if waits else AskProbe(number, task_state.attempts)
    undoes = task.on_doubt == "rollback" or (unattended and task.on_doubt in ("", "probe"))
    if undoes and (event := undoing(state, number)):
        return Record(event)
    told = f"; {task_state.detail}" if task_state.reason == "unknown" else ""
    detail = f"attempt {task_state.attempts} was cut off; whether it took effect is not known{told}"
    if not task.on_doubt and agent_of(state, number) is not None:  # its model hears of it, and can look and go on
        return Record(TaskSettled(task.id, "failed", "doubt", detail, "doubt"))
    return Record(TaskSettled(task.id, "in_doubt", "ask", detail))


def failure_resolved(state: State, event: FailureResolved, at: float) -> None:
    number = state.index[event.task]
    task_state = state.tasks[number]
    del state.recovering[number]
    state.candidates.pop(number, None)
    if event.recovered_by:
        task_state.recovered_by = event.recovered_by
        task_state.outputs = state.tasks[state.index[event.recovered_by]].outputs
        set_dependency_outcome(state, number, "completed")
    else:
        set_dependency_outcome(state, number, "skipped" if state.recovering and has_next(state, number) else "failed")
    tell_recovering(state, number)
    after_settling(state, task_state.frame)


def doubt_settled(state: State, event: DoubtSettled, at: float) -> None:
    number = state.index[event.task]
    task_state = state.tasks[number]
    if task_state.status not in ("in_doubt", "running"):
        raise IllegalMove(f"task `{event.task}` is not in doubt")
    state.asked.discard(number)
    if (event.resolution, event.failure) == ("unknown", "interrupted") and state.stop_reason not in FINAL_STOPS:
        return  # it is asked again when the run goes on
    if event.resolution in ("retry", "unknown"):
        task_state.uncertain, task_state.reason = True, event.resolution
        if event.resolution == "unknown":
            task_state.detail = event.by if event.failure else "the probe could not tell"
    else:
        failure = (event.failure or "doubt") if event.resolution == "failed" else ""
        task_state.uncertain = False
        task_state.outcome = Outcome(failure=failure, message=f"its end was settled by {event.by or 'rule'}")
        task_state.reason = "settled"
        task_state.judged = False
        if state.ledger is not None:
            given_up(state, number)
    state.candidates[number] = None


def stop_requested(state: State, event: StopRequested, at: float) -> None:
    lifted = not event.reason
    state.stop_reason, state.stop_by, state.stop_comment = event.reason, "" if lifted else event.by, event.comment
    for number in state.running if lifted else ():
        task_state = state.tasks[number]
        if task_state.outcome is not None and task_state.outcome.failure == "unstarted":
            task_state.uncertain, task_state.reason, task_state.outcome = (
                True,
                "retry",
                None,
            )  # it had not begun, and begins now
    for number, task in enumerate(state.tasks):
        if task.status in ("pending", "queued", "blocked", "running", "in_doubt"):
            state.candidates[number] = None
