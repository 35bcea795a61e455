"""``decide``: from the state to what should happen next. Pure; the order of policies and nothing else.

How a task that has not begun starts stands last: needs, edges, its condition, settings, gates and a slot.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, assert_never

from planrunner.machine import policies
from planrunner.machine.commands import AskPeople, Close, Command, Compare, End, Record, Start, settle
from planrunner.machine.events import (
    AttemptStopping,
    FailureResolved,
    FrameClosing,
    PeopleAwaited,
    ResetPlanned,
    RetryScheduled,
    RunParked,
    StopRequested,
    TaskDelayed,
    TaskQueued,
    TaskSettled,
)
from planrunner.machine.evolve import CUT_OFF
from planrunner.machine.graph import Frame
from planrunner.machine.names import waits_for_turn
from planrunner.machine.state import State, TaskState
from planrunner.machine.statuses import SETTLED, IllegalMove
from planrunner.machine.stops import (
    FINAL_STOPS,
    closed,
    cut,
    deadline_of,
    ending_of_run,
    give_up,
    is_given_up,
    main_part_done,
    not_run,
    others_done,
    outlives,
    stop_detail,
    stop_ended,
    stopped,
    task_deadline,
    task_deadline_text,
)
from planrunner.machine.timers import LOOK, Timer
from planrunner.plan.model import Task
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.machine.admission import Admission
    from planrunner.machine.verdicts import Verdict

_RUNNING_OUT = ("", "pause", "budget", "revision")
"""Reasons for a stop in which what runs may end, and time is used up meanwhile."""

INSTANT_BATCH = 2000
"""Instant tasks started by one decision at the most: bounds one transaction."""


class Decision(Struct):
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
    if commands := _first_of_all(state, timers, now):
        return Decision(commands, tuple(state.candidates))
    numbers = sorted({*state.candidates, *[number for _, kind, number in timers if kind == LOOK]})
    commands, ready, left = _looked_at(state, numbers, now)
    commands = _in_their_place(state, commands, now)
    if any(isinstance(command, Compare) for command in commands):
        # one that ends in a start takes a slot, so the others are looked at once that is known
        compared = {command.number for command in commands if isinstance(command, Compare)}
        chosen: list[Command] = [command for command in commands if getattr(command, "number", -1) in compared]
        return Decision(chosen, tuple(number for number in numbers if number not in compared))
    unsettled = any(_upsets(state, command) for command in commands)
    if unsettled:
        left += tuple(ready)
    else:
        commands = admitted(state, ready, commands, now)
        unsettled = state.ledger is not None and any(_upsets(state, command) for command in commands)
    if unsettled:
        commands, later = _without_beginnings(state, commands)
        left += tuple(later)
    if state.compensation_log is not None or state.plan.on_failure == "rollback":
        commands += policies.continue_rollbacks(state, now)
        if not commands and policies.is_undoing(state):
            return Decision([])
    if state.meters and not commands:
        commands = policies.pause_meters(state)
    return Decision(commands or _finish(state), left)


def _first_of_all(state: State, timers: list[Timer], now: float) -> list[Command]:
    """What comes before any task is looked at: alarms and warnings, what is called off, and resets."""
    commands = policies.ring(state, timers) if state.alarms is not None and timers else []
    if state.ledger is not None:
        commands += policies.budget_notices(state, now)
    if not commands and state.failing and not state.stop_reason:
        commands = called_off_beside(state)
    if not commands and state.endings and not state.stop_reason:
        commands = stop_ended(state)
    return commands or (list(policies.resets_due(state)) if state.resets else [])


def _in_their_place(state: State, commands: list[Command], now: float) -> list[Command]:
    """The commands as the policies of the plan let them stand: each goes through those in force, in their order."""
    shape = state.shape
    if not commands or not (shape.reworks or shape.routes_out or state.checkpoints is not None):
        return commands
    chain = [policies.redirected, policies.conclusive] if shape.reworks else []
    chain = chain or ([policies.conclusive] if shape.routes_out else [])
    chain += [policies.kept_first] if state.checkpoints is not None else []
    stand: list[Command] = []
    for command in commands:
        current: Command | None = command
        for policy in chain:
            current = None if current is None else policy(state, current, now)
        if current is not None:
            stand.append(current)
    return stand


def _stop(state: State, now: float) -> StopRequested | None:
    """What the run asks of itself: to stop when its time is over, or so that a revision can be decided."""
    end = _stop_time(state, now)
    if end is not None and end <= now:
        deadline = deadline_of(state)
        return StopRequested("deadline" if deadline is not None and deadline <= now else "time")
    if state.proposal and not state.stop_reason and policies.proposed(state) is not None:
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
        admission = policies.new_admission(state, now)
        admit(state, admission.admissible(ready, commands), commands, admission)
    if state.saves:
        commands = policies.saved_first(state, commands)
    if state.plan.breakers:
        commands = policies.held_back(state, commands, now)
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
        limit = policies.time_limit(state) or limit
    spent = now + limit - state.spent_time(now)
    return spent if due is None else min(due, spent)


def next_time(state: State, now: float) -> float | None:
    """When something is to be decided though nothing happens; None: never."""
    times: list[float] = []
    for at, kind, number in state.wheel.entries:
        if kind == LOOK and at <= now and number in state.asked:
            continue  # it was looked at, and waits for what it asked for
        if kind == LOOK or policies.alarm(state, number, kind) is not None:
            times.append(at)
            break
    if (due := _stop_time(state, now)) is not None:
        times.append(due)
    if state.ledger is not None and state.active_since is not None:
        warning = policies.warning_time(state)
        times += () if warning is None else [now + warning - state.spent_time(now)]
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
        if not under_way and policies.waits_for_service(state, number):
            return
        command = policies.omitted_after_service(state, number)
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
    return policies.recover(state, number)


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
    targets = policies.handlers(state, number)
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
    stops = bool(state.stop_reason) and state.stop_reason not in FINAL_STOPS
    if state.asked and (not stops or state.checkpoints is not None):
        return []  # after such a stop it is asked again when the run goes on; files are kept before they are edited
    undoing = state.compensation_log is not None and state.compensation_log.active
    proposes = state.proposal != "" and state.stop_reason not in FINAL_STOPS and policies.proposed(state) is not None
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
            return policies.container_step(state, number, now)
        if not task_state.uncertain:
            return None
        if is_given_up(state, number):
            return give_up(state, number)
        rests = state.stop_reason not in ("", "budget") and not outlives(state, number)
        return None if rests else policies.recover(state, number)
    if task_state.outcome.failure in CUT_OFF:
        return stopped(state, task, "stopped: ")
    if task_state.outcome.failure == "cancelled":
        return settle(task, "cancelled", "stopped", task_state.outcome.message)
    if task_state.kept is None and not (
        task_state.outcome.failure or task.expect or task.postconditions or task.failure_modes
    ):
        return settle(task, "completed", "", _at_bound(task, task_state))
    verdict = policies.judge(state, number)
    if verdict.words and "criteria" not in task_state.cleared:
        verdict = policies.judge_failed(task_state.gate, task_state.attempts) or verdict
    if not verdict.failure:
        return _after_success(state, number, verdict, now)
    ends = state.stop_reason in FINAL_STOPS and not outlives(state, number)
    ends = ends or (bool(state.closing) and closed(state, number) == "budget")
    frame = task_state.inner if number in state.containers else None
    ends = ends or (frame is not None and frame.undoing is not None and policies.left_changes(frame.undoing))
    attempts, outcome = task_state.attempts - task_state.past, task_state.outcome
    policy = None if ends else policies.retry_policy(task.retry, outcome, attempts, verdict.failure)
    if policy is not None and (policy is task.retry or policies.has_room(state, number)):
        key = f"{state.seed}:{task.id}:{task_state.attempts}"
        due = now + policies.retry_delay(policy, attempts, key, outcome.retry_after)
        if policies.time_left(state, task, due):
            return Record(RetryScheduled(task.id, task_state.attempts, due, verdict.failure))
        verdict = verdict._replace(failure="timeout", reason="timebox", detail=policies.no_room(task, verdict.detail))
    goes_back = number in state.shape.reworks and not ends
    if goes_back and (back := policies.sent_back(state, number, verdict.detail, verdict.failure)):
        return back
    return settle(task, "failed", verdict.reason, verdict.detail, verdict.failure)


def _after_success(state: State, number: int, verdict: Verdict, now: float) -> Command | None:
    """Nothing speaks against the attempt: the task is done, unless criteria in plain words are still to be decided."""
    task, task_state = state.specs[number], state.tasks[number]
    if verdict.words and "criteria" not in task_state.cleared:
        gate = task_state.gate
        asked = gate is not None and (gate.stage, gate.attempt) == ("criteria", task_state.attempts)
        return at_gate(state, number, now) if asked else AskPeople(number, "criteria")
    if task_state.kept is not None and number in state.containers and policies.is_all_kept(state, number):
        return settle(task, "completed", "reused", "unchanged; results of all its tasks reused")
    how = "" if verdict.words else _at_bound(task, task_state)
    if verdict.words and task_state.gate is not None and task_state.gate.stage == "criteria":
        how = policies.sentence_of_gate(task_state.gate)
    return settle(task, "completed", "", how)


def _at_bound(task: Task, task_state: TaskState) -> str:
    """Why a loop ended that may end at its bound."""
    bounded = task.loop is not None and task.loop.at_bound == "continue" and task_state.outcome is not None
    return task_state.outcome.message if bounded and task_state.outcome is not None else ""


# Starts

INSTRUCTION = "instruction"
"""The stage of the gate at which a task in plain words waits for the person who carries it out."""


def before_attempt(state: State, number: int, now: float, ready: list[int]) -> Command | None:
    task = state.specs[number]
    task_state = state.tasks[number]
    if state.stop_reason and not outlives(state, number):
        return stopped(state, task)
    frame = task_state.frame
    if state.endings and (command := not_run(state, number)) is not None:
        return command
    if task_state.gate is not None and not task_state.gate.is_behind:
        return at_gate(state, number, now)
    if task.finally_ and (not main_part_done(state, frame) or _undoes_first(state, frame)):
        return None
    if task.concluding:
        goes_on, command = others_settled_first(state, number)
        if not goes_on:
            return command
    if (due := state.wheel.due(number)) is not None:
        if due <= now:
            return (
                _conditions(state, number, now, ready) if task_state.reason == "delay" else _begin(state, number, ready)
            )
        failing = cut(state, number)
        return None if failing is None else settle(task, "cancelled", "stopped", stop_detail(state, number, failing))
    if number in state.shape.uncounted or task_state.broken >= 0 or number in state.shape.routes_in:
        goes_on, command = policies.needs_and_edges(state, number)
        if not goes_on:
            return command
    elif task_state.missing:
        return None
    if state.failing and (failing := cut(state, number)) is not None:
        return settle(task, "cancelled", "stopped", stop_detail(state, number, failing))
    if (frame.limit and number >= frame.limit) or (state.turns and waits_for_turn(state, number)):
        return None
    if (task.due is not None or task.due_in is not None) and (task_deadline(state, task) or 0.0) <= now:
        return Record(TaskSettled(task.id, "failed", "deadline", task_deadline_text(task), "timeout"))
    return _conditions(state, number, now, ready)


def _undoes_first(state: State, frame: Frame) -> bool:
    if frame.linked is not None:
        return policies.undone_first(state, frame)
    if frame is not state.top or (state.compensation_log is None and state.plan.on_failure != "rollback"):
        return False
    return policies.comes_first(state)


def at_gate(state: State, number: int, now: float) -> Command | None:
    """A task that asks people, or has their answer. Where its level fails, only work that is done still asks."""
    gate = state.tasks[number].gate
    assert gate is not None
    if state.failing and gate.stage != "criteria" and not gate.decision and (failing := cut(state, number)) is not None:
        return settle(state.specs[number], "cancelled", "stopped", stop_detail(state, number, failing))
    return policies.gate_step(state, number, now)


def while_queued(state: State, number: int) -> Command | None:
    task = state.specs[number]
    if state.endings and (command := not_run(state, number)) is not None:
        return command
    if state.stop_reason and not outlives(state, number):
        return stopped(state, task)
    if state.failing and (failing := cut(state, number)) is not None:
        return settle(task, "cancelled", "stopped", stop_detail(state, number, failing))
    return None


def _conditions(state: State, number: int, now: float, ready: list[int]) -> Command | None:
    """Needs and edges allow the task: ``when``, preconditions and what kind of work it is decide."""
    task = state.specs[number]
    task_state = state.tasks[number]
    if task.when is not None or task.preconditions:
        goes_on, command = policies.conditions_first(state, number)
        if not goes_on:
            return command
    labelled = task.labels and (state.plan.gated or task_state.frame.owner >= 0)
    hooked = task_state.frame.kind == "items" and policies.hook_asks(state, number)
    if task.gate is not None or state.restricted or labelled or hooked:
        if task.gate is not None and task_state.kept is not None and policies.is_still_approved(state, number):
            return settle(task, "completed", "reused", "unchanged; the earlier decision is reused")
        if stage := policies.stage_before(state, number):
            return AskPeople(number, stage)
    if not task.uses and number not in state.containers and task.gate is None:
        return AskPeople(number, INSTRUCTION)
    if task_state.status == "blocked" and task_state.reason != "budget":
        return None
    if task.computed and (command := _settings(state, number)) is not None:
        return command
    if task.delay is not None and state.wheel.due(number) is None and task_state.attempts == task_state.past:
        detail = "its `delay` before it starts"
        return Record(TaskDelayed(task.id, now + task.delay, detail=detail))
    return _begin(state, number, ready)


def _begin(state: State, number: int, ready: list[int]) -> Command | None:
    """A task that holds others begins at once; any other waits for a slot."""
    if state.specs[number].computed and (command := _settings(state, number)) is not None:
        return command
    if state.specs[number].fresh is not None:
        if number in state.asked:
            return None
        if command := policies.freshness_first(state, number):
            return command
    if number in state.containers:
        return policies.begin(state, number)
    if state.tasks[number].kept is not None and (command := policies.compared(state, number)):
        return command
    ready.append(number)
    return None


def _settings(state: State, number: int) -> Command | None:
    """The settings that the plan computes, which come before anything that goes by them."""
    task, visit = state.specs[number], state.tasks[number].visit
    return policies.compute(state, number) if any(each.visit != visit for each in task.computed) else None


def admit(state: State, ready: list[int], commands: list[Command], admission: Admission | None = None) -> None:
    """Give slots to the best of those that became ready and those that wait; the rest of the former queue up."""
    tasks = state.specs
    slow: list[tuple[int, int]] = []
    waiting: list[tuple[int, int]] = []
    for number in ready:
        if not state.trait(tasks[number]).instant:
            slow.append((-tasks[number].priority, number))
        elif admission is None or admission.take(number):
            commands.append(_start(state, number, admission))
        else:
            waiting.append((-tasks[number].priority, number))
    free = state.max_parallel - state.slots
    chosen = _choose(state, slow, free, admission) if free > 0 and (slow or state.queue.lines) else []
    if chosen and state.queue.lines:  # one that waits may be settled by this very decision
        over = {
            each.event.task for each in commands if isinstance(each, Record) and isinstance(each.event, TaskSettled)
        }
        chosen = [number for number in chosen if tasks[number].id not in over]
    commands.extend(_start(state, number, admission) for number in chosen)
    if slow or waiting:
        started = set(chosen)
        commands.extend(
            Record(TaskQueued(tasks[number].id)) for _, number in sorted(slow + waiting) if number not in started
        )


def _start(state: State, number: int, admission: Admission | None) -> Start:
    """The next attempt, or the same one again where a doubt was settled that way."""
    task_state = state.tasks[number]
    if task_state.uncertain:
        return policies.reissue(state, number)
    if admission is None:
        return Start(number, task_state.attempts + 1, 0, {})
    return Start(number, task_state.attempts + 1, 0, admission.chosen(number))


def _choose(state: State, fresh: list[tuple[int, int]], free: int, admission: Admission | None) -> list[int]:
    """The tasks that start now, best first, as slots, label limits and budgets allow."""
    if state.stop_reason and state.stop_reason not in FINAL_STOPS:
        return []
    if admission is None and not (state.queue.lines or state.limits) and len(fresh) <= free:
        return [number for _, number in sorted(fresh)]
    room = {label: limit - state.labels_running.get(label, 0) for label, limit in state.limits.items()}
    most = free if admission is None else free + admission.PATIENCE
    lines: dict[tuple[str, ...], list[tuple[int, int]]] = {
        labels: [(-priority, -minus) for priority, minus in line[-most:]] for labels, line in state.queue.lines.items()
    }
    for entry in fresh:
        lines.setdefault(state.limited_labels(state.specs[entry[1]]), []).append(entry)
    for line in lines.values():
        line.sort(reverse=True)
    chosen: list[int] = []
    while len(chosen) < free:
        allowed = [labels for labels, line in lines.items() if line and all(room[label] > 0 for label in labels)]
        if not allowed or (admission is not None and admission.refused > admission.PATIENCE):
            break
        labels = min(allowed, key=lambda key: lines[key][-1])
        number = lines[labels].pop()[1]
        if admission is not None and not admission.take(number):
            continue
        chosen.append(number)
        for label in labels:
            room[label] -= 1
    return chosen


def others_settled_first(state: State, number: int) -> tuple[bool, Command | None]:
    """Whether the task goes on to start, and where it does not the command that comes instead, if there is one: of a
    plan that has failed, or a task of which was cancelled, nothing is asked any more."""
    frame = state.tasks[number].frame
    if not others_done(state, frame):
        return False, None
    tasks, inner = state.tasks, range(frame.first, frame.first + frame.size)
    broken = frame.failures or [at for at in inner if tasks[at].dependency_outcome == tasks[at].status == "cancelled"]
    if broken:
        first, word = broken[0], "failed" if frame.failures else "was cancelled"
        return False, settle(state.specs[number], "omitted", "done", f"`{state.specs[first].id}` {word}")
    return True, None
