"""``decide``: from the state to what should happen next. Pure; the order of policies and nothing else."""

from __future__ import annotations

from typing import NamedTuple

from planrunner.machine import recovery, rollback
from planrunner.machine.admission import Fitting, held_back
from planrunner.machine.budgets import notices, time_limit, warning_time
from planrunner.machine.checkpoints import kept_first
from planrunner.machine.commands import AskPeople, Command, End, Record, settle
from planrunner.machine.compensation_log import Rollback
from planrunner.machine.containers import pause_meters, step
from planrunner.machine.events import (
    AttemptStopping,
    FailureResolved,
    FrameClosing,
    PeopleAwaited,
    RetryScheduled,
    RunParked,
    StopRequested,
    TaskSettled,
)
from planrunner.machine.evolve import CUT_OFF
from planrunner.machine.gates import sentence
from planrunner.machine.joins import conclusive, handlers
from planrunner.machine.recovery import recover
from planrunner.machine.reuse import is_all_kept
from planrunner.machine.rework import before_completing, by_edge, due
from planrunner.machine.rollback import saved_first, unclean
from planrunner.machine.start import admit, at_gate, before_attempt, while_queued
from planrunner.machine.state import State, TaskState
from planrunner.machine.statuses import SETTLED, IllegalMove
from planrunner.machine.stops import (
    FINAL_STOPS,
    OUT_OF_BUDGET,
    called_off,
    closed,
    cut,
    deadline_of,
    give_up,
    is_given_up,
    next_alarm,
    no_room,
    outlives,
    ring,
    stop_ended,
    stopped,
    time_left,
)
from planrunner.machine.verdicts import Verdict, is_retried, judge, judge_failed, retry_delay
from planrunner.plan.model import Task

INSTANT_BATCH = 2000
"""Instant tasks started by one decision at the most: bounds one transaction."""


class Decision(NamedTuple):
    """What follows from a state. ``left`` are candidates that were not looked at, since the batch was full."""

    commands: list[Command]
    left: tuple[int, ...] = ()


_NOTHING = Decision([])


def decide(state: State, now: float) -> Decision:
    """The commands that follow from the state at ``now`` (seconds since 1970); the same state gives the same commands.

    No commands means: wait for something to happen, or for the first of ``state.timers``.
    """
    if state.ended_at is not None:
        return _NOTHING
    if reason := _out_of_time(state, now):
        return Decision([Record(StopRequested(reason))], tuple(state.candidates))
    if first := _beforehand(state, now):
        return Decision(first, tuple(state.candidates))
    commands: list[Command] = []
    ready: list[int] = []
    if state.resets and (records := due(state)):
        return Decision(list(records), tuple(state.candidates))
    numbers = _due(state, now)
    for position, number in enumerate(numbers):
        if len(ready) >= INSTANT_BATCH:
            left = tuple(numbers[position:])
            break
        _look(state, number, now, commands, ready)
        if state.holders and commands and _closes(commands[-1]):
            left = tuple(numbers[position + 1 :])  # what stands inside is looked at once that is known
            break
    else:
        left = ()
    if state.shape.reworks:
        commands = before_completing(state, commands)
    if commands and (state.shape.routes_out or state.shape.reworks):
        commands = conclusive(state, commands)
    if state.checkpoints is not None:
        commands = kept_first(state, commands, now)
    if state.edition > 4 and (compared := _compared(commands)):
        # one that ends in a start takes a slot, so the others are looked at once that is known
        chosen: list[Command] = [command for command in commands if getattr(command, "number", -1) in compared]
        return Decision(chosen, tuple(number for number in numbers if number not in compared))
    if any(_upsets(state, command) for command in commands):
        commands, later = _without_beginnings(state, commands)
        left += (*ready, *later)
    else:
        commands = admitted(state, ready, commands, now)
    if state.debts is not None or state.plan.on_failure == "rollback":
        commands += rollback.step(state, now)
        if not commands and rollback.busy(state):
            return _NOTHING
    if state.stints and not commands:
        commands = pause_meters(state)
    return Decision(commands or _finish(state), left)


def _beforehand(state: State, now: float) -> list[Command]:
    """What is decided before any task is looked at."""
    if (state.alarms is not None or state.ledger is not None) and (first := _first(state, now)):
        return first
    if state.failing and not state.stop_reason and (first := called_off_beside(state)):
        return first
    if state.endings and not state.stop_reason:
        return list(stop_ended(state))
    return []


def called_off_beside(state: State) -> list[Command]:
    """What still runs on a level that fails, where its plan says `on_failure: cancel`."""
    found: list[Command] = []
    for number in state.running:
        at = state.tasks[number]
        frame = None if at.outcome is not None or at.uncertain else cut(state, number)
        if frame is None or frame.on_failure != "cancel":
            continue
        if state.alarms is None or number not in state.alarms.stopping:
            failed = f"`{state.specs[frame.failures[0]].id}` failed and the plan's `on_failure` is cancel"
            event = AttemptStopping(state.specs[number].id, at.attempts, "cancelled", "failure", failed)
            found.append(Record(event))
    return found


def admitted(state: State, ready: list[int], commands: list[Command], now: float) -> list[Command]:
    """The commands so far, and what follows for the tasks that are ready to start: slots, limits, files to save and
    breakers decide."""
    if state.ledger is None:
        admit(state, ready, commands)
    else:
        fitting = Fitting(state, now)
        admit(state, fitting.sift(ready, commands), commands, fitting)
    if state.saves:
        commands = saved_first(state, commands)
    if state.plan.breakers:
        commands = held_back(state, commands, now)
    return commands


def _upsets(state: State, command: Command) -> bool:
    """Whether a command may keep other tasks from beginning: a task fails or is sent back, a container ends, and all
    that follows while its level fails. Nothing else begins before that is known."""
    if not isinstance(command, Record):
        return command.__class__.__name__ == "Close"
    event = command.event
    if isinstance(event, TaskSettled):
        return event.status == "failed" or (state.failing > 0 and event.status != "completed")
    return event.__class__.__name__ in ("FailureResolved", "FrameClosing", "ResetPlanned")


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


def _compared(commands: list[Command]) -> set[int]:
    """The tasks whose earlier result is held against the call that they would make now."""
    return {getattr(command, "number", -1) for command in commands if command.__class__.__name__ == "Compare"}


def _closes(command: Command) -> bool:
    return isinstance(command, Record) and isinstance(command.event, FrameClosing)


def _first(state: State, now: float) -> list[Command]:
    """What comes before everything else: attempts that ran too long, and warnings about budgets."""
    found: list[Command] = []
    if state.alarms is not None and state.alarms.due:
        found += ring(state, now)
    if state.ledger is not None:
        found += notices(state, now)
    return found


def _out_of_time(state: State, now: float) -> str:
    """``deadline`` or ``time``, the limit that ends the run now; empty while none does."""
    due = _stop_time(state, now)
    if due is None or due > now:
        return ""
    deadline = deadline_of(state)
    return "deadline" if deadline is not None and deadline <= now else "time"


def _stop_time(state: State, now: float) -> float | None:
    """When the time of the plan is used up, at the pace of ``now``; None while nothing ends it."""
    plan = state.plan
    limit, deadline = plan.budgets.time, deadline_of(state)
    if (limit is None and deadline is None) or not state.open or state.stop_reason not in ("", "pause", "budget"):
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
    found = [state.timers[0][0]] if state.timers else []
    if (due := _stop_time(state, now)) is not None:
        found.append(due)
    if state.alarms is not None and state.alarms.due and (due := next_alarm(state)) is not None:
        found.append(due)
    if state.ledger is not None and state.active_since is not None and (due := warning_time(state)) is not None:
        found.append(now + due - state.spent_time(now))
    return min(found, default=None)


def _due(state: State, now: float) -> list[int]:
    numbers = set(state.candidates)
    for at, number in state.timers:
        if at > now:
            break
        numbers.add(number)
    return sorted(numbers)


def _look(state: State, number: int, now: float, commands: list[Command], ready: list[int]) -> None:
    """One candidate: what its status calls for."""
    found = state.tasks[number]
    command: Command | None = None
    if state.held and number in state.held and not (found.status == "running" and found.outcome is None):
        return
    if state.restarts and found.status not in SETTLED:
        if not _is_under_way(found) and recovery.waits_for_service(state, number):
            return
        command = recovery.omitted_after_service(state, number)
    if command is not None:
        pass
    elif state.closing and found.status not in SETTLED and (why := closed(state, number)):
        command = _in_closing(state, number, now, why)
    elif found.status == "running":
        command = after_attempt(state, number, now)
    elif found.status in ("pending", "blocked"):
        command = before_attempt(state, number, now, ready)
    elif found.status == "queued":
        command = while_queued(state, number)
    elif found.status == "in_doubt" and not found.judged:
        command = after_attempt(state, number, now)
    elif found.status == "in_doubt" and is_given_up(state, number):
        command = give_up(state, number)
    elif found.status == "in_doubt" and found.reason == "retry":
        ready.append(number)
    elif found.status == "in_doubt":
        command = recover_attempt(state, number)
    elif number in state.recovering:
        command = _resolve(state, number)
    if command is not None:
        commands.append(command)


def _is_under_way(found: TaskState) -> bool:
    """Whether a task runs, and its attempt is that of this runner."""
    return found.status == "running" and not (found.uncertain and found.outcome is None)


def _in_closing(state: State, number: int, now: float, why: str) -> Command | None:
    """What runs is stopped by the driver and ends as cancelled; whatever else is open is cancelled at once."""
    task, found = state.specs[number], state.tasks[number]
    under_way = number in state.holders or not found.uncertain
    well = found.outcome is None or not found.outcome.failure or why == "budget"
    if found.status == "running" and under_way and well:
        return after_attempt(state, number, now)
    return settle(task, "cancelled", "stopped", f"what it belongs to was stopped: {why}")


def _resolve(state: State, number: int) -> Command | None:
    """A failed task waits for its handlers: the first that completed stands in for it."""
    task = state.specs[number]
    targets = handlers(state, number)
    for target in targets:
        if state.tasks[target].status == "completed" or state.tasks[target].recovered_by:
            return Record(FailureResolved(task.id, state.specs[target].id))
    if all(state.tasks[target].standing for target in targets):
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
        return []  # after such a stop it is asked again when the run goes on; files are kept before somebody edits them
    undoing = state.debts is not None and state.debts.active
    if state.open or state.finals_open or state.recovering or undoing:
        if state.stop_reason and state.stop_reason not in FINAL_STOPS:
            return [Record(RunParked(state.stop_reason))]
        if _time_will_tell(state):
            return []
        return _people(state) if state.attended and _asks_people(state) else [_stuck(state)]
    if state.stop_reason in OUT_OF_BUDGET:
        return [End("failed", "deadline" if state.stop_reason == "deadline" else "budget")]
    if state.debts is not None and state.debts.main.status:
        return [_after_rollback(state, state.debts.main)]
    if state.stop_reason in FINAL_STOPS:
        return [End("cancelled", state.stop_reason)]
    return [_by_tasks(state)]


def _by_tasks(state: State) -> End:
    """The end of a run that nobody stopped."""
    if state.failures:
        return End("failed", "failed")
    if state.top.ended >= 0:
        return End("completed")
    return End("cancelled", "task") if called_off(state) else End("completed")


def _after_rollback(state: State, rollback: Rollback) -> End:
    """A run that was undone did not complete, whatever it was before."""
    if rollback.reason == "doubt":
        return _by_tasks(state)
    return End("failed" if state.failures else "cancelled", rollback.status)


def _time_will_tell(state: State) -> bool:
    """Something starts again by itself. The time limits of what waits for people keep no process."""
    if not state.timers:
        return False
    people = state.counts.get("blocked") or state.counts.get("in_doubt")
    return not people or any(state.tasks[number].status == "pending" for _, number in state.timers)


def _people(state: State) -> list[Command]:
    """Somebody at the terminal is awaited, and nothing else: until then no time is spent."""
    if state.active_since is None:
        return []
    return [Record(PeopleAwaited())]


def _asks_people(state: State) -> bool:
    """A gate or a budget waits for people, one of whom is there."""
    return any(
        found.status == "blocked" and (found.reason == "budget" or (found.gate is not None and found.gate.waits))
        for found in state.tasks
    )


def _stuck(state: State) -> Record:
    """Open tasks, and none that moves: they wait for a person, or for a handler that itself waits for the task it
    should recover. The latter recovers nothing, so the failure stands."""
    waiting = [task.id for task, found in zip(state.specs, state.tasks) if found.status in ("blocked", "in_doubt")]
    if waiting:
        return Record(RunParked("waiting", tuple(waiting)))
    if state.recovering:
        return Record(FailureResolved(state.specs[min(state.recovering)].id))
    open_tasks = [task.id for task, found in zip(state.specs, state.tasks) if not found.standing]
    raise IllegalMove(f"the run can neither go on nor end; undecided: {', '.join(open_tasks[:10])}")


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
        verdict = judge_failed(found.gate, found.attempts) or verdict
    if not verdict.failure:
        return _after_success(state, number, verdict, now)
    ends = state.stop_reason in FINAL_STOPS and not outlives(state, number)
    ends = ends or (bool(state.closing) and closed(state, number) == "budget")
    ends = ends or (number in state.holders and _left_behind(state, number))
    if not ends and is_retried(task.retry, found.attempts - found.past, verdict.failure):
        key = f"{state.seed}:{task.id}:{found.attempts}"
        due = now + retry_delay(task.retry, found.attempts - found.past, key)
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
