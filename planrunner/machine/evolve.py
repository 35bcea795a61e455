"""``evolve`` folds one event into the state: facts only, no decisions, the same result for the same events."""

from __future__ import annotations

from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    DoubtSettled,
    Entry,
    FactsObserved,
    FactsRequested,
    FailureResolved,
    Outcome,
    RetryScheduled,
    RunEnded,
    RunParked,
    RunResumed,
    RunStarted,
    StopRequested,
    TaskQueued,
    TaskSettled,
)
from planrunner.machine.state import State, TaskState, Trait
from planrunner.machine.statuses import SETTLED, TASK, IllegalMove, check_run, check_task
from planrunner.plan.model import Plan
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from planrunner.machine.events import Event, TaskStatus
    from planrunner.machine.state import Standing

_STANDINGS: dict[str, Standing] = {
    "completed": "completed",
    "skipped": "skipped",
    "omitted": "omitted",
    "cancelled": "cancelled",
    "abandoned": "cancelled",
}
CUT_OFF = ("interrupted", "unstarted")
"""Ends that are none: stopped in the middle, or stopped before it began. The attempt goes on with the next resume."""


def fold(plan: Plan, run_id: str, entries: Iterable[Entry]) -> State:
    """The state after all entries of a run."""
    state = State(plan, run_id)
    for entry in entries:
        evolve(state, entry.event, entry.at)
    return state


def evolve(state: State, event: Event, at: float) -> None:
    """Change ``state`` by one event that happened at ``at`` (seconds since 1970).

    Raises IllegalMove when the event cannot follow what came before.
    """
    _HANDLERS[type(event)](state, event, at)


def forget_candidates(state: State, left: Iterable[int]) -> None:
    """Drop the candidates that ``decide`` has just looked at, but for those it left; whatever may change its mind
    about one makes it a candidate again, so this saves work and alters nothing."""
    state.candidates.clear()
    state.candidates.update(dict.fromkeys(left))


def _started(state: State, event: RunStarted, at: float) -> None:
    check_run(state.status, "running")
    state.status = "running"
    state.params = event.params
    state.seed = event.seed
    state.traits = {name: Trait(*trait) for name, trait in event.traits.items()}
    state.environment = event.environment
    state.started_at = state.active_since = at
    if event.max_parallel is not None:
        state.max_parallel = event.max_parallel
    if event.selected is not None:
        state.selected = frozenset(event.selected)
        _leave_out(state)
    uncounted = state.shape.uncounted
    for number, task in enumerate(state.tasks):
        ready = task.missing == 0 or number in uncounted
        if ready and task.status == "pending" and not state.plan.tasks[number].finally_:
            state.candidates[number] = None
    if not state.open:
        _open_finals(state)


def _leave_out(state: State) -> None:
    """Tasks that were not selected count as done for those that were."""
    assert state.selected is not None
    for number, task in enumerate(state.plan.tasks):
        if task.id not in state.selected and not task.finally_:
            found = state.tasks[number]
            found.reason, found.detail = "not_selected", "not selected for this run"
            _move(state, number, found, "skipped")
            found.standing = "tolerated"
            state.open -= 1
            for other in state.shape.dependents[number]:
                state.tasks[other].missing -= 1


def _resumed(state: State, event: RunResumed, at: float) -> None:
    check_run(state.status, "running")
    state.status = "running"
    if state.stop_reason not in ("cancelled", "killed"):
        state.stop_reason = state.stop_by = state.stop_comment = ""
    state.epoch = event.epoch
    # a runner that was killed left its mark: the time since its last entry was nobody's
    state.active_since = at if state.active_since is None else state.active_since + event.idle
    state.asked.clear()
    for number in state.running:
        task = state.tasks[number]
        if task.outcome is None or task.outcome.failure in CUT_OFF:
            task.uncertain = True
            task.reason = "retry" if task.outcome is not None and task.outcome.failure == "unstarted" else task.reason
            task.outcome = None
    for number, task in enumerate(state.tasks):
        if task.status not in SETTLED or number in state.recovering:
            state.candidates[number] = None


def _queued(state: State, event: TaskQueued, at: float) -> None:
    number = state.index[event.task]
    task = state.plan.tasks[number]
    found = state.tasks[number]
    _drop_timer(state, number, found)
    _move(state, number, found, "queued")
    state.candidates.pop(number, None)
    state.queue.add(state.limited_labels(task), task.priority, number)


def _facts_requested(state: State, event: FactsRequested, at: float) -> None:
    state.asked.add(state.index[event.task])


def _facts_observed(state: State, event: FactsObserved, at: float) -> None:
    number = state.index[event.task]
    state.tasks[number].facts = event.facts
    state.asked.discard(number)
    state.candidates[number] = None


def _attempt_started(state: State, event: AttemptStarted, at: float) -> None:
    number = state.index[event.task]
    task = state.plan.tasks[number]
    found = state.tasks[number]
    if found.status == "queued":
        state.queue.remove(state.limited_labels(task), task.priority, number)
    _drop_timer(state, number, found)
    _move(state, number, found, "running")
    found.attempts = event.attempt
    found.reissues = event.reissue
    found.uncertain = False
    found.outcome = None
    found.judged = False
    found.reason = found.detail = ""
    if found.started is None:
        found.started = at
    state.candidates.pop(number, None)
    _take_slot(state, number)


def _attempt_ended(state: State, event: AttemptEnded, at: float) -> None:
    number = state.index[event.task]
    found = state.tasks[number]
    if found.status not in ("running", "in_doubt") or found.attempts != event.attempt:
        raise IllegalMove(f"attempt {event.attempt} of task `{event.task}` ended without having started")
    found.outcome = event.outcome
    found.judged = False
    found.uncertain = False
    found.ended = at
    state.candidates[number] = None
    if event.outcome.failure not in CUT_OFF:
        _free_slot(state, number)


def _retry_scheduled(state: State, event: RetryScheduled, at: float) -> None:
    number = state.index[event.task]
    found = state.tasks[number]
    _free_slot(state, number)
    from bisect import insort  # late: few tasks are tried again

    _move(state, number, found, "pending")
    found.due = event.due
    found.failure = event.failure
    found.judged = True
    found.reason, found.detail = "retry", f"waits for attempt {event.attempt + 1} after a {event.failure} failure"
    state.candidates.pop(number, None)
    insort(state.timers, (event.due, number))


def _settled(state: State, event: TaskSettled, at: float) -> None:
    number = state.index[event.task]
    task = state.plan.tasks[number]
    found = state.tasks[number]
    if found.status == "queued":
        state.queue.remove(state.limited_labels(task), task.priority, number)
    _drop_timer(state, number, found)
    _free_slot(state, number)
    _move(state, number, found, event.status)
    found.reason, found.detail, found.failure = event.reason, event.detail, event.failure
    found.judged = True
    state.candidates.pop(number, None)
    if event.status not in SETTLED:
        if event.reason == "probe":
            state.asked.add(number)
        return
    found.ended = at
    if task.finally_:
        state.finals_open -= 1
    else:
        state.open -= 1
    if event.status == "completed" and found.outcome is not None:
        found.outputs = found.outcome.outputs
    if event.status != "failed":
        _stand(state, number, _STANDINGS[event.status])
    elif task.allow_failure:
        _stand(state, number, "tolerated")
    elif any(route.edge.recovers for route in state.shape.routes_out.get(number, ())):
        state.recovering[number] = None
        _offer_routes(state, number)
    else:
        _stand(state, number, "failed")
    if state.recovering:
        for route in state.shape.routes_in.get(number, ()):
            if route.source in state.recovering:
                state.candidates[route.source] = None
    if not state.open:
        _open_finals(state)


def _failure_resolved(state: State, event: FailureResolved, at: float) -> None:
    number = state.index[event.task]
    found = state.tasks[number]
    del state.recovering[number]
    state.candidates.pop(number, None)
    if event.recovered_by:
        found.recovered_by = event.recovered_by
        found.outputs = state.tasks[state.index[event.recovered_by]].outputs
        _stand(state, number, "completed")
    else:
        _stand(state, number, "failed")
    if not state.open:
        _open_finals(state)


def _doubt_settled(state: State, event: DoubtSettled, at: float) -> None:
    number = state.index[event.task]
    found = state.tasks[number]
    if found.status not in ("in_doubt", "running"):
        raise IllegalMove(f"task `{event.task}` is not in doubt")
    state.asked.discard(number)
    if event.resolution == "retry":
        found.uncertain, found.reason = True, "retry"
    else:
        failure = (event.failure or "doubt") if event.resolution == "failed" else ""
        found.uncertain = False
        found.outcome = Outcome(failure=failure, message="its end was settled " + _by(event.by))
        found.reason = "settled"
        found.judged = False
    state.candidates[number] = None


def _by(who: str) -> str:
    return f"by {who}" if who else "by rule"


def _stop_requested(state: State, event: StopRequested, at: float) -> None:
    state.stop_reason, state.stop_by, state.stop_comment = event.reason, event.by, event.comment
    for number, task in enumerate(state.tasks):
        if task.status in ("pending", "queued", "blocked", "running", "in_doubt"):
            state.candidates[number] = None


def _parked(state: State, event: RunParked, at: float) -> None:
    new = "blocked" if event.reason == "waiting" else "paused"
    check_run(state.status, new)  # type: ignore[arg-type]
    state.status = new  # type: ignore[assignment]
    state.reason = event.reason
    _rest(state, at)


def _run_ended(state: State, event: RunEnded, at: float) -> None:
    check_run(state.status, event.status)
    state.status = event.status
    state.reason = event.reason
    state.outputs = event.outputs
    state.ended_at = at
    _rest(state, at)


def _rest(state: State, at: float) -> None:
    if state.active_since is not None:
        state.active += at - state.active_since
        state.active_since = None


def _move(state: State, number: int, task: TaskState, new: TaskStatus) -> None:
    old = task.status
    if new not in TASK[old]:
        check_task(state.plan.tasks[number].id, old, new)
    task.status = new
    counts = state.counts
    counts[old] -= 1
    counts[new] = counts.get(new, 0) + 1


def _take_slot(state: State, number: int) -> None:
    if number in state.running:
        return
    state.running[number] = None
    task = state.plan.tasks[number]
    if not state.trait(task).instant:
        state.slots += 1
        for label in state.limited_labels(task):
            state.labels_running[label] = state.labels_running.get(label, 0) + 1


def _free_slot(state: State, number: int) -> None:
    if number not in state.running:
        return
    del state.running[number]
    task = state.plan.tasks[number]
    if not state.trait(task).instant:
        state.slots -= 1
        for label in state.limited_labels(task):
            state.labels_running[label] -= 1


def _drop_timer(state: State, number: int, task: TaskState) -> None:
    if task.due is not None:
        from bisect import bisect_left  # late, as above

        del state.timers[bisect_left(state.timers, (task.due, number))]
        task.due = None


def _stand(state: State, number: int, standing: Standing) -> None:
    """Give a task its standing and wake those whose start may now be decided."""
    state.tasks[number].standing = standing
    plan, tasks, candidates = state.plan, state.tasks, state.candidates
    if standing == "failed":
        state.failures.append(number)
        if plan.on_failure != "continue":
            for other, found in enumerate(tasks):
                if found.status in ("pending", "queued"):
                    candidates[other] = None
    good = standing in ("completed", "tolerated")
    uncounted = state.shape.uncounted
    for other in state.shape.dependents[number]:
        found = tasks[other]
        if found.status not in ("pending", "queued"):
            continue
        if other not in uncounted:
            if good:
                found.missing -= 1
                if found.missing:
                    continue
            elif found.broken < 0:
                found.broken = number
        candidates[other] = None
    if state.shape.routes_out:
        _offer_routes(state, number)


def _offer_routes(state: State, number: int) -> None:
    for route in state.shape.routes_out.get(number, ()):
        if state.tasks[route.target].status == "pending":
            state.candidates[route.target] = None
    if number in state.recovering:
        state.candidates[number] = None


def _open_finals(state: State) -> None:
    """The main part is settled and no failure waits for its handlers: tasks under ``finally`` may start."""
    if not state.recovering:
        for number in state.shape.finals:
            if state.tasks[number].status == "pending":
                state.candidates[number] = None


_HANDLERS: dict[type, Callable[[State, Any, float], None]] = {
    RunStarted: _started,
    RunResumed: _resumed,
    TaskQueued: _queued,
    FactsRequested: _facts_requested,
    FactsObserved: _facts_observed,
    AttemptStarted: _attempt_started,
    AttemptEnded: _attempt_ended,
    RetryScheduled: _retry_scheduled,
    TaskSettled: _settled,
    FailureResolved: _failure_resolved,
    DoubtSettled: _doubt_settled,
    StopRequested: _stop_requested,
    RunParked: _parked,
    RunEnded: _run_ended,
}
