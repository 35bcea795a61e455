"""From a decision to undo to the call itself, and the files that are saved before a task starts."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from planrunner.engine.calls import Place, call_of, digest, rendered_text, rights_of
from planrunner.engine.effects import UNDO, Effect, Restore, Save, StartCall
from planrunner.engine.patterns import Refused, inside
from planrunner.engine.questions import WORK
from planrunner.engine.tainting import refused
from planrunner.machine.commands import Start, Undo
from planrunner.machine.events import BackupAsked, BackupMade, Outcome, UndoStarted
from planrunner.machine.owing import acted, under
from planrunner.machine.paths import is_gone
from planrunner.machine.rollback import reserve
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import State, TaskState
from planrunner.machine.undoing import Owed
from planrunner.plan.expressions.values import EvaluationError, TemplateError
from planrunner.plan.identity import task_digest
from planrunner.plan.model import Task

Json = Any


class PreparedUndo(NamedTuple):
    """The intent, and the effect or (when a template has no value) the outcome that takes its place."""

    intent: UndoStarted
    effect: Effect | None
    outcome: Outcome = Outcome()


def prepare_undo(state: State, command: Undo, place: Place, now: float) -> PreparedUndo:
    """Render what undoes a task: it reads the outputs of the visit that it undoes, and everything else as it is now."""
    assert state.debts is not None
    owed = state.debts.owed[command.owed]
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
    present = found.outputs, found.outcome
    if owed.outputs is not None:
        found.outputs, found.outcome = owed.outputs, Outcome(outputs=owed.outputs)
    try:
        call = call_of(state, _action(task), start, place, key)
        refusal = _refused(state, owed.number, place, "rollback", owed.task) if owed.kind == "action" else None
        if owed.kind == "capability":
            call = call._replace(inputs={"before": owed.files[0]["before"], "outputs": _given(owed, found)})
    except (TemplateError, EvaluationError) as error:
        return PreparedUndo(intent, None, Outcome("logic", str(error), usage=dict.fromkeys(command.reserved, 0)))
    finally:
        found.outputs, found.outcome = present
    if refusal is not None:
        return PreparedUndo(intent, None, refusal._replace(usage=dict.fromkeys(command.reserved, 0)))
    own = WORK if call.timeout is None and owed.kind == "capability" else call.timeout
    limits = [limit for limit in (own, reserve(state, under(state.debts, command.owed), now)) if limit is not None]
    call = call._replace(timeout=min(limits) if limits else None, env={**call.env, "PLANRUNNER_UNDO": "1"})
    call = call._replace(once=f"{state.run_id}:{task.id}:undo:{owed.visit}", reserved=command.reserved)
    return PreparedUndo(intent._replace(inputs=digest(call)), StartCall(call))


def _refused(state: State, number: int, place: Place, part: str, then: Task | None = None) -> Outcome | None:
    """``then`` is the task as it was defined when it acted."""
    if not state.foreign:
        return None
    if then is not None and (is_gone(state, number) or _undoes_otherwise(then, state.specs[number])):
        why = "the plan defines it otherwise now, so nothing tells whether text from outside reaches what undoes it"
        return Outcome("policy", why, rule="taint.command")
    return refused(state, number, place.directory, part)


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
    """The outputs of the visit that is undone; None where nobody saw it end."""
    outcome = found.outcome
    return None if outcome is None or outcome.failure else outcome.outputs


def prepare_save(state: State, number: int, place: Place) -> tuple[BackupAsked, Save | BackupMade]:
    """The intent to save what undoing a task takes, and the effect; or the answer where that cannot be rendered."""
    task, visit = state.specs[number], state.tasks[number].visit
    scope = TaskScope(state, number)
    try:
        if not task.backup:
            start = Start(number, state.tasks[number].attempts + 1)
            call = call_of(state, task, start, place, f"{state.run_id}:{task.id}:capture:{visit}")
            if _refused(state, number, place, "") is not None:  # the attempt is refused as well: nothing is to be saved
                return BackupAsked(task.id, visit, ()), BackupMade(task.id, visit, ())
            return BackupAsked(task.id, visit, ()), Save(task.id, visit, place.directory, (), call)
        directory = os.path.join(place.directory, rendered_text(task.cwd, scope)) if task.cwd else place.directory
        given = tuple(inside(place.directory, directory, rendered_text(pattern, scope)) for pattern in task.backup)
    except (Refused, TemplateError, EvaluationError) as error:
        return BackupAsked(task.id, visit, task.backup), BackupMade(task.id, visit, task.backup, (), str(error))
    return BackupAsked(task.id, visit, given), Save(
        task.id, visit, place.directory, given, rights=rights_of(state, number)
    )
