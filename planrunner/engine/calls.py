"""From a decision to start to the call itself: every template of the task rendered, values kept apart from script text."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Call
from planrunner.machine.commands import Start
from planrunner.machine.events import AttemptStarted, Outcome
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import EvaluationError
from planrunner.plan.model import Task
from planrunner.plan.shelltext import ScriptError, compile_script, environment
from planrunner.plan.template import TemplateError, render

Json = Any


class Place(NamedTuple):
    """Where attempts run: the working directory of the run and the folder for their scratch files."""

    directory: str
    scratch: str


class Prepared(NamedTuple):
    """The intent, and the call or (when a template has no value) the outcome that takes its place."""

    intent: AttemptStarted
    call: Call | None
    outcome: Outcome | None = None


def prepare(state: State, start: Start, place: Place) -> Prepared:
    """Render the task of ``start``; a template that fails gives a logic failure, never an exception."""
    task = state.plan.tasks[start.number]
    key = f"{state.run_id}:{task.id}:{start.attempt}"
    effect = state.trait(task).effect
    try:
        call = _render(state, start, place, key)
    except (TemplateError, EvaluationError, ScriptError) as error:
        outcome = Outcome(failure="logic", message=str(error))
        return Prepared(AttemptStarted(task.id, start.attempt, key, "", effect, start.reissue), None, outcome)
    intent = AttemptStarted(task.id, start.attempt, key, _digest(call), effect, start.reissue)
    return Prepared(intent, call)


def _render(state: State, start: Start, place: Place, key: str) -> Call:
    task = state.plan.tasks[start.number]
    scope = TaskScope(state, start.number)
    inputs = render(task.inputs, scope) if task.inputs else {}
    script, arguments, values = _script(task, scope)
    directory = place.directory
    if task.cwd:
        directory = os.path.normpath(os.path.join(directory, str(render(task.cwd, scope))))
    env = {name: _text(render(value, scope)) for name, value in (*state.plan.env, *task.env)}
    return Call(
        run_id=state.run_id,
        task=task,
        attempt=start.attempt,
        key=key,
        inputs=inputs,
        script=script,
        arguments=arguments,
        values=values,
        env=env,
        directory=directory,
        scratch=os.path.join(place.scratch, f"{_file_name(task.id)}.{start.attempt}"),
        timeout=_timeout(task),
    )


def _script(task: Task, scope: TaskScope) -> tuple[str, tuple[str, ...], Mapping[str, str]]:
    """Script text, arguments for a start without a shell, and the values that the script reads from its environment."""
    if task.run is None:
        return "", (), {}
    if not isinstance(task.run, str):
        return "", tuple(_text(render(part, scope)) for part in task.run), {}
    compiled = compile_script(task.run)
    if compiled.simple is not None and not task.shell:
        return task.run, tuple(_text(render(part, scope)) for part in compiled.simple), {}
    if not compiled.values:
        return compiled.text, (), {}
    rendered = {name: render(template, scope) for name, template in compiled.values}
    return compiled.text, (), environment(compiled, rendered)


def _text(value: Json) -> str:
    if isinstance(value, str):
        text = value
    elif value is None:
        text = ""
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, (list, dict)):
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    else:
        text = str(value)
    if "\0" in text:
        raise TemplateError("a value holds a NUL character, which no argument and no environment variable can carry")
    return text


def _timeout(task: Task) -> float | None:
    limits = [limit for limit in (task.timeout, task.budgets.time) if limit is not None]
    return min(limits) if limits else None


def _file_name(task_id: str) -> str:
    return task_id if len(task_id) <= 100 else hashlib.sha256(task_id.encode()).hexdigest()[:32]


def _digest(call: Call) -> str:
    """What the attempt was asked to do, as a digest: a changed input shows when the run is looked at or replayed."""
    if not (call.inputs or call.script or call.arguments):
        return ""
    parts = [call.task.uses, call.inputs, call.script, call.arguments, dict(call.values)]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
