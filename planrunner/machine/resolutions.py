"""What becomes of failures that handlers take care of, of attempts of unknown end, and of a run that is stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.machine.events import DoubtSettled, FailureResolved, Outcome, StopRequested
from planrunner.machine.moves import after_settling, give_back, stand, tell_recovering
from planrunner.machine.routes import has_next
from planrunner.machine.state import State
from planrunner.machine.statuses import FINAL_STOPS, IllegalMove


def failure_resolved(state: State, event: FailureResolved, at: float) -> None:
    number = state.index[event.task]
    found = state.tasks[number]
    del state.recovering[number]
    state.candidates.pop(number, None)
    if event.recovered_by:
        found.recovered_by = event.recovered_by
        found.outputs = state.tasks[state.index[event.recovered_by]].outputs
        stand(state, number, "completed")
    else:
        stand(state, number, "skipped" if state.recovering and has_next(state, number) else "failed")
    tell_recovering(state, number)
    after_settling(state, found.frame)


def doubt_settled(state: State, event: DoubtSettled, at: float) -> None:
    number = state.index[event.task]
    found = state.tasks[number]
    if found.status not in ("in_doubt", "running"):
        raise IllegalMove(f"task `{event.task}` is not in doubt")
    state.asked.discard(number)
    if (event.resolution, event.failure) == ("unknown", "interrupted") and state.stop_reason not in FINAL_STOPS:
        return  # it is asked again when the run goes on
    if event.resolution in ("retry", "unknown"):
        found.uncertain, found.reason = True, event.resolution
        if event.resolution == "unknown":
            found.detail = event.by if event.failure else "the probe could not tell"
    else:
        failure = (event.failure or "doubt") if event.resolution == "failed" else ""
        found.uncertain = False
        found.outcome = Outcome(failure=failure, message="its end was settled " + _by(event.by))
        found.reason = "settled"
        found.judged = False
        if state.ledger is not None:
            give_back(state, number)
    state.candidates[number] = None


def _by(who: str) -> str:
    return f"by {who}" if who else "by rule"


def stop_requested(state: State, event: StopRequested, at: float) -> None:
    lifted = not event.reason
    state.stop_reason, state.stop_by, state.stop_comment = event.reason, "" if lifted else event.by, event.comment
    for number in state.running if lifted else ():
        found = state.tasks[number]
        if found.outcome is not None and found.outcome.failure == "unstarted":
            found.uncertain, found.reason, found.outcome = True, "retry", None  # it had not begun, and begins now
    for number, task in enumerate(state.tasks):
        if task.status in ("pending", "queued", "blocked", "running", "in_doubt"):
            state.candidates[number] = None


FOLDS: dict[type, Callable[[State, Any, float], None]] = {
    FailureResolved: failure_resolved,
    DoubtSettled: doubt_settled,
    StopRequested: stop_requested,
}
