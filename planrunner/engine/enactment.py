"""Commands that are more than a start, as events and effects: containers, gates, doubts, reuse, backups and undo."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from planrunner.engine import effects
from planrunner.engine.calls import NO_VALUE, Place, call_of, digest, prepare, rendered_text, rights_of
from planrunner.engine.containers import closed, opened
from planrunner.engine.effects import Cancel, Effect, Examine, ObserveFacts, Probe, Restore, StartCall
from planrunner.engine.freshness import asks_fresh, forgotten, remembered
from planrunner.engine.gates import judging, requested
from planrunner.engine.questions import WORK
from planrunner.engine.taint import refused
from planrunner.failures import Failure
from planrunner.files.listing import inside
from planrunner.machine.checkpoints import asked
from planrunner.machine.commands import (
    AskFacts,
    AskFresh,
    AskPeople,
    AskProbe,
    Close,
    Command,
    Compare,
    Involved,
    Open,
    Save,
    Start,
    TakeCheckpoint,
    Undo,
    settle,
)
from planrunner.machine.compensation import acted, under
from planrunner.machine.decide import admitted
from planrunner.machine.events import (
    ENDED,
    AttemptStopping,
    BackupAsked,
    BackupMade,
    Event,
    FactsRequested,
    FrameClosing,
    Outcome,
    TaskSettled,
    UndoEnded,
    UndoSettled,
    UndoStarted,
)
from planrunner.machine.joins import conclusive
from planrunner.machine.names import is_gone, is_within
from planrunner.machine.rollback import reserve
from planrunner.machine.scope import NO_OVERLAY, Overlay, TaskScope
from planrunner.machine.state import State
from planrunner.plan import identity
from planrunner.plan.model import Task
from planrunner.records import Struct

Json = Any


class Turn(Struct):
    """Where a decision falls: ``record`` takes an event that was decided at ``now`` and folds it into the state,
    ``todo`` the effects that are allowed once the events are durable."""

    state: State
    place: Place
    now: float
    record: Callable[[Event, float], None]
    todo: list[Effect]


def enact(command: Involved, turn: Turn) -> Sequence[Command]:
    """Turn a command into its events and effects; gives the commands that follow from them at once."""
    state, now = turn.state, turn.now
    match command:
        case Compare(number):
            if (reused := reuse(state, number, turn.place)) is None:
                return admitted(state, [number], [], now)
            turn.record(reused, now)
        case AskPeople():
            return _ask(command, turn)
        case Open():
            for event in opened(state, command):
                turn.record(event, now)
        case Close():
            turn.record(closed(state, command), now)
        case Undo():
            undoing = prepare_undo(state, command, turn.place, now)
            turn.record(undoing.intent, now)
            if undoing.effect is not None:
                turn.todo.append(undoing.effect)
            else:
                turn.record(UndoEnded(undoing.intent.task, undoing.intent.attempt, undoing.outcome), now)
        case Save():
            intended, follows = prepare_save(state, command.number, turn.place)
            turn.record(intended, now)
            if isinstance(follows, BackupMade):
                turn.record(follows, now)
            else:
                turn.todo.append(follows)
        case TakeCheckpoint():
            checkpoint = asked(state, command)
            turn.record(checkpoint, now)
            turn.todo.append(effects.TakeCheckpoint(checkpoint, turn.place.directory))
        case AskFacts():
            task = state.specs[command.number].id
            turn.record(FactsRequested(task, command.names), now)
            turn.todo.append(ObserveFacts(task, command.names))
        case AskFresh():
            request, look = asks_fresh(state, command.number, turn.place)
            turn.record(request, now)
            turn.todo.append(look)
        case AskProbe():
            prepared = prepare(state, Start(command.number, command.attempt), turn.place)
            task = prepared.intent.task
            turn.record(TaskSettled(task, "in_doubt", "probe", "asks the capability whether it took effect"), now)
            if prepared.call is None:
                raise RuntimeError(f"the call of `{task}` was rendered before and cannot be rendered now")
            turn.todo.append(Probe(prepared.call))
        case _:
            assert_never(command)
    return ()


def follow(event: Event, turn: Turn) -> None:
    """Add the effects of an event that was decided and recorded."""
    state = turn.state
    match event:
        case FrameClosing() if event.reason != "budget":
            owner = state.index[event.task]
            for number in state.running:
                task = state.tasks[number]
                if task.outcome is None and is_within(state, number, owner):
                    turn.todo.append(Cancel(state.specs[number].id, task.attempts, event.reason))
        case TaskSettled() if event.reason != "fresh" and (record := remembered(state, event.task)):
            turn.todo.append(record)
        case AttemptStopping():
            turn.todo.append(Cancel(event.task, event.attempt, event.detail, event.failure))
        case UndoSettled(status="undone") if removal := forgotten(state, event.task):
            turn.todo.append(removal)


def _ask(command: AskPeople, turn: Turn) -> Sequence[Command]:
    try:
        event = requested(turn.state, command, turn.place)
    except NO_VALUE as error:
        task = turn.state.specs[command.number]
        return [conclusive(turn.state, settle(task, "failed", "question", str(error), "logic"))]
    turn.record(event, turn.now)
    looks = tuple(event.request.get("looks", ()))
    rights = rights_of(turn.state, command.number)
    effect = Examine(event.task, event.visit, looks, turn.place.directory, rights=rights)
    if any(look["kind"] == "judge" for look in looks):
        effect = effect._replace(call=judging(turn.state, event, turn.place))
    turn.todo.append(effect)
    return ()


def reuse(state: State, number: int, place: Place) -> TaskSettled | None:
    """The event with which a task reuses a result; None where it has to run. Nothing is reserved, and no slot is
    needed."""
    before, task = state.tasks[number].kept, state.tasks[number]
    assert before is not None
    prepared = prepare(state, Start(number, task.attempts + 1), place)
    if prepared.call is None or prepared.intent.inputs != before.inputs:
        return None
    source = f"attempt {task.attempts}" if before.number == number else f"`{state.specs[before.number].id}`"
    return TaskSettled(prepared.intent.task, "completed", "reused", f"unchanged; result of {source} reused")


class PreparedUndo(Struct):
    """The intent, and the effect or (when a template has no value) the outcome that takes its place."""

    intent: UndoStarted
    effect: Effect | None
    outcome: Outcome = ENDED


def prepare_undo(state: State, command: Undo, place: Place, now: float) -> PreparedUndo:
    """Render what undoes a task: it reads the outputs of the visit that it undoes, and everything else as it is now."""
    assert state.compensation_log is not None
    step = state.compensation_log.steps[command.owed]
    task = acted(state, step)
    key = f"{state.run_id}:{task.id}:undo:{command.attempt}"
    intent = UndoStarted(task.id, command.attempt, key, command.owed, step.kind, "", command.reissue)
    intent = intent._replace(reserved=command.reserved)
    if step.kind == "files":
        effect = Restore(
            task.id, command.attempt, place.directory, step.patterns, step.files, rights_of(state, step.number)
        )
        return PreparedUndo(intent, effect)
    visit = state.tasks[step.number]
    if step.outputs is not None:
        visit = visit.with_result(Outcome(outputs=step.outputs), step.outputs)
    overlay = {step.number: visit}
    refusal: Outcome | None = None
    try:
        start = Start(step.number, command.attempt, command.reissue)
        call = call_of(state, _action(task), start, place, key, overlay)
        if step.kind == "action":
            refusal = _refused(state, step.number, place, "rollback", step.task, overlay)
        elif step.kind == "capability":
            outcome = visit.outcome
            outputs = None if outcome is None or outcome.failure else outcome.outputs
            call = call._replace(inputs={"before": step.files[0]["before"], "outputs": outputs})
    except NO_VALUE as error:
        return PreparedUndo(intent, None, Outcome("logic", str(error), usage=dict.fromkeys(command.reserved, 0)))
    if refusal is not None:
        return PreparedUndo(intent, None, refusal._replace(usage=dict.fromkeys(command.reserved, 0)))
    own = WORK if call.timeout is None and step.kind == "capability" else call.timeout
    limits = (own, reserve(state, under(state.compensation_log, command.owed), now))
    call = call._replace(
        timeout=min((limit for limit in limits if limit is not None), default=None),
        env={**call.env, "PLANRUNNER_UNDO": "1"},
        once=f"{state.run_id}:{task.id}:undo:{step.visit}",
        reserved=command.reserved,
    )
    return PreparedUndo(intent._replace(inputs=digest(call)), StartCall(call))


def _refused(
    state: State, number: int, place: Place, part: str, then: Task | None = None, overlay: Overlay = NO_OVERLAY
) -> Outcome | None:
    """``then`` is the task as it was defined when it acted."""
    if not state.foreign:
        return None
    if then is not None:
        rollbacks = [Task("", rollback=task.rollback, env=task.env) for task in (then, state.specs[number])]
        if is_gone(state, number) or identity.digest(rollbacks[0]) != identity.digest(rollbacks[1]):
            why = "the plan defines it otherwise now, so nothing tells whether text from outside reaches what undoes it"
            return Outcome("policy", why, rule="taint.command")
    return refused(state, number, place.directory, part, overlay)


def _action(task: Task) -> Task:
    """What undoes a task, as a task that is called: it has the task's surroundings and nothing else of it."""
    surroundings = Task(task.id, env=task.env, cwd=task.cwd, secrets=task.secrets)
    action = task.rollback
    if action is None:
        return surroundings._replace(uses=f"{task.uses}#undo", timeout=task.timeout)
    return surroundings._replace(
        uses=action.uses,
        inputs=action.inputs,
        run=action.run,
        script=action.script,
        timeout=action.timeout,
        shell=task.shell,
    )


def prepare_save(state: State, number: int, place: Place) -> tuple[BackupAsked, effects.Save | BackupMade]:
    """The intent to save what undoing a task takes, and the effect; or the answer where that cannot be rendered."""
    task, visit = state.specs[number], state.tasks[number].visit
    scope = TaskScope(state, number)
    try:
        if not task.backup:
            start = Start(number, state.tasks[number].attempts + 1)
            call = call_of(state, task, start, place, f"{state.run_id}:{task.id}:capture:{visit}")
            if _refused(state, number, place, "") is not None:  # the attempt is refused as well: nothing is to be saved
                return BackupAsked(task.id, visit, ()), BackupMade(task.id, visit, ())
            return BackupAsked(task.id, visit, ()), effects.Save(task.id, visit, place.directory, (), call)
        directory = os.path.join(place.directory, rendered_text(task.cwd, scope)) if task.cwd else place.directory
        given = tuple(inside(place.directory, directory, rendered_text(pattern, scope)) for pattern in task.backup)
    except (Failure, *NO_VALUE) as error:
        return BackupAsked(task.id, visit, task.backup), BackupMade(task.id, visit, task.backup, (), str(error))
    return BackupAsked(task.id, visit, given), effects.Save(
        task.id, visit, place.directory, given, rights=rights_of(state, number)
    )
