"""What tasks would do if they ran now, as their capabilities tell it: the diff or the exact calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from planrunner.app.proof.envelope import Sight
from planrunner.app.proof.names import walk
from planrunner.capabilities.binding import Binding, invoke
from planrunner.capabilities.contract import Call, Context
from planrunner.capabilities.faults import Overdue, within
from planrunner.capabilities.soundness import no_preview
from planrunner.engine.attempts import located
from planrunner.engine.questions import LOOK
from planrunner.engine.services import AttemptServices
from planrunner.machine.events import Outcome
from planrunner.plan.expressions.values import EvaluationError, TemplateError
from planrunner.plan.model import Task
from planrunner.plan.tasks import inner

Json = Any


class Ground(NamedTuple):
    """Where the run would work: its directory and its state directory; ``resolve`` finds capabilities."""

    directory: str
    state_dir: str
    resolve: Callable[[str], Callable[..., Any]]


class _Unheard:
    """A log that nobody reads."""

    __slots__ = ()
    usage: dict[str, Any] = {}

    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    def beat(self) -> None: ...

    def spend(self, amounts: Any) -> None: ...


def changes(sight: Sight, ground: Ground) -> Iterator[dict[str, Json]]:
    """One record for each task whose capability can tell: ``task``, ``uses``, ``summary``, ``diff``, ``calls``; or a
    ``problem`` where it cannot be told before the run, or would not work now."""
    for path, task in walk(sight.plan.tasks):
        trait = sight.traits.get(task.uses)
        if not task.uses or inner(task) or (task.effect or (trait and trait[0])) in ("pure", "read"):
            continue
        binding = located(ground.resolve, f"{task.uses}#preview")
        if isinstance(binding, Binding) and binding.function is not None:
            yield {"task": path, "uses": task.uses, **_change(sight, ground, task, binding)}


def _told_change(binding: Binding, call: Call, services: AttemptServices) -> Any:
    """What the capability gives. Raises Overdue."""

    def work(stopped: Callable[[], bool]) -> Any:
        return invoke(binding, call.inputs, Context(call, _Unheard(), stopped, services), "the preview", halves=True)

    return within(call.timeout or LOOK, f"`preview` of `{call.task.uses}`", work)


def _script(sight: Sight, task: Task) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """The script of a task with the values that it gets, or its arguments."""
    if isinstance(task.run, tuple):
        return "", tuple(str(sight.value(word)) for word in task.run), {}
    if task.script is None or not task.script.text:
        return task.run or "", (), {}
    return task.script.text, (), {name: str(sight.value(template)) for name, template in task.script.values}


def _change(sight: Sight, ground: Ground, task: Task, binding: Binding) -> dict[str, Json]:
    found: dict[str, Json] = {"summary": "", "diff": "", "calls": [], "problem": ""}
    try:
        inputs = sight.value(task.inputs or {})
        env = {name: str(sight.value(value)) for name, value in (*sight.plan.env, *task.env)}
        directory = os.path.join(ground.directory, str(sight.value(task.cwd))) if task.cwd else ground.directory
        script, arguments, values = _script(sight, task)
    except (TemplateError, EvaluationError):
        return {**found, "problem": "only the run has the values that it needs"}
    call = Call(
        "preview", task, 1, "preview", inputs, script, arguments, values, env, directory, "", task.timeout, dry=True
    )
    services = AttemptServices(ground.state_dir, ground.directory, None, env)
    try:
        told = _told_change(binding, call, services)
    except Overdue as late:
        return {**found, "problem": str(late)}
    if not isinstance(told, Outcome):
        return {**found, "problem": "its capability told nothing"}
    if told.failure:
        return {**found, "problem": f"as things are now: {told.message}"}
    if why := no_preview(task.uses, told.outputs):
        return {**found, "problem": why}
    return {**found, **told.outputs, "calls": list(told.outputs["calls"])}
