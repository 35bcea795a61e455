"""From a decision to start to the call itself: every template of the task rendered, values kept apart from script
text."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.capabilities.contract import BY_MODEL, Call, Failure
from planrunner.capabilities.outputs import typed
from planrunner.engine.marks import source
from planrunner.frozen import EMPTY
from planrunner.jsontext import stable_json
from planrunner.later import Later
from planrunner.machine import policies
from planrunner.machine.commands import Start
from planrunner.machine.events import AttemptEnded, AttemptStarted, Outcome
from planrunner.machine.state import State
from planrunner.plan.tasks import tools_of
from planrunner.plan.templated import EvaluationError, TemplateError, holds_template

if TYPE_CHECKING:
    from shutil import rmtree
    from subprocess import run
    from types import ModuleType

    from planrunner.machine.graph import Frame
    from planrunner.machine.scope import Overlay, TaskScope
    from planrunner.plan.agents import is_chosen
    from planrunner.plan.expressions.values import Scope, plain, text_of
    from planrunner.plan.model import Output, Task
    from planrunner.plan.rights import Level
    from planrunner.plan.templates import references, render
else:
    is_chosen = Later("planrunner.plan.agents:is_chosen")
    plain = Later("planrunner.plan.expressions.values:plain")
    text_of = Later("planrunner.plan.expressions.values:text_of")
    references = Later("planrunner.plan.templates:references")
    render = Later("planrunner.plan.templates:render")
    rmtree = Later("shutil:rmtree")
    run = Later("subprocess:run")


Json = Any


class Place(NamedTuple):
    """Where attempts run: the working directory of the run and the folder for their scratch files."""

    directory: str
    scratch: str


def tidy(place: Place) -> None:
    """Remove the folder for scratch files with whatever is left in it."""
    try:
        os.rmdir(place.scratch)
    except FileNotFoundError:
        return
    except OSError:
        try:
            rmtree(place.scratch, ignore_errors=True)
        except RecursionError:  # folders nested by the thousand
            run(("rm", "-rf", "--", place.scratch), input=b"", capture_output=True, check=False)


class _Names:
    """The names that a task (-1: the plan) sees, looked up in the scope that is made with the first of them: most
    tasks hold no template."""

    __slots__ = ("_attempt", "_number", "_overlay", "_scope", "_state")

    def __init__(self, state: State, number: int, attempt: int = 0, overlay: Overlay = EMPTY) -> None:
        self._state = state
        self._number = number
        self._attempt = attempt
        self._overlay = overlay
        self._scope: TaskScope | None = None

    def resolve(self, name: str) -> Json:
        if self._scope is None:
            self._scope = policies.task_scope(self._state, self._number, self._attempt, self._overlay)
        return self._scope.resolve(name)


NO_VALUE = (TemplateError, EvaluationError)
"""What a template raises that has no value."""


class Prepared(NamedTuple):
    """The intent, and the call or (when a template has no value) the outcome that takes its place."""

    intent: AttemptStarted
    call: Call | None
    outcome: Outcome | None = None


def prepare(state: State, start: Start, place: Place, shown: bool = False) -> Prepared:
    """Render the task of ``start``; a template that fails gives a logic failure, never an exception. ``shown``: the
    call is put before people, who judge what is in it."""
    number, attempt, reissue, reserved = start.number, start.attempt, start.reissue, start.reserved
    task = state.specs[number]
    name = task.id
    key = f"{state.run_id}:{name}:{attempt}"
    effect = state.trait(task).effect
    refusal: Outcome | None = None
    try:
        call = call_of(state, task, start, place, key)
        if state.foreign and not shown:
            refusal = _taint().refused(state, number, place.directory)
    except NO_VALUE as error:
        hint = "" if state.selected is None else "; tasks that were not selected for this run have no results"
        outcome = Outcome("logic", f"{error}{hint}", usage=dict.fromkeys(reserved, 0), no_value=True, acted=False)
        started = AttemptStarted(name, attempt, key, "", effect, reissue, reserved)
        return Prepared(started, None, outcome)
    if refusal is not None:
        refusal = refusal._replace(usage=dict.fromkeys(reserved, 0), acted=False)
        return Prepared(AttemptStarted(name, attempt, key, "", effect, reissue, reserved), None, refusal)
    undo = task.rollback is not None or bool(task.backup) or (state.saves and policies.takes_back(state, task))
    intent = AttemptStarted(name, attempt, key, digest(call), effect, reissue, reserved, undo)
    return Prepared(intent, call)


def call_of(state: State, task: Task, start: Start, place: Place, key: str, undone: Overlay | None = None) -> Call:
    """The call of a task with every template filled in as the task of ``start`` sees it, or of what undoes it, which
    sees ``undone``; raises TemplateError and EvaluationError."""
    undoes = undone is not None
    name = f"undo:{task.id}" if undoes else task.id
    scope = _Names(state, start.number, 0 if undoes else start.attempt, undone or EMPTY)
    frame = state.tasks[start.number].frame
    plan = state.plan if frame.owner < 0 else policies.plan_of(state, frame)[0]
    if task.artifacts or task.outputs:
        task = _with_paths(task, scope)
    script, arguments, values = _script(task, scope)
    directory = place.directory
    accounts = {} if state.ledger is None or undoes else state.ledger.accounts
    spent = accounts[start.number].seconds if start.number in accounts else 0.0
    file_name = name if len(name) <= 100 else sha256(name.encode()).hexdigest()[:32]
    if task.cwd:
        directory = os.path.normpath(os.path.join(directory, rendered_text(task.cwd, scope)))
    return Call(
        run_id=state.run_id,
        task=task,
        attempt=start.attempt,
        key=key,
        inputs=rendered(task.inputs, scope) if task.inputs else {},
        script=script,
        arguments=arguments,
        values=values,
        env={name: rendered_text(value, scope) for name, value in (*plan.env, *task.env)},
        directory=directory,
        scratch=f"{place.scratch}/{file_name}.{start.attempt}",
        timeout=timeout_of(task, spent),
        once=f"{state.run_id}:{task.id}:{state.tasks[start.number].visit}",
        reserved={what: n for what, n in start.reserved.items() if policies.is_limited(state, start.number, what)},
        rights=rights_of(state, start.number),
        began=state.started_at,
        stdin=text_of(rendered(task.stdin, scope)) if task.stdin else "",
        ready=text_of(rendered(task.ready, scope)) if task.ready else "",
        approved=policies.approved_files(state, start.number) if task.uses == "python.run" else (),
        completed=_completed(state, start.number) if task.uses == "kb.claim" else {},
        made=_made(state, task, start.number),
        purpose="undo" if undoes else "act",
        outside="" if undoes else source(state, start.number, _carries),
    )


def _completed(state: State, number: int) -> dict[str, str]:
    """The tasks before this one that completed, by id as the plan writes it, with what each carries out."""
    needs = [state.specs[need] for need in state.shape.needs[number] if state.tasks[need].status == "completed"]
    return {spec.id.rpartition("/")[2]: _command(spec) for spec in needs}


def _command(task: Task) -> str:
    if task.run is None:
        return task.uses
    return task.run if isinstance(task.run, str) else " ".join(task.run)


def _made(state: State, task: Task, number: int) -> str:
    """What a call may run that was made while the run went on and that no person has seen."""
    owner = state.tasks[number].frame.owner
    if owner >= 0 and tools_of(state.specs[owner]) and is_chosen(task):
        return BY_MODEL
    return _taint().made(state, number) if state.foreign else ""


def _taint() -> ModuleType:
    """The rules about text from outside, which plans that take none do without."""
    from planrunner.engine import taint

    return taint


def _carries(state: State, number: int) -> bool:
    return bool(_taint().writes_foreign(state, number))


def rights_of(state: State, number: int) -> tuple[Level, ...]:
    """The levels of policy that hold for what is done on behalf of a task."""
    if not state.restricted:
        return ()
    return policies.levels_of(state, number)


def _with_paths(task: Task, scope: Scope) -> Task:
    """The task with the paths of its artifacts and outputs filled in. The path of an artifact without a name of its own
    is its name too."""
    if any(holds_template(artifact.path) for artifact in task.artifacts):
        artifacts = []
        for artifact in task.artifacts:
            path = rendered_text(artifact.path, scope)
            name = path if artifact.name == artifact.path else artifact.name
            artifacts.append(artifact._replace(path=path, name=name))
        task = task._replace(artifacts=tuple(artifacts))
    if any(holds_template(output.path) for output in task.outputs):
        outputs = tuple(output._replace(path=rendered_text(output.path, scope)) for output in task.outputs)
        task = task._replace(outputs=outputs)
    return task


def with_values(state: State, event: AttemptEnded) -> AttemptEnded:
    """The end of an attempt together with the outputs that its task declares by a ``value``."""
    return event._replace(outcome=with_declared(state, state.index[event.task], event.outcome))


def with_declared(state: State, number: int, outcome: Outcome) -> Outcome:
    """An outcome together with the outputs that the task declares by a ``value``, such as ``{{ stdout }}``; one that
    has no value makes it a failure."""
    outputs = state.specs[number].outputs
    if not outputs or outcome.failure:
        return outcome
    declared = [output for output in outputs if output.value is not None]
    task_state = state.tasks[number]
    scope = _Names(state, number, overlay={number: task_state.with_result(outcome, task_state.outputs)})
    try:
        return outcome._replace(outputs={**outcome.outputs, **values_of(declared, scope)})
    except NO_VALUE as error:
        return outcome._replace(failure="logic", message=f"an output has no value: {error}", no_value=True)


def values_of(declared: Sequence[Output], scope: Scope) -> dict[str, Json]:
    """Outputs that are declared by a ``value``, each of its type as one in the output file is; raises TemplateError and
    EvaluationError."""
    values: dict[str, Json] = {}
    for output in declared:
        value = plain(rendered(output.value, scope))
        try:
            values[output.name] = value if output.type == "any" else typed(output.name, output.type, value)
        except Failure as failure:
            raise TemplateError(str(failure)) from None
    return values


def rendered(value: Json, scope: Scope) -> Json:
    """The value with its templates filled in; what holds none comes back as it is and loads no template code."""
    if not holds_template(value):
        return value
    return render(value, scope)


def rendered_text(value: Json, scope: Scope) -> str:
    """The text that a value with its templates filled in stands for: a path, an argument, a variable."""
    text = text_of(rendered(value, scope))
    if "\0" in text:
        raise TemplateError("a value holds a NUL character, which no argument and no environment variable can carry")
    return text


def _script(task: Task, scope: Scope) -> tuple[str, tuple[str, ...], Mapping[str, str]]:
    """Script text, arguments for a start without a shell, and the values that the script reads from its environment."""
    if task.run is None:
        return "", (), {}
    if not isinstance(task.run, str):
        return "", tuple(rendered_text(part, scope) for part in task.run), {}
    script = task.script
    if script is None:
        raise TemplateError("the script cannot get its values safely")
    if script.simple is not None and not task.shell:
        return task.run, tuple(rendered_text(part, scope) for part in script.simple), {}
    if not script.values:
        return task.run, (), {}
    from planrunner.plan.shell.quoting import ScriptError, environment

    try:
        values = environment(script, {name: rendered(template, scope) for name, template in script.values})
    except ScriptError as error:
        raise TemplateError(str(error)) from error
    return script.text, (), values


def timeout_of(task: Task, spent: float = 0.0) -> float | None:
    """The seconds that an attempt of the task may take, of whose own time budget so many seconds are spent."""
    left = None if task.budgets.time is None else max(task.budgets.time - spent, 0.001)
    if task.timeout is None or left is None:
        return left if task.timeout is None else task.timeout
    return min(task.timeout, left)


def digest(call: Call) -> str:
    """What the attempt was asked to do, as a digest: a changed input shows when the run is looked at or replayed."""
    if not (call.inputs or call.script or call.arguments):
        return ""
    parts = [call.task.uses, call.inputs, call.script, call.arguments, dict(call.values)]
    if call.env or call.task.cwd:
        parts += [dict(call.env), call.task.cwd and call.directory]
    if call.stdin:
        parts.append({"stdin": call.stdin})
    if call.ready:
        parts.append({"ready": call.ready})
    text = stable_json(parts)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def plan_outputs(state: State) -> tuple[dict[str, Json], str]:
    """The outputs of the plan once everything is settled, and why some have no value: empty where all have one. None
    stands for one of a task that was not reached, which is not a fault."""
    scope = _Names(state, -1)
    outputs: dict[str, Json] = {}
    problems: list[str] = []
    for output in state.plan.outputs:
        try:
            outputs |= {output.name: None} if output.value is None else values_of((output,), scope)
        except NO_VALUE as error:
            outputs[output.name] = None
            if not reads_unreached(state, state.top, output.value):
                problems.append(f"the output `{output.name}` of the plan has no value: {error}")
    return outputs, "; ".join(problems)


_UNREACHED = ("pending", "queued", "blocked", "skipped", "omitted", "cancelled", "abandoned", "rolled_back")


def reads_unreached(state: State, frame: Frame, value: Json) -> bool:
    """Whether a template reads a task of a frame that did not come to its end."""
    if isinstance(value, (dict, list, tuple)):
        inner = value.values() if isinstance(value, dict) else value
        return any(reads_unreached(state, frame, each) for each in inner)
    paths = [path for path, _, _ in references(value)] if isinstance(value, str) else []
    read = [frame.index.get(path[1]) for path in paths if path[0] == "tasks" and len(path) > 1]
    return any(number is not None and state.tasks[number].status in _UNREACHED for number in read)
