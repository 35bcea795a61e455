"""What is done with the decisions that few runs take: about what holds others, gates, doubts, saving and undoing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from planrunner.capabilities.contract import Call
from planrunner.engine import effects
from planrunner.engine.calls import Place, no_value, prepare, rights_of
from planrunner.engine.done import asks_fresh, forgotten, remembered
from planrunner.engine.effects import Cancel, Effect, Examine, Observe, Probe
from planrunner.engine.gates import requested
from planrunner.engine.judging import judging
from planrunner.engine.keeping import kept
from planrunner.engine.opening import closed, opened
from planrunner.engine.undoing import prepare_save, prepare_undo
from planrunner.machine.checkpoints import asked
from planrunner.machine.commands import (
    AskFacts,
    AskFresh,
    AskPeople,
    AskProbe,
    Close,
    Command,
    Compare,
    Open,
    Save,
    Start,
    TakeCheckpoint,
    Undo,
    settle,
)
from planrunner.machine.decide import admitted
from planrunner.machine.events import (
    AttemptStopping,
    BackupMade,
    Event,
    FactsRequested,
    FrameClosing,
    TaskSettled,
    UndoEnded,
    UndoSettled,
)
from planrunner.machine.owing import is_within
from planrunner.machine.routes import conclusive
from planrunner.machine.state import State


class Turn(NamedTuple):
    """Where a decision falls: ``record`` takes an event that was decided at ``now`` and folds it into the state,
    ``todo`` the effects that are allowed once the events are durable."""

    state: State
    place: Place
    now: float
    record: Callable[[Event, float], None]
    todo: list[Effect]


def enact(command: Command, turn: Turn) -> Sequence[Command]:
    """Turn a command into its events and effects; gives the commands that follow from them at once."""
    if isinstance(command, Compare):
        return _compare(command.number, turn)
    if isinstance(command, (Open, Close)):
        _turn(command, turn)
    elif isinstance(command, Undo):
        _undo(command, turn)
    elif isinstance(command, Save):
        _save(command, turn)
    elif isinstance(command, TakeCheckpoint):
        _checkpoint(command, turn)
    elif isinstance(command, AskPeople):
        return _ask(command, turn)
    elif isinstance(command, AskFacts):
        task = turn.state.specs[command.number].id
        turn.record(FactsRequested(task, command.names), turn.now)
        turn.todo.append(Observe(task, command.names))
    elif isinstance(command, AskFresh):
        _ask_fresh(command.number, turn)
    elif isinstance(command, AskProbe):
        turn.todo.append(Probe(_probe(command, turn)))
    else:
        raise TypeError(f"{type(command).__name__} is no command")
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
        turn.todo.append(stopping(event))
    elif isinstance(event, UndoSettled) and event.status == "undone":
        _forget(event, turn)


def stopping(event: AttemptStopping) -> Cancel:
    """The effect of an attempt that has to stop."""
    return Cancel(event.task, event.attempt, event.detail, event.failure)


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
