"""``evolve`` folds one event into the state: facts only, no decisions, the same result for the same events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from planrunner.frozen import EMPTY
from planrunner.later import Later
from planrunner.machine.events import (
    EVENTS,
    AttemptEnded,
    AttemptStarted,
    AttemptStopping,
    BackupAsked,
    BackupMade,
    BudgetExtended,
    BudgetRefused,
    BudgetWarned,
    CheckpointAsked,
    CheckpointTaken,
    DoubtSettled,
    Entry,
    Event,
    FactsObserved,
    FactsRequested,
    FailureResolved,
    FrameClosing,
    FrameOpened,
    FreshnessAsked,
    FreshnessSeen,
    GateDecided,
    GateEscalated,
    GateExamined,
    GateOpened,
    GateReopened,
    GateRequested,
    GateVoted,
    LeftAlone,
    PeopleAwaited,
    PlanRefused,
    PolicyChanged,
    ResetPlanned,
    RetryScheduled,
    RevisionDeclined,
    RollbackEnded,
    RollbackStarted,
    RunEnded,
    RunForked,
    RunParked,
    RunReopened,
    RunResumed,
    RunRevised,
    RunStarted,
    SettingsComputed,
    StopRequested,
    TaskDelayed,
    TaskQueued,
    TaskSettled,
    TasksReset,
    UndoEnded,
    UndoScheduled,
    UndoSettled,
    UndoStarted,
    Warned,
)
from planrunner.machine.graph import Frame
from planrunner.machine.policies import govern, why_again
from planrunner.machine.state import Feature, State, Trait, Tried
from planrunner.machine.statuses import (
    SETTLED,
    IllegalMove,
    after_settling,
    check_run,
    follow_status,
    free_slot,
    move,
    plan_ended,
    take_slot,
    tell_recovering,
)
from planrunner.plan.model import Plan

_REMEMBERED = 9
"""Earlier attempts of a task that are remembered beside the last one before."""

Fold = Callable[[State, Any, float], None]

CUT_OFF = ("interrupted", "unstarted")
"""Ends that leave the attempt open: stopped in the middle, or before it began. It continues with the next resume."""


def fold(plan: Plan, run_id: str, entries: Iterable[Entry], plans: Mapping[str, Plan] = EMPTY) -> State:
    """The state after all entries of a run; ``plans`` are those of its revisions by digest."""
    state = State(plan, run_id, plans)
    for entry in entries:
        evolve(state, entry.event, entry.at)
    return state


def evolve(state: State, event: Event, at: float) -> None:
    """Change ``state`` by one event that happened at ``at`` (seconds since 1970).

    Raises IllegalMove when the event cannot follow what came before.
    """
    state.now = at
    kind = type(event)
    FOLDS[kind](state, event, at)
    listeners = state.listeners.get(kind)
    if listeners is None:
        listeners = state.listeners[kind] = _listeners(state, kind)
    for listener in listeners:
        listener(state, event, at)


def _listeners(state: State, kind: type[Event]) -> tuple[Fold, ...]:
    """The policies that a run uses and that an event of this kind concerns, in their order."""
    return tuple([fold for feature, fold in (*LISTENERS.get(kind, ()), *OF_EVERY_EVENT) if feature in state.uses])


def forget_candidates(state: State, left: Iterable[int]) -> None:
    """Drop the candidates that ``decide`` has just looked at, but for those it left; whatever may change its mind
    about one makes it a candidate again, so this saves work and alters nothing."""
    state.candidates.clear()
    state.candidates.update(dict.fromkeys(left))


def _run_started(state: State, event: RunStarted, at: float) -> None:
    check_run(state.status, "running")
    state.status = "running"
    state.params = event.params
    state.seed = event.seed
    state.plan_digest = state.approved_digest = event.plan_digest
    state.attended = event.attended
    state.traits = {name: Trait(*trait) for name, trait in event.traits.items()}
    state.saves = state.saves or any(trait.undo for trait in state.traits.values())
    state.foreign = any(trait.taint for trait in state.traits.values())
    state.environment = event.environment
    if event.environment.get("policy"):
        govern(state, event.environment["policy"])
    state.started_at = state.begun_at = state.active_since = at
    if event.max_parallel is not None:
        state.max_parallel = event.max_parallel
    if event.selected is not None:
        state.selected = frozenset(event.selected)
        for number, task in enumerate(state.specs):  # what was not selected counts as done for what was
            if task.id not in state.selected and not task.finally_:
                task_state = state.tasks[number]
                task_state.reason, task_state.detail = "not_selected", "not selected for this run"
                move(state, number, task_state, "skipped")
                task_state.dependency_outcome = "tolerated"
                state.top.open -= 1
                for other in state.shape.dependents[number]:
                    state.tasks[other].missing -= 1
    uncounted = state.shape.uncounted
    for number, task_state in enumerate(state.tasks):
        ready = task_state.missing == 0 or number in uncounted
        if ready and task_state.status == "pending" and not state.specs[number].finally_:
            state.candidates[number] = None
    after_settling(state, state.top)


def _run_resumed(state: State, event: RunResumed, at: float) -> None:
    check_run(state.status, "running")
    state.status, state.reason = "running", ""
    if state.stop_reason not in ("budget", "cancelled", "killed"):
        state.stop_reason = state.stop_by = state.stop_comment = ""
    state.epoch = event.epoch
    state.attended = event.attended
    if event.settings:
        state.environment = {**state.environment, "settings": event.settings}
    # a runner that was killed left its mark: the time since its last entry does not count
    state.active_since = at if state.active_since is None else state.active_since + event.idle
    state.asked.clear()
    state.freshness.clear()  # what was seen then says nothing about now
    for number in state.running:
        task = state.tasks[number]
        if task.outcome is None or task.outcome.failure in CUT_OFF:
            task.uncertain = True
            task.reason = "retry" if task.outcome is not None and task.outcome.failure == "unstarted" else task.reason
            task.outcome = None
    for number, task in enumerate(state.tasks):
        if task.status not in SETTLED or number in state.recovering:
            state.candidates[number] = None
            task.idle += event.idle if task.started is not None else 0.0
    state.unattended = False


def _task_queued(state: State, event: TaskQueued, at: float) -> None:
    number = state.index[event.task]
    task = state.specs[number]
    task_state = state.tasks[number]
    if number in state.wheel.times:
        state.wheel.drop(number)
    move(state, number, task_state, "queued")
    state.candidates.pop(number, None)
    state.queue.add(state.limited_labels(task), task.priority, number)


def _attempt_started(state: State, event: AttemptStarted, at: float) -> None:
    number = state.index[event.task]
    task = state.specs[number]
    task_state = state.tasks[number]
    if task_state.status == "queued":
        state.queue.remove(state.limited_labels(task), task.priority, number)
    if number in state.wheel.times:
        state.wheel.drop(number)
    move(state, number, task_state, "running")
    task_state.attempts = event.attempt
    task_state.reissues = event.reissue
    task_state.inputs = event.inputs
    task_state.uncertain = False
    task_state.outcome = None
    if number not in state.containers:
        task_state.kept = None
    task_state.judged = False
    task_state.reason = task_state.detail = ""
    if task_state.started is None:
        task_state.started = at
    if not event.reissue:
        task_state.began = at
    state.candidates.pop(number, None)
    take_slot(state, number)
    if event.reserved:
        state.use("budgets")
    if event.undo:
        state.use("undo")


def _attempt_ended(state: State, event: AttemptEnded, at: float) -> None:
    number = state.index[event.task]
    task_state = state.tasks[number]
    if task_state.status not in ("running", "in_doubt") or task_state.attempts != event.attempt:
        raise IllegalMove(f"attempt {event.attempt} of task `{event.task}` ended without having started")
    task_state.outcome = event.outcome
    task_state.judged = False
    task_state.uncertain = False
    task_state.ended = at
    state.candidates[number] = None
    if event.outcome.failure not in CUT_OFF:
        free_slot(state, number)
    state.meters.pop(number, None)
    if event.outcome.usage:
        state.use("budgets")


def _retry_scheduled(state: State, event: RetryScheduled, at: float) -> None:
    number = state.index[event.task]
    task_state = state.tasks[number]
    free_slot(state, number)
    move(state, number, task_state, "pending")
    if (last := task_state.outcome) is not None:
        reason = last.message or why_again(state, number, event.attempt)
        tried = Tried(event.attempt, event.failure, last.failure, last.message, last.exit_code, last.duration, reason)
        task_state.tried = (*task_state.tried[-_REMEMBERED:], tried)
    task_state.failure = event.failure
    task_state.judged = True
    if task_state.gate is not None and task_state.gate.stage == "criteria":
        task_state.gate = None  # what was asked about the last attempt says nothing about the next
    task_state.reason, task_state.detail = (
        "retry",
        f"waits for attempt {event.attempt + 1} after a {event.failure} failure",
    )
    state.candidates.pop(number, None)
    state.wheel.set(event.due, number)


def _task_settled(state: State, event: TaskSettled, at: float) -> None:
    number = state.index[event.task]
    task = state.specs[number]
    task_state = state.tasks[number]
    if task_state.status == "queued":
        state.queue.remove(state.limited_labels(task), task.priority, number)
    if number in state.wheel.times:
        state.wheel.drop(number)
    free_slot(state, number)
    move(state, number, task_state, event.status)
    task_state.reason, task_state.detail, task_state.failure = event.reason, event.detail, event.failure
    task_state.judged = True
    state.candidates.pop(number, None)
    state.meters.pop(number, None)
    if event.status not in SETTLED:
        if event.reason == "probe":
            state.asked.add(number)
        return
    task_state.ended = at
    state.asked.discard(number)
    frame = task_state.frame
    if task.finally_:
        frame.finals_open -= 1
    else:
        frame.open -= 1
    if event.status == "completed" and task_state.outcome is not None:
        task_state.outputs = task_state.outcome.outputs
    follow_status(state, number, event.status)
    tell_recovering(state, number)
    if task.ends_plan and event.status == "completed":
        plan_ended(state, number)
    if frame.limit and frame.limit < frame.first + frame.size and not (state.turns and _has_turns(state, frame)):
        _next_item(state, frame)
    if not frame.open or (frame.open == 1 and frame.last >= 0):
        after_settling(state, frame)


def _has_turns(state: State, frame: Frame) -> bool:
    """Whether items of a fan-out are open again and wait for their turn."""
    return any(state.tasks[number].frame is frame for number in state.turns)


def _next_item(state: State, frame: Frame) -> None:
    """An item is settled, so one more of those that wait for it may begin."""
    last = frame.first + frame.size
    while frame.limit < last and state.tasks[frame.limit].status != "pending":
        frame.limit += 1
    if frame.limit < last:
        state.candidates[frame.limit] = None
        frame.limit += 1


def _run_parked(state: State, event: RunParked, at: float) -> None:
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
    state.detail = event.detail
    state.ended_at = at
    _rest(state, at)


def _rest(state: State, at: float) -> None:
    if state.active_since is not None:
        state.active += at - state.active_since
        state.active_since = None


FOLDS: dict[type[Event], Fold] = {
    RunStarted: _run_started,
    RunResumed: _run_resumed,
    RunForked: Later("planrunner.machine.checkpoints:run_forked"),
    RunRevised: Later("planrunner.machine.revision:run_revised"),
    RevisionDeclined: Later("planrunner.machine.agents:declined"),
    RunReopened: Later("planrunner.machine.rework:run_reopened"),
    RunParked: _run_parked,
    RunEnded: _run_ended,
    StopRequested: Later("planrunner.machine.recovery:stop_requested"),
    PlanRefused: Later("planrunner.machine.admission:plan_refused"),
    PolicyChanged: Later("planrunner.machine.rights:policy_changed"),
    TaskQueued: _task_queued,
    TaskDelayed: Later("planrunner.machine.admission:task_delayed"),
    SettingsComputed: Later("planrunner.machine.joins:settings_computed"),
    FactsRequested: Later("planrunner.machine.joins:facts_requested"),
    FactsObserved: Later("planrunner.machine.joins:facts_observed"),
    FreshnessAsked: Later("planrunner.machine.reuse:freshness_asked"),
    FreshnessSeen: Later("planrunner.machine.reuse:freshness_seen"),
    AttemptStarted: _attempt_started,
    AttemptStopping: Later("planrunner.machine.clocks:attempt_stopping"),
    AttemptEnded: _attempt_ended,
    RetryScheduled: _retry_scheduled,
    Warned: Later("planrunner.machine.clocks:warned"),
    TaskSettled: _task_settled,
    FailureResolved: Later("planrunner.machine.recovery:failure_resolved"),
    DoubtSettled: Later("planrunner.machine.recovery:doubt_settled"),
    FrameOpened: Later("planrunner.machine.containers:frame_opened"),
    FrameClosing: Later("planrunner.machine.containers:frame_closing"),
    PeopleAwaited: Later("planrunner.machine.clocks:people_awaited"),
    ResetPlanned: Later("planrunner.machine.rework:reset_planned"),
    TasksReset: Later("planrunner.machine.rework:tasks_reset"),
    BudgetWarned: Later("planrunner.machine.budgets:budget_warned"),
    BudgetExtended: Later("planrunner.machine.budgets:budget_extended"),
    BudgetRefused: Later("planrunner.machine.admission:budget_refused"),
    GateRequested: Later("planrunner.machine.gates:gate_requested"),
    GateExamined: Later("planrunner.machine.gates:gate_examined"),
    GateOpened: Later("planrunner.machine.gates:gate_opened"),
    GateReopened: Later("planrunner.machine.gates:gate_reopened"),
    GateVoted: Later("planrunner.machine.gates:gate_voted"),
    GateEscalated: Later("planrunner.machine.gates:gate_escalated"),
    GateDecided: Later("planrunner.machine.gates:gate_decided"),
    CheckpointAsked: Later("planrunner.machine.checkpoints:checkpoint_asked"),
    CheckpointTaken: Later("planrunner.machine.checkpoints:checkpoint_taken"),
    BackupAsked: Later("planrunner.machine.compensation:backup_asked"),
    BackupMade: Later("planrunner.machine.compensation:backup_made"),
    LeftAlone: Later("planrunner.machine.compensation:left_alone"),
    RollbackStarted: Later("planrunner.machine.compensation:rollback_started"),
    UndoStarted: Later("planrunner.machine.compensation:undo_started"),
    UndoEnded: Later("planrunner.machine.compensation:undo_ended"),
    UndoScheduled: Later("planrunner.machine.compensation:undo_scheduled"),
    UndoSettled: Later("planrunner.machine.compensation:undo_settled"),
    RollbackEnded: Later("planrunner.machine.compensation:rollback_ended"),
}
"""What each kind of event does to the state: every kind has one fold, which is checked when this module is imported."""

LISTENERS: dict[type[Event], tuple[tuple[Feature, Fold], ...]] = {
    RunResumed: (
        ("meters", Later("planrunner.machine.clocks:run_resumed")),
        ("undo", Later("planrunner.machine.compensation:run_resumed")),
    ),
    RunParked: (("meters", Later("planrunner.machine.clocks:run_rested")),),
    RunEnded: (("meters", Later("planrunner.machine.clocks:run_rested")),),
    AttemptStarted: (
        ("budgets", Later("planrunner.machine.budgets:attempt_started")),
        ("meters", Later("planrunner.machine.clocks:something_began")),
        ("alarms", Later("planrunner.machine.clocks:attempt_started")),
        ("breakers", Later("planrunner.machine.admission:attempt_started")),
        ("undo", Later("planrunner.machine.compensation:attempt_started")),
    ),
    AttemptEnded: (
        ("undo", Later("planrunner.machine.compensation:attempt_ended")),
        ("budgets", Later("planrunner.machine.budgets:attempt_ended")),
        ("alarms", Later("planrunner.machine.clocks:attempt_ended")),
        ("breakers", Later("planrunner.machine.admission:attempt_ended")),
        ("sessions", Later("planrunner.machine.agents:attempt_ended")),
    ),
    RetryScheduled: (("hypotheses", Later("planrunner.machine.hypotheses:retry_scheduled")),),
    TaskSettled: (
        ("alarms", Later("planrunner.machine.clocks:task_settled")),
        ("budgets", Later("planrunner.machine.budgets:task_settled")),
        ("reuse", Later("planrunner.machine.reuse:task_settled")),
        ("hypotheses", Later("planrunner.machine.hypotheses:task_settled")),
        ("proposals", Later("planrunner.machine.agents:task_settled")),
        ("services", Later("planrunner.machine.rework:task_settled")),
        ("turns", Later("planrunner.machine.rework:item_settled")),
    ),
}
"""What else an event does where a run uses a feature, after its fold and in this order."""

OF_EVERY_EVENT: tuple[tuple[Feature, Fold], ...] = (("meters", Later("planrunner.machine.clocks:stir")),)

if missing := set(EVENTS) ^ FOLDS.keys():
    raise TypeError(f"events without a fold, or folds without an event: {', '.join(sorted(map(str, missing)))}")
