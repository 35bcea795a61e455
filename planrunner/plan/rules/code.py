"""Code in plans: it holds no templates, it does not run its values as code, and generated code is reviewed before it
runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.diagnostics import Diagnostic
from planrunner.files.match import is_glob
from planrunner.plan.access import touched
from planrunner.plan.model import Capability, Task
from planrunner.plan.python.rules import RULES, is_one_template
from planrunner.plan.python.scan import scan
from planrunner.plan.rules.texts import Text, place_of
from planrunner.plan.rules.view import PlanView, find_text, region_of
from planrunner.plan.templated import is_template

_RUNS = "python.run"
_HELP = {
    "eval": "use what the value says: `json.loads`, `ast.literal_eval`, a mapping from names to functions",
    "shell": "give the program and its arguments as a list, without a shell",
    "hidden": "write the character as an escape, such as `\\u202e`",
}


def check(view: PlanView) -> Iterable[Diagnostic]:
    for here, task in enumerate(view.plan.tasks):
        if task.uses == _RUNS and isinstance(task.inputs, dict):
            yield from _runs_values(view, here, task.inputs.get("code"))
            yield from _unseen(view, here, task)


def _runs_values(view: PlanView, here: int, code: Any) -> Iterator[Diagnostic]:
    if not isinstance(code, str) or is_template(code):
        return
    for found in scan(code):
        if found.sure:
            end = found.start + len(re.match(r"[\w.]*", code[found.start :])[0] or " ")  # type: ignore[index]
            place = place_of(view, Text(here, "with", "before", code), found.start, end)
            message = f"`{found.what}` {RULES[found.rule].why}"
            yield Diagnostic("PLAN831", message, place, help=_HELP.get(found.rule, "do without it"))


def _unseen(view: PlanView, here: int, task: Task) -> Iterator[Diagnostic]:
    shown = _made(view, here, task)
    if not shown or any(_shows(gate, shown) for gate in _gates_before(view, here)):
        return
    place = find_text(view, shown, region_of(view, task, "with"))
    what = "the code" if is_template(shown) else f"`{shown}`"
    evidence = f'{{code: "{shown}"}}' if is_template(shown) else shown
    needs = ", ".join(task.needs)
    line = f"{{id: review-{task.id}, needs: [{needs}], gate: approval, ask: Run this code, evidence: [{evidence}]}}"
    message = f"{what} is generated during the run and not reviewed before `{task.id}` runs it"
    yield Diagnostic("PLAN832", message, place, help=f"add a gate before it: `- {line}`")


def _made(view: PlanView, here: int, task: Task) -> str:
    """The template or the path of code that is made while the run goes on; empty where the plan does not show that it
    is."""
    inputs = task.inputs
    if is_generated(inputs) and is_one_template(inputs.get("code")):
        return str(inputs["code"])
    place = inputs.get("file") or str(inputs.get("function") or "").rpartition(":")[0]
    if not isinstance(place, str) or is_template(place) or inputs.get("generated") is False:
        return ""
    if not place.endswith(".py"):
        return ""
    if is_generated(inputs):
        return place
    return place if any(_writes(view, view.plan.tasks[number], place) for number in view.graph.upstream(here)) else ""


def _writes(view: PlanView, task: Task, path: str) -> bool:
    """Whether the plan itself says that a task makes a file."""
    capability = view.used.get(task.uses)
    if capability is not None and any(
        each.way == "write" and each.text == path for each in touched(capability, task.inputs)
    ):
        return True
    if path in (*(each.path for each in task.artifacts), *(each.path for each in task.outputs)):
        return True
    return isinstance(task.run, str) and re.search(rf">\s*[\"']?{re.escape(path)}(?![\w.-])", task.run) is not None


def _gates_before(view: PlanView, here: int) -> Iterator[Task]:
    tasks = [view.plan.tasks[number] for number in view.graph.upstream(here)]
    yield from (task for task in (*tasks, *view.outer.values()) if task.gate is not None)


def _shows(task: Task, shown: str) -> bool:
    """Whether the evidence of a gate holds the path or the template, or a pattern that may stand for the path."""
    todo: list[Any] = [task.gate.evidence if task.gate is not None else None]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            todo += item.values()
        elif isinstance(item, (list, tuple)):
            todo += item
        elif isinstance(item, str) and (shown.strip() == item.strip() or _may_show(item, shown)):
            return True
    return False


def _may_show(item: str, shown: str) -> bool:
    return (is_template(item) and not is_template(shown)) or is_glob(item)


CODE = ("application/sql", "text/x-python", "application/x-sh")
"""What ``contentMediaType`` in the schema of an input says where the input is code."""


def check_templates(view: PlanView) -> Iterable[Diagnostic]:
    for here, task in enumerate(view.plan.tasks):
        for key, uses, inputs in _calls(task):
            found = view.capabilities.get(uses) if uses and isinstance(inputs, dict) else None
            if found is not None:
                yield from _judged(view, (here, key), found, inputs)


def _calls(task: Task) -> Iterator[tuple[str, str, Any]]:
    yield "with", task.uses, task.inputs
    if task.rollback is not None:
        yield "rollback", task.rollback.uses, task.rollback.inputs


def _judged(
    view: PlanView, at: tuple[int, str], capability: Capability, inputs: dict[str, Any]
) -> Iterator[Diagnostic]:
    for field in capability.inputs:
        schema = field.schema if isinstance(field.schema, dict) else {}
        if schema.get("contentMediaType") not in CODE or field.name not in inputs:
            continue
        if is_generated(inputs) and is_one_template(inputs[field.name]):
            continue
        for text in _texts(inputs[field.name], field.name):
            start = min(place for sign in ("{{", "{%") if (place := text.find(sign)) >= 0)
            span = place_of(view, Text(at[0], at[1], "before", text), start, max(text.rfind("}") + 1, start + 2))
            message = f"`{field.name}` of `{capability.name}` is code: templates are not rendered in it"
            yield Diagnostic("PLAN216", message, span, help=_way(capability))


def is_generated(inputs: dict[str, Any]) -> bool:
    """Whether a task says that its code is made while the run goes on, so that it is looked at before it runs."""
    return inputs.get("generated") is True


def _texts(value: Any, name: str) -> Iterator[str]:
    """The texts that are code: the value, the items of a list, and in these the entry of the same name."""
    if isinstance(value, str):
        if is_template(value):
            yield value
    elif isinstance(value, dict):
        yield from _texts(value.get(name), name)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, name)


def _way(capability: Capability) -> str:
    names = {field.name for field in capability.inputs}
    if "params" in names:
        return "write `:name` there, and pass the value as `params: {name: …}`"
    way = next((name for name in ("args", "env") if name in names), "")
    return f"pass the value in `{way}`" if way else "pass the value in an input that is data"
