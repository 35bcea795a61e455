"""Undoing what a run did: last-in first-out, one at a time, registered before each task starts.

A rollback begins when the plan says so after a failure, when an attempt of unknown end is settled that way, or when a
person asks. It is made of events like everything else, so that one cut off in the middle goes on: the undo that was
under way is issued again with its key, those that ended are never repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planrunner.machine import budgets
from planrunner.machine.commands import Command, Record, Save, Start, Undo
from planrunner.machine.compensation import (
    acted,
    bare,
    current,
    inside,
    is_saved,
    outstanding,
    rests_on,
    selected,
    started,
    steps_of,
    takes_back,
)
from planrunner.machine.events import RollbackEnded, RollbackStarted, TaskSettled, UndoScheduled, UndoSettled
from planrunner.machine.graph import Rollback
from planrunner.machine.names import owners
from planrunner.machine.state import CompensationLog, State, UndoStep
from planrunner.machine.stops import FINAL_STOPS, GOES_ON, OUT_OF_BUDGET, closed, cut, main_part_done
from planrunner.machine.verdicts import retry_delay, retry_policy
from planrunner.plan.model import Retry, RollbackPolicy

if TYPE_CHECKING:
    from planrunner.machine.graph import Frame


def comes_first(state: State) -> bool:
    """What stands under the plan's ``finally`` waits: something is undone before it."""
    main = None if state.compensation_log is None else state.compensation_log.main
    return is_due(state) or (main is not None and main.active and main.reason != "doubt")


def is_due(state: State) -> bool:
    """The main part of a plan with ``on_failure: rollback`` is settled and failed, and nothing of it is undone yet. A
    run that a person cancelled is left as it is."""
    if state.plan.on_failure != "rollback" or not (state.failures or state.stop_reason in OUT_OF_BUDGET):
        return False
    compensation_log = state.compensation_log
    if compensation_log is not None and (
        compensation_log.main.active
        or (compensation_log.main.status and not _has_started_since(state, compensation_log))
    ):
        return False
    return state.stop_reason in GOES_ON and main_part_done(state, state.top)


def _has_started_since(state: State, compensation_log: CompensationLog) -> bool:
    """Whether there is something to undo that the last rollback did not see; what the plan's ``finally`` does stays."""
    if compensation_log.ranks <= compensation_log.through:
        return False
    return any(
        step.rank > compensation_log.through and not state.specs[[*owners(state, step.number), step.number][0]].finally_
        for step in compensation_log.steps
    )


def busy(state: State) -> bool:
    """An undo is under way, or waits for its next attempt."""
    compensation_log = state.compensation_log
    return compensation_log is not None and any(
        not step.cut and (step.due is None or state.stop_reason in GOES_ON)
        for step in map(compensation_log.steps.__getitem__, compensation_log.doing.values())
    )


def undoing(state: State, number: int, by: str = "") -> RollbackStarted | None:
    """The rollback that settles an attempt of unknown end; None where nothing says how the task is undone."""
    positions = steps_of(state, number)
    return started(state, RollbackStarted("doubt", (), (), by=by), positions) if positions else None


def continue_rollbacks(state: State, now: float) -> list[Command]:
    """What follows for the rollbacks of a run; nothing while what can be undone is under way or none is called for.
    Those of linked plans go on side by side, that of the run comes after them."""
    compensation_log = state.compensation_log
    if compensation_log is None or not compensation_log.active:
        return [_by_failure(state)] if is_due(state) else []
    commands: list[Command] = []
    doing = [compensation_log.steps[at] for at in compensation_log.doing.values()]
    room = state.max_parallel - sum(not step.cut and step.due is None and step.outcome is None for step in doing)
    for rollback in compensation_log.frames.values():
        command = _continue(state, compensation_log, rollback, now)
        if isinstance(command, Undo):
            room -= 1
        if command is not None and (room >= 0 or not isinstance(command, Undo)):
            commands.append(command)
    if compensation_log.main.active:
        command = (
            None
            if compensation_log.frames and compensation_log.main.reason != "doubt"
            else _continue(state, compensation_log, compensation_log.main, now)
        )
        return commands if command is None else [*commands, command]
    return [*commands, _by_failure(state)] if is_due(state) else commands


def _continue(state: State, compensation_log: CompensationLog, rollback: Rollback, now: float) -> Command | None:
    doing = current(compensation_log, rollback)
    if doing is not None and doing.outcome is not None:
        return _after(state, compensation_log, rollback, doing, now)
    if state.stop_reason not in GOES_ON:
        given_up = state.stop_reason in FINAL_STOPS and (doing is None or doing.cut or doing.due is not None)
        return _ended(state, rollback, failed=True) if given_up else None
    if doing is None:
        return _next(state, compensation_log, rollback, now)
    assert rollback.current is not None
    if doing.cut:
        return Undo(rollback.current, doing.last, doing.reissues + 1, budgets.undo_reserved(state, rollback.current))
    if doing.due is not None and doing.due <= now:
        return _undo(state, compensation_log, rollback, rollback.current)
    return None


def _ended(state: State, rollback: Rollback, *, failed: bool) -> Record:
    within = state.specs[rollback.owner].id if rollback.owner >= 0 else ""
    return Record(RollbackEnded("rollback_failed" if failed else "rolled_back", within))


def _by_failure(state: State) -> Record:
    policy = state.plan.rollback or RollbackPolicy()
    positions = selected(state, outstanding(state), policy.only) if state.compensation_log is not None else []
    event = RollbackStarted("failure", (), (), policy.mode == "strict")
    if not policy.only:
        event = event._replace(bare=tuple(state.specs[number].id for number in bare(state)))
    return Record(started(state, event, positions))


def _next(state: State, compensation_log: CompensationLog, rollback: Rollback, now: float) -> Command:
    for number, positions in rollback.doubts.items():
        waits = state.tasks[number].status == "in_doubt" and state.tasks[number].reason == "rollback"
        if waits and not any(at in rollback.todo for at in positions):
            return _settle_doubt(state, compensation_log, number, positions)
    if not rollback.todo:
        return _ended(state, rollback, failed=any(compensation_log.steps[at].fate != "undone" for at in rollback.done))
    at = rollback.todo[0]
    if why := _given_up(state, compensation_log, rollback, at, now):
        return Record(UndoSettled(state.specs[compensation_log.steps[at].number].id, at, "left", why))
    return _undo(state, compensation_log, rollback, at)


def _given_up(state: State, compensation_log: CompensationLog, rollback: Rollback, at: int, now: float) -> str:
    if rollback.strict and (
        failed := [each for each in rollback.done if compensation_log.steps[each].fate == "failed"]
    ):
        task = state.specs[compensation_log.steps[failed[0]].number].id
        return f"not tried: `{task}` could not be undone and the rollback is strict"
    if compensation_log.steps[at].kind != "action" and (task := _stands_under(state, compensation_log, rollback, at)):
        return f"not tried: `{task}` rests on it and was not taken back"
    left = reserve(state, rollback, now)
    what = "time" if left is not None and left <= 0 else budgets.rollback_short_of(state, rollback, at)
    return (
        f"not tried: the {what} reserved for the rollback {'are' if what[-1] == 's' else 'is'} used up" if what else ""
    )


def _stands_under(state: State, compensation_log: CompensationLog, rollback: Rollback, at: int) -> str:
    """A task that could not be taken back and rests on what stands at ``at``: the state before that fits no longer."""
    number = compensation_log.steps[at].number
    for each in rollback.done:
        step = compensation_log.steps[each]
        if step.kind != "action" and step.fate != "undone" and rests_on(state, step.number, number):
            return state.specs[step.number].id
    return ""


def reserve(state: State, rollback: Rollback, now: float) -> float | None:
    """Seconds that a rollback going on has left of its own budget; None where it has no limit. The budget of the run
    does not concern it."""
    time = budgets.rollback_budgets(rollback).time
    return None if time is None else time - (now - rollback.began)


def _undo(state: State, compensation_log: CompensationLog, rollback: Rollback, at: int) -> Undo:
    attempt = compensation_log.counts.get(compensation_log.steps[at].number, 0) + 1
    return Undo(at, attempt, 0, budgets.undo_share(state, rollback, at))


def _after(state: State, compensation_log: CompensationLog, rollback: Rollback, step: UndoStep, now: float) -> Record:
    """The end of an attempt to undo: undone, tried again, or given up."""
    task, at, outcome = acted(state, step), rollback.current, step.outcome
    assert outcome is not None and at is not None
    if not outcome.failure:
        nothing = step.kind == "capability" and outcome.outputs.get("changed") is False
        return Record(UndoSettled(task.id, at, "undone", "there was nothing to take back" if nothing else ""))
    retry = task.rollback.retry if task.rollback is not None and step.kind == "action" else Retry()
    left = reserve(state, rollback, now)
    goes_on = (left is None or left > 0) and not budgets.rollback_short_of(state, rollback, at)
    goes_on = goes_on and (state.stop_reason in GOES_ON or state.stop_reason not in FINAL_STOPS)
    policy = retry_policy(retry, outcome, step.tries, outcome.failure)
    if goes_on and policy is not None:
        key = f"{state.seed}:{task.id}:undo:{step.last}"
        due = now + retry_delay(policy, step.tries, key, outcome.retry_after)
        return Record(UndoScheduled(task.id, step.last, due, outcome.failure))
    return Record(UndoSettled(task.id, at, "failed", f"{outcome.failure}: {outcome.message}"))


def _settle_doubt(state: State, compensation_log: CompensationLog, number: int, positions: tuple[int, ...]) -> Record:
    task, task_state = state.specs[number], state.tasks[number]
    if all(compensation_log.steps[at].fate == "undone" for at in positions):
        detail = f"attempt {task_state.attempts} was cut off, and what it may have done is undone"
        return Record(TaskSettled(task.id, "failed", "doubt", detail, "doubt"))
    why = next(compensation_log.steps[at].detail for at in positions if compensation_log.steps[at].fate != "undone")
    detail = f"attempt {task_state.attempts} was cut off, and what it may have done could not be undone: {why}"
    return Record(TaskSettled(task.id, "in_doubt", "ask", detail))


def saved_first(state: State, commands: Sequence[Command]) -> list[Command]:
    """The commands, with what has to be saved in place of each start that comes after it."""
    ordered: list[Command] = []
    for command in commands:
        if not isinstance(command, Start) or not _saves(state, command):
            ordered.append(command)
        elif command.number not in state.asked:
            ordered.append(_unsaved(state, command.number) or command)
    return ordered


def _saves(state: State, command: Start) -> bool:
    """Whether something has to be known of the state before a task starts."""
    task = state.specs[command.number]
    return bool(task.backup) or takes_back(state, task)


def _unsaved(state: State, number: int) -> Save | Record | None:
    """What comes before the start of a task that can be undone by what is saved; None once it is."""
    task, task_state = state.specs[number], state.tasks[number]
    if task_state.uncertain or is_saved(state, number):
        return None
    problem = state.compensation_log.problems.get(number) if state.compensation_log is not None else None
    if problem is None:
        return Save(number)
    what = "its files" if task.backup else "the state to restore"
    detail = f"not started: {what} could not be saved: {problem[0]}"
    return Record(TaskSettled(task.id, "failed", "backup", detail, problem[1]))


_NAMED = 3
"""Tasks that a sentence names."""


def is_linked_due(state: State, frame: Frame, failure: str) -> bool:
    """Whether a linked plan whose main part came to ``failure`` is undone now, or once the run goes on. What a person
    cancelled is left as it is; what was cut off since something around it failed is undone."""
    if not failure or state.stop_reason in ("rollback", "cancelled", "killed"):
        return False
    if failure == "cancelled":
        around = closed(state, frame.owner) in ("timeout", "budget") or state.stop_reason in OUT_OF_BUDGET
        if not around and cut(state, frame.owner) is None:
            return False
    positions, naked = _chosen(state, frame)
    return bool(positions or naked)


def _chosen(state: State, frame: Frame) -> tuple[list[int], list[int]]:
    """The positions to undo, and the tasks that do not say how they are undone."""
    only = _policy(frame).only
    positions = inside(state, frame.owner)
    return (selected(state, positions, only), []) if only else (positions, bare(state, frame.owner))


def _policy(frame: Frame) -> RollbackPolicy:
    assert frame.linked is not None, "only a linked plan has a policy of its own"
    return frame.linked.rollback or RollbackPolicy()


def begin_undoing(state: State, number: int, failure: str, message: str) -> Record | None:
    """The beginning of the rollback of a linked plan that failed; None while it goes on, or the run rests."""
    frame = state.tasks[number].inner
    assert frame is not None
    if frame.undoing is not None or state.stop_reason not in GOES_ON:
        return None
    positions, naked = _chosen(state, frame)
    names = tuple(state.specs[other].id for other in naked)
    strict, within = _policy(frame).mode == "strict", state.specs[number].id
    event = RollbackStarted("failure", (), (), strict, "", "", names, within, failure, message)
    return Record(started(state, event, positions))


def came_to(state: State, rollback: Rollback) -> tuple[str, str]:
    """Failure class and sentence for a linked plan that was undone, with what could not be."""
    compensation_log = state.compensation_log
    assert compensation_log is not None
    left = [
        compensation_log.steps[at]
        for at in (*rollback.done, *rollback.todo)
        if compensation_log.steps[at].fate != "undone"
    ]
    said = [f"`{state.specs[step.number].id}` ({step.detail or 'not tried'})" for step in left]
    said += [f"`{name}` (it does not say how)" for name in rollback.bare]
    undone = sum(compensation_log.steps[at].fate == "undone" for at in rollback.done)
    done = f"; {undone} {'step was' if undone == 1 else 'steps were'} undone" if undone else ""
    if not said:
        return rollback.failure, f"{rollback.message}{done}"
    more = f" and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    again = ""
    if left_changes(rollback) and state.specs[rollback.owner].retry.attempts > 1:
        again = "; not tried again, since its rollback is strict"
    return rollback.failure, f"{rollback.message}{done}; not undone: {', '.join(said[:_NAMED])}{more}{again}"


def left_changes(rollback: Rollback) -> bool:
    """Whether a strict rollback left something behind, so that nothing may begin from there."""
    return rollback.strict and rollback.status != "rolled_back"
