"""``decide``: from the state to what should happen next. Pure; the order of policies and nothing else."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple, assert_never

from planrunner.machine import recovery, rollback
from planrunner.machine.admission import Admission, held_back
from planrunner.machine.budgets import has_room, notices, time_limit, warning_time
from planrunner.machine.checkpoints import kept_first
from planrunner.machine.commands import AskPeople, Close, Command, Compare, End, Record, settle
from planrunner.machine.containers import pause_meters, step
from planrunner.machine.endings import ending_of_run
from planrunner.machine.events import (
    AttemptStopping,
    FailureResolved,
    FrameClosing,
    PeopleAwaited,
    ResetPlanned,
    RetryScheduled,
    RunParked,
    StopRequested,
    TaskSettled,
)
from planrunner.machine.evolve import CUT_OFF
from planrunner.machine.gates import sentence
from planrunner.machine.joins import conclusive, handlers
from planrunner.machine.proposals import proposed
from planrunner.machine.recovery import recover
from planrunner.machine.reuse import is_all_kept
from planrunner.machine.rework import before_completing, by_edge, due
from planrunner.machine.rollback import saved_first, unclean
from planrunner.machine.start import admit, at_gate, before_attempt, while_queued
from planrunner.machine.state import State, TaskState
from planrunner.machine.statuses import SETTLED, IllegalMove
from planrunner.machine.stops import (
    FINAL_STOPS,
    alarm,
    closed,
    cut,
    deadline_of,
    give_up,
    is_given_up,
    no_room,
    outlives,
    ring,
    stop_ended,
    stopped,
    time_left,
)
from planrunner.machine.timers import LOOK, Timer
from planrunner.machine.verdicts import Verdict, judge, judge_failed, retry_delay, retry_policy
from planrunner.plan.model import Task

_RUNNING_OUT = ("", "pause", "budget", "revision")
"""Reasons for a stop in which what runs may end, and time is used up meanwhile."""

INSTANT_BATCH = 2000
"""Instant tasks started by one decision at the most: bounds one transaction."""


class Decision(NamedTuple):
    """What follows from a state. ``left`` are candidates that were not looked at, since the batch was full."""

    commands: list[Command]
    left: tuple[int, ...] = ()


def decide(state: State, now: float) -> Decision:
    """The commands that follow from the state at ``now`` (seconds since 1970); the same state gives the same commands.

    No commands means: wait for something to happen, or for the ``next_time``.
    """
    if state.ended_at is not None:
        return Decision([])
    if (stop := _stop(state, now)) is not None:
        return Decision([Record(stop)], tuple(state.candidates))
    timers = _due(state, now)
    commands = ring(state, timers) if state.alarms is not None and timers else []
    if state.ledger is not None:
        commands += notices(state, now)
    if not commands and state.failing and not state.stop_reason:
        commands = called_off_beside(state)
    if not commands and state.endings and not state.stop_reason:
        commands = stop_ended(state)
    if commands:
        return Decision(commands, tuple(state.candidates))
    if state.resets and (records := due(state)):
        return Decision(list(records), tuple(state.candidates))
    numbers = sorted({*state.candidates, *[number for _, kind, number in timers if kind == LOOK]})
    commands, ready, left = _looked_at(state, numbers, now)
    if state.shape.reworks:
        commands = before_completing(state, commands)
    if commands and (state.shape.routes_out or state.shape.reworks):
        commands = conclusive(state, commands)
    if state.checkpoints is not None:
        commands = kept_first(state, commands, now)
    compared = {command.number for command in commands if isinstance(command, Compare)}
    if state.edition > 4 and compared:
        # one that ends in a start takes a slot, so the others are looked at once that is known
        chosen: list[Command] = [command for command in commands if getattr(command, "number", -1) in compared]
        return Decision(chosen, tuple(number for number in numbers if number not in compared))
    if any(_upsets(state, command) for command in commands):
        commands, later = _without_beginnings(state, commands)
        left += (*ready, *later)
    else:
        commands = admitted(state, ready, commands, now)
        if state.ledger is not None and state.edition > 9 and any(_upsets(state, command) for command in commands):
            commands, later = _without_beginnings(state, commands)
            left += (*later,)
    if state.compensation_log is not None or state.plan.on_failure == "rollback":
        commands += rollback.continue_rollbacks(state, now)
        if not commands and rollback.busy(state):
            return Decision([])
    if state.meters and not commands:
        commands = pause_meters(state)
    return Decision(commands or _finish(state), left)


def _stop(state: State, now: float) -> StopRequested | None:
    """What the run asks of itself: to stop when its time is over, or so that a revision can be decided."""
    end = _stop_time(state, now)
    if end is not None and end <= now:
        deadline = deadline_of(state)
        return StopRequested("deadline" if deadline is not None and deadline <= now else "time")
    if state.proposal and not state.stop_reason and proposed(state) is not None:
        return StopRequested("revision", state.proposal)
    return None


def _looked_at(state: State, numbers: list[int], now: float) -> tuple[list[Command], list[int], tuple[int, ...]]:
    """What follows from candidates, looked at in their order: commands, those that are ready, and those that are left
    for the next decision."""
    commands: list[Command] = []
    ready: list[int] = []
    for position, number in enumerate(numbers):
        if len(ready) >= INSTANT_BATCH:
            return commands, ready, tuple(numbers[position:])
        _look(state, number, now, commands, ready)
        last = commands[-1] if commands else None
        if isinstance(last, Record) and isinstance(last.event, FrameClosing):
            return commands, ready, tuple(numbers[position + 1 :])  # tasks inside wait until that is recorded
    return commands, ready, ()


def called_off_beside(state: State) -> list[Command]:
    """What still runs on a level that fails, where its plan says `on_failure: cancel`."""
    commands: list[Command] = []
    for number in state.running:
        at = state.tasks[number]
        frame = None if at.outcome is not None or at.uncertain else cut(state, number)
        if frame is None or frame.on_failure != "cancel":
            continue
        if state.alarms is None or number not in state.alarms.stopping:
            failed = f"`{state.specs[frame.failures[0]].id}` failed and the plan's `on_failure` is cancel"
            event = AttemptStopping(state.specs[number].id, at.attempts, "cancelled", "failure", failed)
            commands.append(Record(event))
    return commands


def admitted(state: State, ready: list[int], commands: list[Command], now: float) -> list[Command]:
    """The commands so far, and what follows for the tasks that are ready to start: slots, limits, files to save and
    breakers decide."""
    if state.ledger is None:
        admit(state, ready, commands)
    else:
        admission = Admission(state, now)
        admit(state, admission.admissible(ready, commands), commands, admission)
    if state.saves:
        commands = saved_first(state, commands)
    if state.plan.breakers:
        commands = held_back(state, commands, now)
    return commands


def _upsets(state: State, command: Command) -> bool:
    """Whether a command may keep other tasks from beginning: a task fails or is sent back, a container ends, and all
    that follows while its level fails. Nothing else begins before that is known."""
    if not isinstance(command, Record):
        return isinstance(command, Close)
    event = command.event
    if isinstance(event, TaskSettled):
        return event.status == "failed" or (state.failing > 0 and event.status != "completed")
    return isinstance(event, (FailureResolved, FrameClosing, ResetPlanned))


def _without_beginnings(state: State, commands: list[Command]) -> tuple[list[Command], list[int]]:
    """The commands without those of tasks that have not begun, and the numbers of these tasks."""
    stays: list[Command] = []
    later: list[int] = []
    for command in commands:
        number = getattr(command, "number", -1)
        if number < 0 or state.tasks[number].status in ("running", "in_doubt"):
            stays.append(command)
        else:
            later.append(number)
    return stays, later


def _stop_time(state: State, now: float) -> float | None:
    """When the time of the plan is used up, at the pace of ``now``; None while nothing ends it."""
    plan = state.plan
    limit, deadline = plan.budgets.time, deadline_of(state)
    if (limit is None and deadline is None) or not state.open or state.stop_reason not in _RUNNING_OUT:
        return None
    due = deadline
    if limit is None or plan.budgets.on_exhausted == "gate" or state.active_since is None:
        return due
    if state.ledger is not None:
        limit = time_limit(state) or limit
    spent = now + limit - state.spent_time(now)
    return spent if due is None else min(due, spent)


def next_time(state: State, now: float) -> float | None:
    """When something is to be decided though nothing happens; None: never."""
    times: list[float] = []
    for at, kind, number in state.wheel.entries:
        if kind == LOOK and at <= now and number in state.asked:
            continue  # it was looked at, and waits for what it asked for
        if kind == LOOK or alarm(state, number, kind) is not None:
            times.append(at)
            break
    if (due := _stop_time(state, now)) is not None:
        times.append(due)
    if state.ledger is not None and state.active_since is not None and (due := warning_time(state)) is not None:
        times.append(now + due - state.spent_time(now))
    return min(times, default=None)


def _due(state: State, now: float) -> list[Timer]:
    """The entries of the wheel that are due, the first one first."""
    entries = state.wheel.entries
    return entries[: bisect_left(entries, (now, 1 << 60))] if entries and entries[0][0] <= now else []


def _look(state: State, number: int, now: float, commands: list[Command], ready: list[int]) -> None:
    """One candidate: what its status calls for."""
    task_state = state.tasks[number]
    status = task_state.status
    command: Command | None = None
    if state.held and number in state.held and not (status == "running" and task_state.outcome is None):
        return
    if state.restarts and status not in SETTLED:
        under_way = status == "running" and not (task_state.uncertain and task_state.outcome is None)
        if not under_way and recovery.waits_for_service(state, number):
            return
        command = recovery.omitted_after_service(state, number)
    if command is None:
        why = closed(state, number) if state.closing and status not in SETTLED else ""
        command = _in_closing(state, number, now, why) if why else _by_status(state, number, now, ready)
    if command is not None:
        commands.append(command)


def _by_status(state: State, number: int, now: float, ready: list[int]) -> Command | None:
    """What the status of a task calls for; a task that may start at once joins ``ready``."""
    status = state.tasks[number].status
    match status:
        case "pending" | "blocked":
            return before_attempt(state, number, now, ready)
        case "queued":
            return while_queued(state, number)
        case "running":
            return after_attempt(state, number, now)
        case "in_doubt":
            return _in_doubt(state, number, now, ready)
        case "completed" | "failed" | "skipped" | "omitted" | "cancelled" | "abandoned" | "rolled_back":
            return _resolve(state, number) if number in state.recovering else None
        case _:
            assert_never(status)


def _in_doubt(state: State, number: int, now: float, ready: list[int]) -> Command | None:
    """An attempt of unknown end: it is judged once it has an outcome, given up, tried again or recovered."""
    task_state = state.tasks[number]
    if not task_state.judged:
        return after_attempt(state, number, now)
    if is_given_up(state, number):
        return give_up(state, number)
    if task_state.reason == "retry":
        ready.append(number)
        return None
    return recover(state, number)


def _in_closing(state: State, number: int, now: float, why: str) -> Command | None:
    """What runs is stopped by the driver and ends as cancelled; whatever else is open is cancelled at once."""
    task, task_state = state.specs[number], state.tasks[number]
    under_way = number in state.containers or not task_state.uncertain
    well = task_state.outcome is None or not task_state.outcome.failure or why == "budget"
    if task_state.status == "running" and under_way and well:
        return after_attempt(state, number, now)
    return settle(task, "cancelled", "stopped", f"what it belongs to was stopped: {why}")


def _resolve(state: State, number: int) -> Command | None:
    """A failed task waits for its handlers: the first that completed stands in for it."""
    task = state.specs[number]
    targets = handlers(state, number)
    for target in targets:
        if state.tasks[target].status == "completed" or state.tasks[target].recovered_by:
            return Record(FailureResolved(task.id, state.specs[target].id))
    if all(state.tasks[target].dependency_outcome for target in targets):
        return Record(FailureResolved(task.id))
    return None


def _finish(state: State) -> list[Command]:
    """Nothing to start and nothing to record: wait, park or end."""
    if any(
        state.tasks[number].outcome is None and not (state.restarts and state.tasks[number].uncertain)
        for number in state.running
    ):
        return []
    stops = state.stop_reason not in ("", *FINAL_STOPS)
    if state.asked and (not stops or state.checkpoints is not None):
        return []  # after such a stop it is asked again when the run goes on; files are kept before they are edited
    undoing = state.compensation_log is not None and state.compensation_log.active
    proposes = state.proposal != "" and state.stop_reason not in FINAL_STOPS and proposed(state) is not None
    if state.open or state.finals_open or state.recovering or undoing or proposes:
        if state.stop_reason and state.stop_reason not in FINAL_STOPS:
            return [Record(RunParked(state.stop_reason))]
        if _time_will_tell(state):
            return []
        if not (state.attended and _asks_people(state)):
            return [_stuck(state)]
        # nothing but a person moves the run: until then no time is spent
        return [] if state.active_since is None else [Record(PeopleAwaited())]
    return [End(*ending_of_run(state))]


def _time_will_tell(state: State) -> bool:
    """Something starts again by itself. The time limits of what waits for people keep no process."""
    people = state.counts.get("blocked") or state.counts.get("in_doubt")
    return any(not people or state.tasks[number].status == "pending" for number in state.wheel.waiting())


def _asks_people(state: State) -> bool:
    """A gate or a budget waits for people, one of whom is there."""
    return any(
        task_state.status == "blocked"
        and (task_state.reason == "budget" or (task_state.gate is not None and task_state.gate.waits))
        for task_state in state.tasks
    )


def _stuck(state: State) -> Record:
    """Open tasks, and none that moves: they wait for a person, or for a handler that itself waits for the task it
    should recover. The latter recovers nothing, so the failure stands."""
    waiting = [
        task.id for task, task_state in zip(state.specs, state.tasks) if task_state.status in ("blocked", "in_doubt")
    ]
    if waiting:
        return Record(RunParked("waiting", tuple(waiting)))
    if state.recovering:
        return Record(FailureResolved(state.specs[min(state.recovering)].id))
    open_tasks = [task.id for task, task_state in zip(state.specs, state.tasks) if not task_state.dependency_outcome]
    raise IllegalMove(f"the run can neither go on nor end; undecided: {', '.join(open_tasks[:10])}")


def after_attempt(state: State, number: int, now: float) -> Command | None:
    """What follows for a task that runs: nothing while its attempt goes on, else done, asked about, tried again or
    failed."""
    task = state.specs[number]
    task_state = state.tasks[number]
    if task_state.outcome is None:
        if number in state.containers:
            return step(state, number, now)
        if not task_state.uncertain:
            return None
        if is_given_up(state, number):
            return give_up(state, number)
        rests = state.stop_reason not in ("", "budget") and not outlives(state, number)
        return None if rests else recover(state, number)
    if task_state.outcome.failure in CUT_OFF:
        return stopped(state, task, "stopped: ")
    if task_state.outcome.failure == "cancelled":
        return settle(task, "cancelled", "stopped", task_state.outcome.message)
    if task_state.kept is None and not (
        task_state.outcome.failure or task.expect or task.postconditions or task.failure_modes
    ):
        return settle(task, "completed", "", _at_bound(task, task_state))
    verdict = judge(state, number)
    if verdict.words and "criteria" not in task_state.cleared:
        verdict = judge_failed(task_state.gate, task_state.attempts) or verdict
    if not verdict.failure:
        return _after_success(state, number, verdict, now)
    ends = state.stop_reason in FINAL_STOPS and not outlives(state, number)
    ends = ends or (bool(state.closing) and closed(state, number) == "budget")
    frame = task_state.inner if number in state.containers else None
    ends = ends or (frame is not None and frame.undoing is not None and unclean(frame.undoing))
    attempts, outcome = task_state.attempts - task_state.past, task_state.outcome
    policy = None if ends else retry_policy(task.retry, outcome, attempts, verdict.failure)
    if policy is not None and (policy is task.retry or has_room(state, number)):
        key = f"{state.seed}:{task.id}:{task_state.attempts}"
        due = now + retry_delay(policy, attempts, key, outcome.retry_after)
        if time_left(state, task, due):
            return Record(RetryScheduled(task.id, task_state.attempts, due, verdict.failure))
        verdict = verdict._replace(failure="timeout", reason="timebox", detail=no_room(task, verdict.detail))
    goes_back = number in state.shape.reworks and not ends
    if goes_back and (back := by_edge(state, number, verdict.detail, verdict.failure)):
        return back
    return settle(task, "failed", verdict.reason, verdict.detail, verdict.failure)


def _after_success(state: State, number: int, verdict: Verdict, now: float) -> Command | None:
    """Nothing speaks against the attempt: the task is done, unless criteria in plain words are still to be decided."""
    task, task_state = state.specs[number], state.tasks[number]
    if verdict.words and "criteria" not in task_state.cleared:
        gate = task_state.gate
        asked = gate is not None and (gate.stage, gate.attempt) == ("criteria", task_state.attempts)
        return at_gate(state, number, now) if asked else AskPeople(number, "criteria")
    if task_state.kept is not None and number in state.containers and is_all_kept(state, number):
        return settle(task, "completed", "reused", "unchanged; results of all its tasks reused")
    if verdict.words:
        how = sentence(task_state.gate) if task_state.gate is not None and task_state.gate.stage == "criteria" else ""
    else:
        how = _at_bound(task, task_state)
    return settle(task, "completed", "", how)


def _at_bound(task: Task, task_state: TaskState) -> str:
    """Why a loop ended that may end at its bound."""
    bounded = task.loop is not None and task.loop.at_bound == "continue" and task_state.outcome is not None
    return task_state.outcome.message if bounded and task_state.outcome is not None else ""
