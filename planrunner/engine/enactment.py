"""Commands that are more than a start, as events and effects: containers, gates, doubts, reuse, backups and undo."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, assert_never

from planrunner.capabilities.contract import Call
from planrunner.engine import effects
from planrunner.engine.calls import Place, call_of, digest, no_value, prepare, rendered_text, rights_of
from planrunner.engine.containers import closed, opened
from planrunner.engine.effects import UNDO, Cancel, Effect, Examine, Observe, Probe, Restore, StartCall
from planrunner.engine.freshness import asks_fresh, forgotten, remembered
from planrunner.engine.gates import judging, requested
from planrunner.engine.questions import WORK
from planrunner.engine.taint import refused
from planrunner.files.listing import Refused, inside
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
from planrunner.machine.compensation import acted, is_within, under
from planrunner.machine.compensation_log import Owed
from planrunner.machine.decide import admitted
from planrunner.machine.events import (
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
from planrunner.machine.names import is_gone
from planrunner.machine.rollback import reserve
from planrunner.machine.scope import NO_OVERLAY, Overlay, TaskScope
from planrunner.machine.state import State, TaskState
from planrunner.plan.expressions.values import EvaluationError, TemplateError
from planrunner.plan.identity import task_digest
from planrunner.plan.model import Task

Json = Any


class Turn(NamedTuple):
    """Where a decision falls: ``record`` takes an event that was decided at ``now`` and folds it into the state,
    ``todo`` the effects that are allowed once the events are durable."""

    state: State
    place: Place
    now: float
    record: Callable[[Event, float], None]
    todo: list[Effect]


def enact(command: Involved, turn: Turn) -> Sequence[Command]:
    """Turn a command into its events and effects; gives the commands that follow from them at once."""
    match command:
        case Compare():
            return _compare(command.number, turn)
        case AskPeople():
            return _ask(command, turn)
        case Open() | Close():
            _turn(command, turn)
        case Undo():
            _undo(command, turn)
        case Save():
            _save(command, turn)
        case TakeCheckpoint():
            _checkpoint(command, turn)
        case AskFacts():
            task = turn.state.specs[command.number].id
            turn.record(FactsRequested(task, command.names), turn.now)
            turn.todo.append(Observe(task, command.names))
        case AskFresh():
            _ask_fresh(command.number, turn)
        case AskProbe():
            turn.todo.append(Probe(_probe(command, turn)))
        case _:
            assert_never(command)
    return ()


def _compare(number: int, turn: Turn) -> Sequence[Command]:
    event = kept(turn.state, number, turn.place)
    if event is None:
        return admitted(turn.state, [number], [], turn.now)
    turn.record(event, turn.now)
    return ()


def follow(event: Event, turn: Turn) -> None:
    """The effects of an event that was decided and recorded."""
    if isinstance(event, FrameClosing):
        if event.reason != "budget":
            _stop_inside(event, turn)
    elif isinstance(event, TaskSettled):
        _remember(event, turn)
    elif isinstance(event, AttemptStopping):
        turn.todo.append(Cancel(event.task, event.attempt, event.detail, event.failure))
    elif isinstance(event, UndoSettled) and event.status == "undone":
        _forget(event, turn)


def _ask_fresh(number: int, turn: Turn) -> None:
    event, effect = asks_fresh(turn.state, number, turn.place)
    turn.record(event, turn.now)
    turn.todo.append(effect)


def _remember(event: TaskSettled, turn: Turn) -> None:
    if event.reason != "fresh" and (effect := remembered(turn.state, event.task)):
        turn.todo.append(effect)


def _forget(event: UndoSettled, turn: Turn) -> None:
    if effect := forgotten(turn.state, event.task):
        turn.todo.append(effect)


def _save(command: Save, turn: Turn) -> None:
    asked_for, follows = prepare_save(turn.state, command.number, turn.place)
    turn.record(asked_for, turn.now)
    if isinstance(follows, BackupMade):
        turn.record(follows, turn.now)
    else:
        turn.todo.append(follows)


def _checkpoint(command: TakeCheckpoint, turn: Turn) -> None:
    event = asked(turn.state, command)
    turn.record(event, turn.now)
    turn.todo.append(effects.TakeCheckpoint(event, turn.place.directory))


def _undo(command: Undo, turn: Turn) -> None:
    intent, effect, outcome = prepare_undo(turn.state, command, turn.place, turn.now)
    turn.record(intent, turn.now)
    if effect is not None:
        turn.todo.append(effect)
    else:
        turn.record(UndoEnded(intent.task, intent.attempt, outcome), turn.now)


def _turn(command: Open | Close, turn: Turn) -> None:
    """A task that holds others begins, goes into its next round or ends."""
    for event in opened(turn.state, command) if isinstance(command, Open) else [closed(turn.state, command)]:
        turn.record(event, turn.now)


def _stop_inside(event: FrameClosing, turn: Turn) -> None:
    state = turn.state
    owner = state.index[event.task]
    for number in state.running:
        found = state.tasks[number]
        if found.outcome is None and is_within(state, number, owner):
            turn.todo.append(Cancel(state.specs[number].id, found.attempts, event.reason))


def _ask(command: AskPeople, turn: Turn) -> Sequence[Command]:
    try:
        event = requested(turn.state, command, turn.place)
    except no_value() as error:
        task = turn.state.specs[command.number]
        return conclusive(turn.state, [settle(task, "failed", "question", str(error), "logic")])
    turn.record(event, turn.now)
    looks = tuple(event.request.get("looks", ()))
    rights = rights_of(turn.state, command.number)
    effect = Examine(event.task, event.visit, looks, turn.place.directory, rights=rights)
    if any(look["kind"] == "judge" for look in looks):
        effect = effect._replace(call=judging(turn.state, event, turn.place))
    turn.todo.append(effect)
    return ()


def _probe(command: AskProbe, turn: Turn) -> Call:
    prepared = prepare(turn.state, Start(command.number, command.attempt), turn.place)
    asks = TaskSettled(prepared.intent.task, "in_doubt", "probe", "asks the capability whether it took effect")
    turn.record(asks, turn.now)
    if prepared.call is None:
        raise RuntimeError(f"the call of `{prepared.intent.task}` was rendered before and cannot be rendered now")
    return prepared.call


def kept(state: State, number: int, place: Place) -> TaskSettled | None:
    """The event with which a task keeps its result; None where it has to run. Nothing is reserved, and no slot is
    needed."""
    before, found = state.tasks[number].kept, state.tasks[number]
    assert before is not None
    prepared = prepare(state, Start(number, found.attempts + 1), place)
    if prepared.call is None or prepared.intent.inputs != before.inputs:
        return None
    then = f"attempt {found.attempts}" if before.number == number else f"`{state.specs[before.number].id}`"
    return TaskSettled(prepared.intent.task, "completed", "reused", f"unchanged; result of {then} reused")


class PreparedUndo(NamedTuple):
    """The intent, and the effect or (when a template has no value) the outcome that takes its place."""

    intent: UndoStarted
    effect: Effect | None
    outcome: Outcome = Outcome()


def prepare_undo(state: State, command: Undo, place: Place, now: float) -> PreparedUndo:
    """Render what undoes a task: it reads the outputs of the visit that it undoes, and everything else as it is now."""
    assert state.compensation_log is not None
    owed = state.compensation_log.owed[command.owed]
    task = acted(state, owed)
    key = f"{state.run_id}:{task.id}:undo:{command.attempt}"
    intent = UndoStarted(task.id, command.attempt, key, command.owed, owed.kind, "", command.reissue)
    intent = intent._replace(reserved=command.reserved)
    if owed.kind == "files":
        effect = Restore(
            UNDO + task.id, command.attempt, place.directory, owed.patterns, owed.files, rights_of(state, owed.number)
        )
        return PreparedUndo(intent, effect)
    start = Start(owed.number, command.attempt, command.reissue)
    found = state.tasks[owed.number]
    if owed.outputs is not None:
        found = found.with_result(Outcome(outputs=owed.outputs), owed.outputs)
    overlay = {owed.number: found}
    try:
        call = call_of(state, _action(task), start, place, key, overlay)
        refusal = _refused(state, owed.number, place, "rollback", owed.task, overlay) if owed.kind == "action" else None
        if owed.kind == "capability":
            call = call._replace(inputs={"before": owed.files[0]["before"], "outputs": _given(owed, found)})
    except (TemplateError, EvaluationError) as error:
        return PreparedUndo(intent, None, Outcome("logic", str(error), usage=dict.fromkeys(command.reserved, 0)))
    if refusal is not None:
        return PreparedUndo(intent, None, refusal._replace(usage=dict.fromkeys(command.reserved, 0)))
    own = WORK if call.timeout is None and owed.kind == "capability" else call.timeout
    limits = [
        limit for limit in (own, reserve(state, under(state.compensation_log, command.owed), now)) if limit is not None
    ]
    call = call._replace(timeout=min(limits) if limits else None, env={**call.env, "PLANRUNNER_UNDO": "1"})
    call = call._replace(once=f"{state.run_id}:{task.id}:undo:{owed.visit}", reserved=command.reserved)
    return PreparedUndo(intent._replace(inputs=digest(call)), StartCall(call))


def _refused(
    state: State, number: int, place: Place, part: str, then: Task | None = None, overlay: Overlay = NO_OVERLAY
) -> Outcome | None:
    """``then`` is the task as it was defined when it acted."""
    if not state.foreign:
        return None
    if then is not None and (is_gone(state, number) or _undoes_otherwise(then, state.specs[number])):
        why = "the plan defines it otherwise now, so nothing tells whether text from outside reaches what undoes it"
        return Outcome("policy", why, rule="taint.command")
    return refused(state, number, place.directory, part, overlay)


def _undoes_otherwise(one: Task, other: Task) -> bool:
    bare = Task("")
    first, second = (bare._replace(rollback=task.rollback, env=task.env) for task in (one, other))
    return task_digest(first) != task_digest(second)


def _action(task: Task) -> Task:
    """What undoes a task, as a task that is called: it has the task's surroundings and nothing else of it."""
    action = task.rollback
    if action is None:
        timeout = task.timeout
        return Task(
            UNDO + task.id, uses=f"{task.uses}#undo", timeout=timeout, env=task.env, cwd=task.cwd, secrets=task.secrets
        )
    return Task(
        UNDO + task.id,
        uses=action.uses,
        inputs=action.inputs,
        run=action.run,
        script=action.script,
        timeout=action.timeout,
        env=task.env,
        cwd=task.cwd,
        shell=task.shell,
        secrets=task.secrets,
    )


def _given(owed: Owed, found: TaskState) -> dict[str, Json] | None:
    """The outputs of the visit that is undone; None if its end is unknown."""
    outcome = found.outcome
    return None if outcome is None or outcome.failure else outcome.outputs


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
    except (Refused, TemplateError, EvaluationError) as error:
        return BackupAsked(task.id, visit, task.backup), BackupMade(task.id, visit, task.backup, (), str(error))
    return BackupAsked(task.id, visit, given), effects.Save(
        task.id, visit, place.directory, given, rights=rights_of(state, number)
    )
